"""What is told of an attempt's end."""

from __future__ import annotations

from trainyard_agent.jobs.ending import EVIDENCE_NODES, doubtful_first, with_restart
from trainyard_agent.jobs.evidence import Diagnosis
from trainyard_contracts.events import NodeEvidence


def test_a_restart_explains_the_end_of_a_job_that_did_not_succeed() -> None:
    failed, well = Diagnosis("failed", 1, error="an error"), Diagnosis("succeeded", 0)
    assert with_restart(failed, "ip-1").error == "ip-1 was restarted"
    assert with_restart(failed, "") == failed
    assert with_restart(well, "ip-1") == well


def test_of_too_many_nodes_those_in_doubt_are_told() -> None:
    well = [
        NodeEvidence(node=f"ip-{n}", agent="linked", scheduler="up") for n in range(EVIDENCE_NODES)
    ]
    doubted = NodeEvidence(node="doubted", agent="linked", scheduler="down")
    assert doubtful_first([*well, doubted]) == [doubted, *well[:-1]]
