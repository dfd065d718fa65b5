"""Whether the image of HyperPod's nodes has what we look for, as new nodes report it."""

from __future__ import annotations

from typing import Any

from ..node_reports import Story, as_processes, judged, stories
from ..register import look
from ..verdicts import Seen, broken, held, unseen
from ..world import World

PYTHONS = ((3, 10), (3, 12))
UNITS = {
    "controller": ("munge", "slurmctld"),
    "worker": ("munge", "slurmd"),
    "login": ("munge", "slurmd"),
}


@look("A-027", after=("create", "ready"))
def resource_config_tells_instances_and_their_addresses(world: World) -> Seen:
    found = stories(world)
    failed = [line for story in found if (line := story.said("FAILED in step 'resource config'"))]
    if failed:
        told = {
            story.group: (story.facts.get("resourceConfig") or {}).get("groups") for story in found
        }
        return broken(
            "A-027",
            (
                f"a node could not find itself in resource_config.json: {failed[0]}; "
                f"addresses there by group: {told}"
            ),
            (
                "Read the file on a node (/opt/ml/config/resource_config.json) and correct "
                "node_agent/lifecycle/node.py by it"
            ),
        )
    readers = [
        story for story in found if (story.facts.get("resourceConfig") or {}).get("clusterArn")
    ]
    if not readers:
        return unseen("A-027", "no node told of its resource_config.json")
    return held(
        "A-027",
        (
            f"{len(readers)} nodes found themselves in it, by the "
            f"{readers[0].facts['resourceConfig']['place']} path"
        ),
    )


@look("A-028", after="ready")
def the_controller_comes_first_and_groups_without_instances_say_null(world: World) -> Seen:
    workers = [
        group["name"] for group in world.cluster_spec["instanceGroups"] if group["role"] == "worker"
    ]
    for story in stories(world, "controller"):
        groups = (story.facts.get("resourceConfig") or {}).get("groups") or {}
        if not groups:
            continue
        if all(groups.get(name) is None for name in workers):
            return held(
                "A-028", "on the controller every group of workers had null for its instances"
            )
        return unseen(
            "A-028", f"instances of workers were known already when the controller began: {groups}"
        )
    return unseen("A-028", "the controller told nothing of resource_config.json")


@look("A-029", after="ready")
def slurm_lies_where_we_call_it(world: World) -> Seen:
    remedy = (
        "Look where sbatch and slurmd lie on a node, and correct /opt/slurm in "
        "node_agent/lifecycle and the agent's slurmBin"
    )
    return judged(
        world,
        "A-029",
        lambda story: None if as_processes(story) else _slurm(story, "layout"),
        "Slurm lies below /opt/slurm",
        remedy,
    )


@look("A-030", after="ready")
def slurmd_takes_its_server_from_the_unit(world: World) -> Seen:
    def takes(story: Story) -> bool | None:
        unit = _slurm(story, "unit")
        return None if unit is None else unit != "none"

    remedy = (
        "Workers never join Slurm so; look at slurmd.service on a worker, and give it its "
        "server in step_install.slurmd_options"
    )
    return judged(
        world,
        "A-030",
        takes,
        "slurmd.service takes --conf-server, or SLURMD_OPTIONS",
        remedy,
        role="worker",
    )


@look("A-031", after="ready")
def workers_are_cloud_nodes(world: World) -> Seen:
    states = sorted(
        {
            str(node["scheduler"])
            for node in world.nodes
            if node["role"] == "worker" and node["scheduler"] != "unknown"
        }
    )
    if not states:
        return unseen("A-031", "the scheduler's view of the workers was not heard yet")
    if all("cloud" in state for state in states):
        return held("A-031", f"Slurm says of the workers: {', '.join(states)}")
    return broken(
        "A-031",
        f"Slurm says of the workers: {', '.join(states)}",
        (
            "A node without State=CLOUD serves as well; tell us, since replacements come back "
            "otherwise there"
        ),
    )


@look("A-032", after="ready")
def there_is_a_partition_over_all_nodes_beside_ours(world: World) -> Seen:
    for story in stories(world, "controller"):
        partitions = _slurm(story, "partitions")
        if as_processes(story) or not partitions:
            continue
        if "dev" in partitions:
            return held("A-032", f"partitions on the controller: {', '.join(partitions)}")
        return unseen(
            "A-032",
            f"no partition dev; there is {', '.join(partitions)}, and jobs name theirs in any case",
        )
    return unseen("A-032", "no controller with an image told of its partitions")


@look("A-033", after=("create", "ready"))
def on_init_complete_finds_slurm_up(world: World) -> Seen:
    if (world.cluster or {}).get("spec", {}).get("slurmSetup", "SlurmConfig") != "SlurmConfig":
        return unseen("A-033", "the lifecycle scripts set Slurm up themselves in this cluster")
    roles = {group["name"]: group["role"] for group in world.cluster_spec["instanceGroups"]}

    def up(story: Story) -> bool | None:
        units = story.facts.get("units")
        return (
            None
            if units is None
            else all(
                units.get(unit) == "active" for unit in UNITS[roles.get(story.group, "worker")]
            )
        )

    remedy = (
        "Create with slurmSetup: ProvisioningParameters, where our scripts set Slurm up, and "
        "report in which order HyperPod runs them"
    )
    return judged(
        world,
        "A-033",
        up,
        "munge and the Slurm daemon of its role were up before the script",
        remedy,
    )


