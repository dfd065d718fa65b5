"""`trainyard cluster ...` and `trainyard node ...`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.client import Json
from trainyard_sdk.spec_files import read_spec

from ..cluster_groups import groups_listed, groups_of, nodes_of
from ..context import Context, context_of
from ..problems import FAILED, ApiProblem, InvalidInput
from ..screen.output import (
    ago,
    bytes_text,
    confirmed,
    err,
    may_ask,
    out,
    print_fields,
    print_json,
    print_table,
    scheduler_word,
    styled,
    table,
)
from ..screen.waiting import Timeout, Waiting
from ..screen.words import labels_text
from . import filters
from .people import Reason, name_of
from .runs import Yes, print_plan

clusters = typer.Typer(no_args_is_help=True, help="Clusters: node groups on a backend.")
nodes = typer.Typer(no_args_is_help=True, help="Nodes of a cluster.")

POLL_SECONDS = 1.0
Name = Annotated[str, typer.Argument(metavar="CLUSTER", help="name of the cluster")]
InstanceId = Annotated[
    str,
    typer.Argument(
        metavar="NODE", help="instance id or node name, from: trainyard node ls CLUSTER"
    ),
]


@clusters.command()
def create(
    typer_context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="ClusterSpec in YAML or JSON; - for standard input"),
    ],
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until it is ready")] = False,
    timeout: Timeout = None,
    dryrun: Annotated[
        bool, typer.Option("--dryrun", help="show exactly what would be created, and do nothing")
    ] = False,
) -> None:
    """Create a cluster that belongs to no run."""
    context, spec = context_of(typer_context), read_spec(file, "cluster")
    if dryrun:
        print_plan(context, context.client.plan_cluster(spec))
        return
    cluster = context.client.create_cluster(spec)
    if wait:
        cluster = (
            wait_for(
                context,
                cluster["name"],
                lambda found: found is None or found["status"] in ("Ready", "Failed", "Deleted"),
                timeout,
            )
            or cluster
        )
    print_cluster(context, cluster)
    if cluster["status"] in ("Failed", "Deleted"):
        raise typer.Exit(FAILED)


@clusters.command()
def update(
    typer_context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="the ClusterSpec that its cluster is to have"),
    ],
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until the change is over")] = False,
    timeout: Timeout = None,
    dryrun: Annotated[
        bool,
        typer.Option(
            "--dryrun", "--dry-run", help="show what it takes and what is refused, and do nothing"
        ),
    ] = False,
) -> None:
    """Give a cluster that is there another spec."""
    context, spec = context_of(typer_context), read_spec(file, "cluster")
    name = str(spec.get("name") or "")
    if not name:
        raise InvalidInput(
            "The spec names no cluster", f"name: is missing in {file}", "Give the cluster's name."
        )
    if dryrun:
        print_plan(context, context.client.update_cluster(name, spec, dryrun=True))
        return
    _follow_change(context, context.client.update_cluster(name, spec), wait, timeout)


@clusters.command()
def stop(
    typer_context: typer.Context,
    cluster: Name,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until it is stopped")] = False,
    timeout: Timeout = None,
    force: Annotated[
        bool, typer.Option("--force", help="also with people's jobs on it, which are ended")
    ] = False,
    reason: Reason = None,
    yes: Yes = False,
) -> None:
    """Stop a cluster's fleet: its workers end, its head node and its files stay."""
    context = context_of(typer_context)
    if force:
        question = f"Stop {cluster}, and end people's jobs on it?"
        confirmed(question, yes=yes, as_json=context.json)
    found = context.client.stop_cluster(cluster, force=force, reason=reason)
    _follow_change(context, found, wait, timeout)


@clusters.command()
def start(
    typer_context: typer.Context,
    cluster: Name,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until it is started")] = False,
    timeout: Timeout = None,
) -> None:
    """Start a cluster's fleet that was stopped."""
    context = context_of(typer_context)
    _follow_change(context, context.client.start_cluster(cluster), wait, timeout)


@clusters.command()
def keep(typer_context: typer.Context, cluster: Name, reason: Reason = None) -> None:
    """Keep a cluster that nobody uses: its idle time begins anew."""
    context = context_of(typer_context)
    document = context.client.keep_cluster(cluster, reason=reason)
    if context.json:
        print_json(document)
        return
    seconds = (document.get("spec") or {}).get("idleLimitSeconds")
    words = f" for another {seconds} s without a run" if seconds else ""
    out.print(f"{escape(document['name'])} is kept{words}", soft_wrap=True)


