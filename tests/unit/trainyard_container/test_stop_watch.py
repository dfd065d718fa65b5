"""The question whether a job is to end, where no signal says so."""

from __future__ import annotations

import pytest
from tests.support.waiting import eventually

from trainyard_container import stop_watch
from trainyard_container.stop_watch import StopWatch

pytestmark = pytest.mark.real  # a thread


def test_it_says_that_the_job_is_to_end_once_sagemaker_does() -> None:
    answers = [False, ConnectionError("throttled"), True]
    asked: list[int] = []

    def is_stopping() -> bool:
        asked.append(1)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    watch = StopWatch(is_stopping, every=0.01)
    eventually("the job is to end", watch)
    assert len(asked) == 3


def test_a_role_without_the_right_is_not_asked_for_ever(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[int] = []

    def denied() -> bool:
        asked.append(1)
        raise PermissionError("AccessDenied")

    watch = StopWatch(denied, every=0.001)
    eventually("it gives up", lambda: len(asked) == stop_watch.MOST_FAILURES)
    eventually("it says so", lambda: "cannot be asked: AccessDenied" in capsys.readouterr().out)
    assert not watch()
