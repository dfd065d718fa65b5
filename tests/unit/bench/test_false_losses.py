"""The count of false losses: what is a clean trial, and what a round comes to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench import false_losses
from bench.false_losses import KINDS, Trial, summary
from bench.recovery import UNREPAIRED

from trainyard_local.machines import host as machine_host

CLEAN = Trial(KINDS[0].name, 1, steps=400)


@pytest.mark.parametrize(
    "trial",
    [
        replace(CLEAN, losses=1),
        replace(CLEAN, new_attempts=1),
        replace(CLEAN, steps=0),
        replace(CLEAN, error="TimeoutError: not within 60 s: every agent is linked again"),
    ],
    ids=["a node was lost", "the run began anew", "nothing trained", "it was not seen"],
)
def test_a_trial_is_clean_only_if_it_was_seen_to_be(trial: Trial) -> None:
    assert CLEAN.clean
    assert not trial.clean
    assert summary(KINDS[0], [CLEAN, trial])["clean"] == 1


def test_it_says_what_it_needs_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine_host, "missing", lambda: ("no root", "use sudo"))
    assert false_losses.main([]) == 1
    assert "no root. use sudo" in capsys.readouterr().err


def test_each_kind_is_over_before_hyperpod_would_repair_the_node() -> None:
    notice = float(UNREPAIRED["TRAINYARD_LOCAL_NOTICE_SECONDS"])
    assert all(kind.seconds + false_losses.SETTLES_SECONDS < notice for kind in KINDS)
