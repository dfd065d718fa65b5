"""`trainyard cluster adopt` and `release`: clusters that others made."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.markup import escape

from trainyard_sdk.client import Json
from trainyard_sdk.spec_files import read_spec

from ..context import context_of
from ..problems import FAILED
from ..screen.cluster_page import print_cluster
from ..screen.output import confirmed, err, out, print_fields, print_json
from ..screen.waiting import Timeout
from .cluster_waiting import ClusterName, wait_for
from .options import Yes
from .people import Reason

ENDS = ("Ready", "Failed", "Released", "Releasing")


Theirs = Annotated[str, typer.Argument(metavar="CLUSTER", help="name or ARN of the cluster at AWS")]
File = Annotated[
    str | None,
    typer.Option(
        "--file", "-f", help="an AdoptSpec in YAML or JSON with more than the options say"
    ),
]
SharedDir = Annotated[str | None, typer.Option(help="a directory that every node has mounted")]
ControllerGroup = Annotated[
    str | None, typer.Option(help="the group of Slurm's controller, if AWS does not say it")
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(metavar="GROUP=PARTITION", help="of a worker group, if AWS does not say it"),
]
ReplaceNodes = Annotated[
    bool, typer.Option("--replace-nodes", help="Trainyard may replace and reboot its nodes")
]
PolicyOnly = Annotated[
    bool,
    typer.Option(
        "--dryrun", "--dry-run", help="print the policy that its nodes' role needs; do nothing"
    ),
]


def adopt(
    typer_context: typer.Context,
    cluster: Theirs,
    file: File = None,
    shared_dir: SharedDir = None,
    controller_group: ControllerGroup = None,
    partition: Partitions = None,
    replace_nodes: ReplaceNodes = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until it is ready")] = False,
    timeout: Timeout = None,
    dryrun: PolicyOnly = False,
) -> None:
    """Let Trainyard run jobs on a HyperPod cluster that others made."""
    context = context_of(typer_context)
    spec: Json = read_spec(file) if file else {}
    spec["arn" if cluster.startswith("arn:") else "name"] = cluster
    given: dict[str, Any] = {"sharedDir": shared_dir, "controllerGroup": controller_group}
    spec |= {key: value for key, value in given.items() if value is not None}
    if partition:
        spec["partitions"] = {**spec.get("partitions", {}), **_pairs(partition)}
    if replace_nodes:
        spec["allow"] = {"replaceNodes": True}
    if dryrun:
        _print_plan(context.client.plan_adoption(spec), as_json=context.json)
        return
    found = context.client.adopt_cluster(spec)
    if wait:
        ended = lambda now: now is None or now["status"] in ENDS  # noqa: E731
        found = wait_for(context, found["name"], ended, timeout) or found
    print_cluster(found, as_json=context.json)
    if found["status"] != "Ready" and wait:
        raise typer.Exit(FAILED)
    if not wait:
        err.print(f"Follow it with: trainyard cluster show {escape(found['name'])}")


def release(
    typer_context: typer.Context,
    cluster: ClusterName,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until nothing is left")] = False,
    timeout: Timeout = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="leave what was not exported, and give up nodes that do not answer"
        ),
    ] = False,
    reason: Reason = None,
    yes: Yes = False,
) -> None:
    """Take Trainyard off the nodes of an adopted cluster; the cluster itself stays."""
    context = context_of(typer_context)
    confirmed(f"Release cluster {cluster}?", yes=yes, as_json=context.json)
    found = context.client.release_cluster(cluster, force=force, reason=reason)
    if wait:
        done = lambda now: now is None or now["status"] == "Released"  # noqa: E731
        found = wait_for(context, cluster, done, timeout) or {**found, "status": "Released"}
    if context.json or found["status"] == "Released":
        print_cluster(found, as_json=context.json)
        return
    out.print(f"Releasing {escape(cluster)}.")
    err.print(f"Follow it with: trainyard cluster show {escape(cluster)}")


def _pairs(given: list[str]) -> dict[str, str]:
    found = {}
    for pair in given:
        group, equals, partition = pair.partition("=")
        if not (group and equals and partition):
            raise typer.BadParameter(f"'{pair}' must be GROUP=PARTITION, such as gpu=dev")
        found[group] = partition
    return found


def _print_plan(plan: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    spec = plan["spec"]
    print_fields({
        "cluster": escape(spec["name"]),
        "shared": spec["sharedFilesystem"]["mountPath"],
        "roles": escape(", ".join(plan["roles"])),
    })  # fmt: skip
    out.print("Each of these roles must allow, besides what HyperPod needs:")
    out.print(json.dumps(plan["policy"], indent=2), markup=False, highlight=False, soft_wrap=True)
