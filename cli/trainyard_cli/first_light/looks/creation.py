"""How CreateCluster takes our request, and what comes of it."""

from __future__ import annotations

from datetime import datetime

from trainyard_contracts.places import CLUSTER_TAG

from ..register import look
from ..trouble import sentence, trouble
from ..verdicts import Seen, broken, held, unseen
from ..world import World

SHAPE = ("SlurmConfigStrategy", "SlurmConfig", "rchestrator", "NodeProvisioningMode")


@look("A-010", after="create")
def an_empty_slurm_is_an_orchestrator(world: World) -> Seen:
    text = trouble(world)
    refused = next((word for word in SHAPE if word in text), None)
    if refused and world.described is None:
        return broken(
            "A-010",
            f"CreateCluster refused the request's shape: {sentence(text, refused)}",
            (
                "Create with provisioning: AllAtOnce, which sends a strategy, and correct "
                "backends/hyperpod/request.py by AWS's words"
            ),
        )
    if world.described is None:
        return unseen("A-010", "AWS has no such cluster")
    return held(
        "A-010",
        (
            "CreateCluster took it; DescribeCluster says Orchestrator "
            f"{world.described.get('Orchestrator')}"
        ),
    )


@look("A-026", after="create")
def a_role_that_was_just_made_is_refused_in_words_that_we_know(world: World) -> Seen:
    text = trouble(world)
    if world.described is None and world.cluster_name in sentence(text, "role/"):
        return broken(
            "A-026",
            (
                "CreateCluster refused the nodes' role, which was just made, in other words: "
                f"{sentence(text, 'role/')}"
            ),
            (
                "Run it again, which makes another role; if the words are the same, add them to "
                "backends/hyperpod/refusals.py"
            ),
        )
    return unseen("A-026", "CreateCluster took the role; nobody tells whether it refused it before")


@look("A-058", after="create")
def a_role_with_a_path_and_a_boundary_is_taken(world: World) -> Seen:
    if world.described is None:
        return unseen("A-058", "AWS has no such cluster")
    roles = {
        str(group.get("ExecutionRole")) for group in world.described.get("InstanceGroups") or []
    }
    if not all(f"/{world.cluster_name}/" in role for role in roles):
        return broken(
            "A-058",
            f"the groups have other roles than ours: {len(roles)}",
            "Look at DescribeCluster's ExecutionRole",
        )
    return held("A-058", "every group has the cluster's own role, whose path names the cluster")


@look("A-057", after="create")
def our_tags_are_told_back(world: World) -> Seen:
    arn = (world.described or {}).get("ClusterArn")
    if arn is None:
        return unseen("A-057", "AWS has no such cluster")
    tags = {
        tag["Key"]: tag["Value"]
        for tag in world.account.call("sagemaker", "ListTags", ResourceArn=arn).get("Tags") or []
    }
    if tags.get(CLUSTER_TAG) == world.cluster_name:
        return held("A-057", f"ListTags tells {len(tags)} tags of the cluster, ours among them")
    return broken(
        "A-057",
        f"ListTags tells no {CLUSTER_TAG} of the cluster; it tells {', '.join(tags) or 'nothing'}",
        (
            "Orphans are found by that tag: delete clusters by hand until it is there, and look "
            "whether CreateCluster may tag"
        ),
    )


@look("A-011", after="ready")
def a_cluster_is_in_service_before_its_workers(world: World) -> Seen:
    ready = (world.cluster or {}).get("readyAt")
    if not ready or "ready" not in world.began:
        return unseen("A-011", "the cluster was never ready")
    seconds = (
        datetime.fromisoformat(ready.replace("Z", "+00:00")) - world.began["ready"]
    ).total_seconds()
    if seconds <= 0:
        return unseen("A-011", "its nodes had joined before it was seen in service")
    return held("A-011", f"it was in service at least {seconds:.0f} s before its nodes had joined")
