"""The steps of the three state machines by name.

Every step may be repeated, at any point, any number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trainyard.app.machines.cluster.cluster_await import cluster_await
from trainyard.app.machines.cluster.cluster_create import cluster_create
from trainyard.app.machines.cluster.cluster_decide import cluster_decide
from trainyard.app.machines.cluster.cluster_fail import cluster_fail
from trainyard.app.machines.cluster.cluster_ready import cluster_ready
from trainyard.app.machines.fire import fire
from trainyard.app.machines.inputs import StepInput
from trainyard.app.machines.run.await_outcome import await_outcome
from trainyard.app.machines.run.decide_run import decide_run
from trainyard.app.machines.run.ensure_cluster import ensure_cluster
from trainyard.app.machines.run.export_run import export_run
from trainyard.app.machines.run.finish import finish
from trainyard.app.machines.run.plan_run import plan_run
from trainyard.app.machines.run.repair import repair
from trainyard.app.machines.run.submit_attempt import submit_attempt
from trainyard.app.machines.run.teardown_run import teardown_run
from trainyard.app.machines.teardown.teardown_await import teardown_await
from trainyard.app.machines.teardown.teardown_check import teardown_check
from trainyard.app.machines.teardown.teardown_delete import teardown_delete
from trainyard.app.machines.teardown.teardown_done import teardown_done
from trainyard.app.machines.trouble import trouble
from trainyard.domain.errors import ConflictError, RetryableError, TrainyardError
from trainyard.ports import Ports

Step = Callable[[Ports, StepInput], dict[str, Any]]

STEPS: Mapping[str, Step] = {
    "plan": plan_run,
    "decide": decide_run,
    "ensure-cluster": ensure_cluster,
    "submit": submit_attempt,
    "repair": repair,
    "await-outcome": await_outcome,
    "export": export_run,
    "teardown": teardown_run,
    "finish": finish,
    "trouble": trouble,
    "cluster-create": cluster_create,
    "cluster-await": cluster_await,
    "cluster-decide": cluster_decide,
    "cluster-ready": cluster_ready,
    "cluster-fail": cluster_fail,
    "teardown-check": teardown_check,
    "teardown-delete": teardown_delete,
    "teardown-await": teardown_await,
    "teardown-done": teardown_done,
    "fire-schedule": fire,
}


def run_step(ports: Ports, event: Mapping[str, Any]) -> dict[str, Any]:
    """Run one step.

    Step Functions matches errors by the name of the class itself, so every retryable error leaves
    as RetryableError and every conflict as ConflictError.
    """
    given = StepInput.of(event)
    try:
        return STEPS[given.step](ports, given)
    except TrainyardError as error:
        if error.retryable and type(error) is not RetryableError:
            raise RetryableError(f"{error.code}: {error.detail}") from error
        if isinstance(error, ConflictError) and type(error) is not ConflictError:
            raise ConflictError(f"{error.code}: {error.detail}") from error
        raise
