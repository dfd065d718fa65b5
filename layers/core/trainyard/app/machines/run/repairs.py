"""What can be done behind a run's back."""

from __future__ import annotations

from collections.abc import Callable

from trainyard.app.machines.run.agent_answers import agent_answer
from trainyard.app.machines.run.replacing import replace_node
from trainyard.domain.errors import CommandFailed
from trainyard.domain.records import Action, Cluster, Run
from trainyard.ports import Ports
from trainyard_contracts import commands

#: The agent answers at once and stops the job in the background; well within the function's own
#: limit.
CANCEL_SECONDS = 60.0
EXCLUDE_SECONDS = 60.0


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


DOERS: dict[str, Callable[[Ports, Cluster, Run, Action], str]] = {
    "replace": replace_node,
    "cancel-job": _cancel_job,
    "exclude": _exclude,
}
