"""Do one decided action: stop the job, exclude nodes, ask for another node, leave the cluster."""

from __future__ import annotations

from collections.abc import Callable

from trainyard.app.audit.own_decisions import audit_own
from trainyard.app.facts.situation import decide_now
from trainyard.app.machines.inputs import StepInput
from trainyard.app.machines.run.agent_answers import agent_answer
from trainyard.app.machines.run.delays import tell_delay
from trainyard.app.machines.run.leave_way import leave_way
from trainyard.domain.errors import BackendRejected, CommandFailed, ConflictError, RetryableError
from trainyard.domain.exclusions import excluded
from trainyard.domain.records import Action, Cluster, ClusterNode, Run, TimelineEntry
from trainyard.domain.states import BEING_REPLACED
from trainyard.outside.seen_clusters import BatchResult
from trainyard.ports import Ports
from trainyard_contracts import commands

#: The agent answers at once and stops the job in the background; well within the function's own
#: limit.
CANCEL_SECONDS = 60.0
EXCLUDE_SECONDS = 60.0


def repair(ports: Ports, given: StepInput) -> dict[str, object]:
    """Do the action and take it off the run.

    What AWS refuses is said in the timeline; it never stops the run.
    """
    action = Action.model_validate(given.action)
    run = ports.runs.get(given.run_id)
    if all(planned.id != action.id for planned in run.actions):
        return {"done": action.id}
    try:
        message, after = _done(ports, run, action)
    except RetryableError as error:
        planned = decide_now(ports, ports.runs.get(run.id)).actions
        if any(known.id == action.id for known in planned):
            tell_delay(ports, run.id, action.id, f"'{action.kind}' has no answer yet", error)
            raise
        return {"done": action.id, "message": "It is not needed any more."}
    now = ports.clock.now()
    number = run.attempt.number if run.attempt else None
    entry = TimelineEntry(
        id=f"status-action-{action.id}",
        at=now,
        kind="status",
        type="Repair",
        message=message,
        attempt=number,
    )
    ports.runs.note(run.id, entry)
    left = [planned for planned in run.actions if planned.id != action.id]
    ports.runs.put(after.changed(actions=left))
    return {"done": action.id, "message": message}


def _done(ports: Ports, run: Run, action: Action) -> tuple[str, Run]:
    """What was done, in words, and the run after it."""
    if action.kind == "leave":
        return leave_way(ports, run, action)
    cluster = ports.clusters.get(run.cluster_name)
    return DOERS[action.kind](ports, cluster, run, action), excluded(run, action)


def _exclude(ports: Ports, cluster: Cluster, run: Run, action: Action) -> str:
    """Change which nodes a waiting job may use.

    The attempt, its number and its fence stay what they are.
    """
    assert action.attempt is not None
    command = commands.Exclude(run.id, action.attempt, tuple(action.nodes))
    try:
        result = ports.backend(cluster).run(
            cluster, command.argv(), timeout_seconds=EXCLUDE_SECONDS
        )
        answer = commands.Excluded.of(agent_answer(result, "exclude"))
    except CommandFailed as failed:
        return f"The nodes of the waiting job could not be changed: {failed.detail}"
    if not answer.waits:
        return f"Attempt {action.attempt} waits no more; its nodes stay what they are."
    return f"Told Slurm that attempt {action.attempt}, which waits in its queue, {action.reason}."


def _replace(ports: Ports, cluster: Cluster, run: Run, action: Action) -> str:
    node = _find(ports, cluster, action)
    if node is None:
        return f"{action.node} is being replaced already."
    if cluster.adoption is not None and not cluster.adoption.replace_nodes:
        return f"{action.node} is left to the owners of the cluster, who do not let us replace it."
    audit_own(
        ports,
        "node.replace",
        f"node/{cluster.name}/{node.instance_id}",
        key=f"{run.id}-{action.id}-{node.instance_id}",
        reason=action.reason or f"Run {run.id} lost node {action.node}.",
    )
    try:
        result = ports.backend(cluster).replace(cluster.name, [node.instance_id])
    except (BackendRejected, ConflictError) as refused:
        return f"AWS did not replace {action.node}: {refused.detail}"
    if node.instance_id in result.failed and _find(ports, cluster, action) is None:
        # By another invocation of this very step, or by a person.
        return f"{action.node} is being replaced already."
    return _said(
        result,
        node,
        f"Asked AWS to replace {action.node} ({node.instance_id}) behind the run's back.",
    )


def _cancel_job(ports: Ports, cluster: Cluster, run: Run, action: Action) -> str:
    if cluster.status != "Ready":
        return "There is no job to stop: the cluster is not ready."
    try:
        result = ports.backend(cluster).run(
            cluster, commands.Cancel(run.id).argv(), timeout_seconds=CANCEL_SECONDS
        )
        answer = commands.Cancelling.of(agent_answer(result, "cancel"))
    except CommandFailed as failed:
        return f"The job could not be stopped: {failed.detail}"
    return f"Told the job to stop ({answer.state})."


def _find(ports: Ports, cluster: Cluster, action: Action) -> ClusterNode | None:
    """The very instance that was lost.

    A replaced node has the same Slurm name but another instance id.
    """
    for node in ports.backend(cluster).nodes(cluster):
        found = (
            node.instance_id == action.instance_id
            if action.instance_id
            else node.name == action.node
        )
        if found and node.role == "worker" and node.status not in BEING_REPLACED:
            return node
    return None


def _said(result: BatchResult, node: ClusterNode, success: str) -> str:
    if node.instance_id in result.failed:
        return f"AWS refused for {node.instance_id}: {result.failed[node.instance_id]}"
    return success


DOERS: dict[str, Callable[[Ports, Cluster, Run, Action], str]] = {
    "replace": _replace,
    "cancel-job": _cancel_job,
    "exclude": _exclude,
}
