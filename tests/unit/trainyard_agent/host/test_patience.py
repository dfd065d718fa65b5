"""S3 that does not answer is asked again; a refusal is final; the end of the agent ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from trainyard_agent.host import patience
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.patience import patiently


class Ended(Exception):
    """The agent ends."""


class Work:
    def __init__(self) -> None:
        self.stop = threading.Event()

    def check(self) -> None:
        if self.stop.is_set():
            raise Ended


class Asked:
    """S3 that answers the n-th time, and else raises."""

    def __init__(self, times: int, error: Callable[[], Exception]) -> None:
        self.left, self.error, self.tries = times, error, 0

    def __call__(self) -> str:
        self.tries += 1
        self.left -= 1
        if self.left > 0:
            raise self.error()
        return "answer"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "FIRST_PAUSE_SECONDS", 0.0)


def silent() -> Exception:
    return Unreachable("no route")


def worded(refused: Refused) -> Exception:
    return ValueError(f"in other words: {refused}")


def test_a_silent_s3_is_asked_again() -> None:
    s3 = Asked(3, silent)
    assert patiently(s3, Work(), worded, tries=3) == "answer"
    assert s3.tries == 3


def test_one_that_stays_silent_is_told_with_what_to_do() -> None:
    s3 = Asked(9, silent)
    with pytest.raises(CommandRefused, match=r"no route; the same command again is safe") as told:
        patiently(s3, Work(), worded, tries=3)
    assert (told.value.code, s3.tries) == ("unreachable", 3)


def test_a_refusal_is_final_and_worded_by_the_caller() -> None:
    s3 = Asked(9, lambda: Refused(403, "AccessDenied"))
    with pytest.raises(ValueError, match=r"in other words: .*AccessDenied"):
        patiently(s3, Work(), worded, tries=3)
    assert s3.tries == 1


def test_the_end_of_the_agent_ends_it() -> None:
    work = Work()

    def ends() -> str:
        work.stop.set()
        raise Unreachable("no route")

    with pytest.raises(Ended):
        patiently(ends, work, worded, tries=3)