_CHANGE_FAILED = ("refused", "rolled-back", "failed")


def _follow_change(context: Context, cluster: Json, wait: bool, timeout: int | None) -> None:
    if wait:
        cluster = wait_for(context, cluster["name"], _change_is_over, timeout) or cluster
    print_cluster(context, cluster)
    change = cluster.get("change") or {}
    if change and not change.get("endedAt"):
        err.print(f"Follow it with: trainyard cluster show {escape(cluster['name'])}")
    if wait and change.get("state") in _CHANGE_FAILED:
        raise typer.Exit(FAILED)


def _change_is_over(found: Json | None) -> bool:
    if found is None or found["status"] in ("Failed", "Deleting", "Deleted"):
        return True
    change = found.get("change")
    return change is None or bool(change.get("endedAt"))


@clusters.command("ls")
def list_clusters(
    typer_context: typer.Context,
    status: filters.Status = None,
    label: filters.Label = None,
    name: filters.Name = None,
    since: filters.Since = None,
    until: filters.Until = None,
    mine: filters.Mine = False,
    by: filters.By = None,
    order: filters.Order = "newest",
    limit: filters.Limit = 1000,
    show_labels: filters.ShowLabels = False,
    output: filters.Output = "table",
) -> None:
    """List clusters, newest first."""
    context = context_of(typer_context)
    asked = filters.asked(
        status=status, label=label, name=name, since=since, until=until, mine=mine, by=by,
        order=order,
    )  # fmt: skip
    found = context.client.clusters(at_most=limit, **asked)
    if context.json or output == "json":
        print_json({"clusters": found})
    elif output == "id":
        for cluster in found:
            out.print(cluster["name"], markup=False, soft_wrap=True)
    elif found:
        columns = ["cluster", "owner", "status", "made for", "nodes", "age"]
        rows = [_cluster_row(cluster, show_labels=show_labels) for cluster in found]
        print_table(table([*columns, *(["labels"] if show_labels else [])], rows))
    elif any(asked.values()):
        out.print("No cluster is like that. All of them: trainyard cluster ls")
    else:
        out.print("No clusters. Make one: trainyard cluster create FILE")


def _cluster_row(cluster: Json, *, show_labels: bool) -> list[object]:
    return [
        escape(cluster["name"]),
        name_of(cluster.get("createdBy")),
        styled(cluster["status"]),
        escape(cluster.get("ownerRun") or "-"),
        nodes_of(groups_listed(cluster)) or "-",
        ago(cluster["createdAt"]),
        *([escape(labels_text(cluster.get("labels")))] if show_labels else []),
    ]


@clusters.command(context_settings=filters.TAKES_LABELS)
def label(typer_context: typer.Context, cluster: Name, changes: filters.LabelChanges) -> None:
    """Set labels of a cluster, or take them away; the others stay."""
    context = context_of(typer_context)
    document = context.client.label_cluster(cluster, filters.label_changes(changes))
    if context.json:
        print_json(document)
    else:
        labels = escape(labels_text(document.get("labels")))
        out.print(f"{escape(document['name'])}: {labels}", soft_wrap=True)


@clusters.command()
def limits(
    typer_context: typer.Context,
    cluster: Name,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="fairBy and limits in YAML or JSON; - for standard input",
        ),
    ],
) -> None:
    """Set who has a turn when on a cluster that runs share, in place of what was there."""
    context = context_of(typer_context)
    document = context.client.share_fairly(cluster, read_spec(file))
    if context.json:
        print_json(document)
    else:
        out.print(f"{escape(document['name'])}: {_sharing(document)}", soft_wrap=True)


def _sharing(cluster: Json) -> str | None:
    """'fair by team; team=vision: at most 2 runs; each owner: at most 4 nodes'"""
    sharing = cluster.get("sharing") or {}
    words = [f"fair by {sharing['fairBy']}"] if sharing.get("fairBy") else []
    for limit in sharing.get("limits") or []:
        whose = f"{limit.get('label')}={limit.get('value') or '*'}"
        if limit.get("owner"):
            whose = f"owner {limit['owner']}"
        most = [
            f"{limit[field]} {noun}"
            for field, noun in (("maxRuns", "runs"), ("maxNodes", "nodes"))
            if limit.get(field)
        ]
        words.append(f"{whose}: at most {' and '.join(most)}")
    return escape("; ".join(words)) or "no limits"


