"""Our settings of Slurm outlive whoever rewrites slurm.conf, on a real Slurm with a real agent."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.agent_cluster import AgentCluster
from tests.support.waiting import eventually

from trainyard_agent.host.slurm_nodes import parse_nodes

HOOK = "/bin/true"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[AgentCluster]:
    made = AgentCluster(
        tmp_path / "cluster",
        workers=1,
        settings=("SchedulerParameters=bf_interval=7", "CompleteWait=5"),
    )
    try:
        yield made.start(jobEndHook=HOOK)
    finally:
        made.stop()


def in_force(cluster: AgentCluster) -> bool:
    # scontrol ends with 1 while slurmctld reads its configuration again: it finds nobody to ping.
    asked = subprocess.run(
        ["scontrol", "show", "config"],
        env=cluster.environment(cluster.controller),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    shown = asked.stdout
    if "EpilogSlurmctld" not in shown:
        return False
    found = {
        name.strip(): value.strip()
        for name, _, value in (line.partition("=") for line in shown.splitlines())
    }
    scheduler = "bf_interval=7,batch_sched_delay=0"
    return (found["EpilogSlurmctld"], found["CompleteWait"], found["SchedulerParameters"]) == (
        HOOK,
        "0 sec",
        scheduler,
    )


def registered(cluster: AgentCluster) -> list[bool]:
    nodes = parse_nodes(cluster.slurm("scontrol", "-o", "show", "nodes"))
    return [node.registered for node in nodes.values()]


def test_settings_that_a_rewriting_of_slurm_conf_drops_are_in_force_again(
    cluster: AgentCluster,
) -> None:
    eventually("our settings are in force", lambda: in_force(cluster), 20)
    eventually("the worker is registered", lambda: registered(cluster) == [True], 20)
    conf = cluster.slurm_conf
    without = conf.read_text().replace("Include trainyard.conf\n", "")
    rewritten = without + f"EpilogSlurmctld={conf.parent}/slurm-job-end\n# rewritten\n"
    agent = cluster.controller.agent
    assert agent is not None
    agent.send_signal(signal.SIGSTOP)  # or it may be quicker than this test is to look
    conf.write_text(rewritten)
    cluster.run(["scontrol", "reconfigure"], cluster.environment(cluster.controller))
    eventually("our settings are gone", lambda: not in_force(cluster), 20)
    agent.send_signal(signal.SIGCONT)
    eventually("our settings are in force again", lambda: in_force(cluster), 20)
    eventually("the worker is registered again", lambda: registered(cluster) == [True], 20)
    assert conf.read_text() == rewritten + "Include trainyard.conf\n"
