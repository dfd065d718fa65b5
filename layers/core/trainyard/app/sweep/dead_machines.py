"""State machines that died are started again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from trainyard.app.clusters.create_cluster import start_cluster, start_teardown
from trainyard.app.machines.cluster.cluster_fail import cluster_fail
from trainyard.app.machines.inputs import StepInput
from trainyard.app.runs.submit_run import start_run
from trainyard.app.sweep.swept import Swept
from trainyard.domain import names
from trainyard.domain.records import Cluster, Run
from trainyard.ports import Ports

#: StartExecution follows the record's write within this; after it, it was lost.
START_SECONDS = 30
#: So many executions in a row that die at once are a defect, not bad luck.
RESTART_LIMIT = 25
DEAD = frozenset({"FAILED", "TIMED_OUT", "ABORTED"})


def dead_run(ports: Ports, run: Run) -> Iterator[Swept]:
    """Start again a run that never started, or whose execution died.

    The next generation continues from the run's stored state. StartExecution of a run's own
    generation may be on its way; only the sweep itself starts the one after a dead execution.
    """
    for generation in range(run.generation, run.generation + RESTART_LIMIT):
        status = ports.executions.status("run", names.run_execution(run.id, generation))
        if status not in DEAD and status != "SUCCEEDED":
            break
    else:
        yield Swept(
            "failed",
            run.id,
            f"{RESTART_LIMIT} executions died before their first step was done; "
            "look at the newest one",
        )
        return
    died = generation > run.generation and not ports.runs.get(run.id).terminal
    if status is None and (died or is_old(ports, run.updated_at)):
        start_run(ports, run.changed(generation=generation))
        what = "started" if generation == run.generation else "restarted"
        yield Swept(what, run.id, f"generation {generation} had no execution")


def is_old(ports: Ports, moment: datetime) -> bool:
    return ports.clock.now() - moment > timedelta(seconds=START_SECONDS)


def dead_machine(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """A cluster whose machine never started or died.

    A deletion is tried again for ever, the making of a cluster is not.
    """
    if cluster.status in ("Ready", "Updating", "Stopped"):  # no machine has anything to do
        return
    making = cluster.status in ("Pending", "Creating", "InService")
    name = names.cluster_execution(cluster.name, cluster.generation, cluster.machine_tries)
    status = ports.executions.status("cluster" if making else "teardown", name)
    if status == "RUNNING" or (status not in DEAD and not is_old(ports, cluster.updated_at)):
        return
    what = f"the cluster is {cluster.status} and its machine was {status or 'never started'}"
    if not making:
        start_teardown(ports, cluster)
    elif cluster.machine_tries < RESTART_LIMIT:
        tries = cluster.machine_tries + (status is not None)
        start_cluster(ports, ports.clusters.put(cluster.changed(machine_tries=tries)))
    else:
        error = {"Error": "MachineDied", "Cause": f"Its state machine died {RESTART_LIMIT} times."}
        cluster_fail(
            ports,
            StepInput(
                "cluster-fail",
                cluster_name=cluster.name,
                generation=cluster.generation,
                error=error,
            ),
        )
        yield Swept("cluster failed", cluster.name, what)
        return
    yield Swept("machine started", cluster.name, what)