@clusters.command()
def show(typer_context: typer.Context, cluster: Name) -> None:
    """Show a cluster."""
    context = context_of(typer_context)
    print_cluster(context, context.client.cluster(cluster))


@clusters.command()
def delete(
    typer_context: typer.Context,
    cluster: Name,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until it is gone")] = False,
    timeout: Timeout = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="also with people's jobs on it, and with what was not exported"
        ),
    ] = False,
    yes: Yes = False,
    reason: Reason = None,
) -> None:
    """Delete a cluster that nobody uses."""
    context = context_of(typer_context)
    confirmed(f"Delete cluster {cluster}?", yes=yes, as_json=context.json)
    document = context.client.delete_cluster(cluster, force=force, reason=reason)
    if wait:
        document = wait_for(
            context,
            cluster,
            lambda found: found is None or found["status"] in ("Deleted", "Failed"),
            timeout,
        ) or {
            **document,
            "status": "Deleted",
        }
    if context.json or document["status"] in ("Deleted", "Failed"):
        print_cluster(context, document)
    else:  # its status may still be what it was
        out.print(f"Deleting {escape(cluster)}.")
        err.print(f"Follow it with: trainyard cluster show {escape(cluster)}")
    if document["status"] == "Failed":
        raise typer.Exit(FAILED)


def wait_for(
    context: Context,
    name: str,
    done: Callable[[Json | None], bool],
    timeout: int | None = None,
) -> Json | None:
    """Poll the cluster until it is done; None = there is none any more."""
    back = f"trainyard cluster show {name}"
    waiting = Waiting(f"cluster {name}", back, timeout, poll_seconds=POLL_SECONDS)
    return waiting.until(
        lambda: _cluster_or_none(context, name),
        done,
        lambda found: str((found or {}).get("status", "gone")),
    )


def _cluster_or_none(context: Context, name: str) -> Json | None:
    try:
        return context.client.cluster(name)
    except ApiProblem as problem:
        if problem.status == 404:
            return None
        raise


def _owner(cluster: Json) -> str | None:
    owner = cluster.get("createdBy")
    return f"{name_of(owner)} ({escape(owner['arn'])})" if owner else None


def print_cluster(context: Context, cluster: Json) -> None:
    if context.json:
        print_json(cluster)
        return
    problem = cluster.get("problem")
    print_fields(
        {
            "cluster": escape(cluster["name"]),
            "status": styled(cluster["status"]),
            "backend": cluster["spec"]["backend"],
            "groups": ", ".join(
                f"{group.name} {group.number}+{group.spares} {group.instance_type}"
                for group in groups_of(cluster["spec"])
            ),
            "labels": escape(labels_text(cluster.get("labels"))) if cluster.get("labels") else None,
            "sharing": _sharing(cluster) if (cluster.get("sharing") or {}).get("limits") else None,
            "owner": _owner(cluster),
            "made for": cluster.get("ownerRun"),
            "capacity": _try(cluster),
            "change": _change(cluster),
            "adopted": _adopted(cluster),
            "arn": cluster.get("arn"),
            "problem": f"[red]{escape(problem['title'])}[/]: {escape(problem['detail'])}"
            if problem
            else None,
            "next step": escape(problem["nextStep"]) if problem else None,
        }
    )


def _try(cluster: Json) -> str | None:
    tries = cluster.get("tries") or []
    return f"try {tries[-1]['number']}: {escape(tries[-1]['way'])}" if tries else None


def _adopted(cluster: Json) -> str | None:
    """How far the agent is on the nodes of a cluster that others made, and what stayed there."""
    adoption = cluster.get("adoption")
    if not adoption:
        return None
    nodes = adoption.get("nodes") or {}
    states = Counter(node.get("state") for node in nodes.values())
    words = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    failed = [f"{key}: {node['reason']}" for key, node in nodes.items() if node.get("reason")]
    return escape("; ".join([words or "no nodes", *failed[:3], *(adoption.get("left") or [])]))


def _change(cluster: Json) -> str | None:
    change = cluster.get("change")
    if not change:
        return None
    what = "update" if change.get("spec") else f"fleet {change.get('fleet')}"
    words = f"{what}: {change.get('state')}"
    return escape(f"{words}. {change['reason']}" if change.get("reason") else words)


