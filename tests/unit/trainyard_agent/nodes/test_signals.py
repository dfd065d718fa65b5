"""The signals by which a silent node is judged, and why it is not lost."""

from __future__ import annotations

from trainyard_agent.nodes.activity import Activity
from trainyard_agent.nodes.node_table import Node, evidence_of
from trainyard_agent.nodes.questions import Questions
from trainyard_agent.nodes.signals import signals_of, why_not_lost


def test_a_silent_node_says_why_it_is_not_lost() -> None:
    training = Activity("run", 1, False, 90.0, 1.0)
    up = evidence_of(Node("a", "silent", slurmd="up"), in_slurm=True, now=0.0)
    unknown = evidence_of(Node("a", "silent"), in_slurm=True, now=0.0)
    assert "this controller's own link" in why_not_lost(None, unknown, held=True, now=100.0)
    assert why_not_lost(training, unknown, held=False, now=100.0) == "training stepped 10.0 s ago"
    assert why_not_lost(training, up, held=False, now=100.0) == ""
    assert why_not_lost(None, unknown, held=False, now=100.0) == ""


def test_what_this_process_slept_through_and_steps_that_nobody_read_are_no_silence() -> None:
    node = Node("a", "linked", silent_since=90.0)
    asked = Questions(open=[95.0])
    training = Activity("run", 1, False, 92.0, 0.1, read_at=96.0)
    found = signals_of(
        node, asked, training, alone=None, missed=lambda _: 1.5, silent_after=3.0, now=100.0
    )
    assert (found.unheard, found.unanswered, found.quiet) == (8.5, 3.5, 2.5)


def test_training_is_quiet_since_its_last_step_or_since_its_node_fell_silent() -> None:
    node = Node("a", "linked", silent_since=80.0)

    def quiet(activity: Activity | None) -> float | None:
        signals = signals_of(
            node,
            Questions(),
            activity,
            alone=None,
            missed=lambda _: 0.0,
            silent_after=3.0,
            now=100.0,
        )
        return signals.quiet

    assert quiet(None) is None
    assert quiet(Activity("run", 1, False, None, None)) == 20.0
    assert quiet(Activity("run", 1, False, 90.0, 1.0)) == 10.0