@look("A-034", after="ready")
def the_nodes_python_is_one_that_the_agent_has_packages_for(world: World) -> Seen:
    def fits(story: Story) -> bool | None:
        version = str(story.facts.get("python") or "").split(".")
        return (
            None
            if len(version) < 2
            else PYTHONS[0] <= (int(version[0]), int(version[1])) <= PYTHONS[1]
        )

    remedy = "Build the agent's packages for that Python too: node_agent/build_packages.py"
    return judged(world, "A-034", fits, "python3 is 3.10 to 3.12", remedy)


@look("A-035", after=("create", "ready"))
def names_resolve_within_two_minutes(world: World) -> Seen:
    found = stories(world)
    never = [line for story in found if (line := story.said("has no address after"))]
    if never:
        return broken(
            "A-035",
            never[0],
            (
                "Switch DNS support and DNS host names of the VPC on, and look at the resolver on "
                "a node"
            ),
        )
    seconds = [
        story.facts["namesSeconds"]
        for story in found
        if story.facts.get("namesSeconds") is not None
    ]
    if not seconds:
        return unseen("A-035", "no node told how long names took")
    return held(
        "A-035", f"names resolved on {len(seconds)} nodes, after {max(seconds):.0f} s at most"
    )


@look("A-036", after="ready")
def what_scripts_write_to_provisioning_log_reaches_cloudwatch(world: World) -> Seen:
    if not world.log_streams:
        return unseen("A-036", f"{world.log_group} has no stream")
    found = stories(world)
    if not found:
        return broken(
            "A-036",
            f"none of {len(world.log_streams)} streams of the cluster has a line of ours",
            (
                "Look which file the node's CloudWatch agent sends (Developer Guide, HyperPod "
                "FAQ), and correct on_create.sh"
            ),
        )
    whole = sum(story.finished for story in found)
    return held("A-036", f"{len(found)} instances' lines are there, of {whole} to the last")


@look("A-038", after="ready")
def a_node_is_named_by_its_address(world: World) -> Seen:
    remedy = (
        "Slurm's names of nodes are made of their addresses in Identity.node_name: "
        "compare with scontrol show nodes"
    )
    return judged(
        world,
        "A-038",
        lambda story: None if as_processes(story) else story.facts.get("hostNamedByAddress"),
        "the host name is ip-a-b-c-d",
        remedy,
    )


@look("A-041", after="ready")
def credentials_are_the_instances(world: World) -> Seen:
    def instance(story: Story) -> bool | None:
        given = story.facts.get("credentials")
        return None if given is None or as_processes(story) else given == "instance"

    return judged(
        world,
        "A-041",
        instance,
        "credentials come from the instance's role",
        "Look what sets AWS_ACCESS_KEY_ID for lifecycle scripts",
    )


@look("A-043", after=("create", "ready"))
def fsx_is_mounted_by_the_images_client(world: World) -> Seen:
    if not world.cluster_spec.get("sharedFilesystem"):
        return unseen("A-043", "the cluster has no sharedFilesystem")
    found = stories(world)
    failed = [line for story in found if (line := story.said("FAILED in step 'shared filesystem'"))]
    if failed:
        return broken(
            "A-043",
            failed[0],
            (
                "Look at the file system's state, its security group (988 and 1018 to 1023 from "
                "the nodes) and its zone: trainyard doctor SPEC"
            ),
        )
    mounted = [story for story in found if story.facts.get("mounted")]
    if mounted:
        return held("A-043", f"it was mounted on {len(mounted)} nodes before our scripts ran")
    if any(story.finished for story in found) and not all(as_processes(story) for story in found):
        return held("A-043", "our scripts mounted it with the image's client")
    return unseen("A-043", "no node told of a mount")


@look("A-055", after="ready")
def slurmctld_is_the_user_slurms(world: World) -> Seen:
    def is_slurm(story: Story) -> bool | None:
        user = _slurm(story, "user")
        return None if user is None or as_processes(story) else user == "slurm"

    remedy = (
        "The job-end hook runs as that user: it must be able to run "
        "/opt/trainyard/bin/slurm-job-end"
    )
    return judged(world, "A-055", is_slurm, "SlurmUser is slurm", remedy, role="controller")


@look("A-065", after="ready")
def the_controller_has_git(world: World) -> Seen:
    return judged(
        world,
        "A-065",
        lambda story: None if as_processes(story) else story.facts.get("git"),
        "git is there",
        "A run with job.git ends with words there: install git in the image, or use job.workdir",
        role="controller",
    )


def _slurm(story: Story, name: str) -> Any:
    return (story.facts.get("slurm") or {}).get(name)