@nodes.command("ls")
def list_nodes(typer_context: typer.Context, cluster: Name) -> None:
    """List nodes with their health and newest sample."""
    context = context_of(typer_context)
    found = context.client.nodes(cluster)
    if context.json:
        print_json({"nodes": found})
        return
    columns = [
        "node",
        "instance",
        "group",
        "role",
        "type",
        "state",
        "agent",
        "Slurm",
        "CPU",
        "memory",
    ]
    if found:
        print_table(table(columns, [_node_row(node) for node in found]))
    else:
        out.print("No nodes.")


def _node_row(node: Json) -> list[object]:
    sample = node.get("sample") or {}
    memory = (
        f"{bytes_text(sample['memoryUsedBytes'])} / {bytes_text(sample['memoryTotalBytes'])}"
        if sample
        else "-"
    )
    state = [styled(word) for word in (node["status"], node["agent"], scheduler_word(node))]
    load = [f"{sample['cpuPercent']:.0f}%" if sample else "-", memory]
    return [
        node.get("name") or "-",
        node["instanceId"],
        escape(node["group"]),
        node["role"],
        node["instanceType"],
        *state,
        *load,
    ]


@nodes.command()
def replace(
    typer_context: typer.Context,
    cluster: Name,
    instance: InstanceId,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="until another instance runs in its place")
    ] = False,
    timeout: Timeout = None,
    reason: Reason = None,
    yes: Yes = False,
) -> None:
    """Replace a node by a new instance."""
    context = context_of(typer_context)
    node = _instance_id(context, cluster, instance)
    _ask_if_it_trains(context, cluster, node, "Replace", yes=yes)
    before = context.client.nodes(cluster) if wait else []
    result = context.client.replace_node(cluster, node, reason=reason)
    if wait and not result["failed"]:
        back = f"trainyard node ls {cluster}"
        Waiting(f"node {node}", back, timeout, poll_seconds=POLL_SECONDS).until(
            lambda: context.client.nodes(cluster),
            lambda now: _is_replaced(node, before, now),
            lambda now: "still there" if _with_id(now, node) else "gone, its successor not there",
        )
    _print_batch(context, result, "Replaced" if wait else "Replacing")


def _with_id(nodes: list[Json], instance_id: str) -> list[Json]:
    return [node for node in nodes if node["instanceId"] == instance_id]


def _is_replaced(instance_id: str, before: list[Json], now: list[Json]) -> bool:
    """Whether it is gone and its group has an instance that runs and was not there before."""
    groups = {node["group"] for node in _with_id(before, instance_id)}
    known = {node["instanceId"] for node in before}
    fresh = [node for node in now if node["instanceId"] not in known and node["group"] in groups]
    return not _with_id(now, instance_id) and any(node["status"] == "Running" for node in fresh)


def _has_job(node: Json) -> bool:
    return str(node.get("scheduler", "")).lower().startswith(("alloc", "mix", "comp"))


@nodes.command()
def reboot(
    typer_context: typer.Context,
    cluster: Name,
    instance: InstanceId,
    reason: Reason = None,
    yes: Yes = False,
) -> None:
    """Reboot a node."""
    context = context_of(typer_context)
    node = _instance_id(context, cluster, instance)
    _ask_if_it_trains(context, cluster, node, "Reboot", yes=yes)
    result = context.client.reboot_node(cluster, node, reason=reason)
    _print_batch(context, result, "Rebooting")


def _ask_if_it_trains(
    context: Context, cluster: str, instance: str, verb: str, *, yes: bool
) -> None:
    """A node that works for a run loses what was trained since the newest checkpoint."""
    if yes or context.json or not may_ask():
        return
    for node in context.client.nodes(cluster):
        if node["instanceId"] == instance and _has_job(node):
            question = f"{node.get('name') or instance} runs a job now. {verb} it?"
            confirmed(question, yes=yes, as_json=context.json)


def _instance_id(context: Context, cluster: str, given: str) -> str:
    """The instance id of a node that is given by name or by id.

    The API knows nodes by instance id only, but people copy the name, which is first in the list.
    The API refuses what is neither.
    """
    if given.startswith("i-"):
        return given
    return next(
        (
            str(node["instanceId"])
            for node in context.client.nodes(cluster)
            if node.get("name") == given
        ),
        given,
    )


def _print_batch(context: Context, result: Json, word: str) -> None:
    if context.json:
        print_json(result)
    else:
        for instance in result["successful"]:
            out.print(f"{word} {instance}")
        for instance, reason in result["failed"].items():
            err.print(f"[red]{instance}[/] {escape(reason)}")
    if result["failed"]:
        raise typer.Exit(FAILED)
