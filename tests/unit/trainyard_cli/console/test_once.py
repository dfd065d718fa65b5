"""The same change twice: one call, one answer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from trainyard_cli.console.once import Once, OtherChange

REBOOT = ("POST", "/v1/clusters/c/nodes/i-1:reboot", b"")


class Api:
    """Answers with these, one after another; the last one stays."""

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = list(answers)
        self.calls = 0

    def __call__(self) -> httpx.Response:
        self.calls += 1
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, Exception):
            raise found
        return httpx.Response(found)


@pytest.mark.parametrize("status", [200, 202, 409])
def test_a_change_that_was_answered_is_not_made_again(status: int) -> None:
    once, api = Once(), Api(status)
    answers = [once.made("key", REBOOT, api).status_code for _ in range(3)]
    assert (answers, api.calls) == ([status] * 3, 1)


@pytest.mark.parametrize("first", [httpx.ConnectError("gone"), 500, 503, 429])
def test_what_may_not_have_been_done_may_be_asked_again(first: int | Exception) -> None:
    once, api = Once(), Api(first, 202)
    if isinstance(first, Exception):
        with pytest.raises(httpx.ConnectError):
            once.made("key", REBOOT, api)
    else:
        assert once.made("key", REBOOT, api).status_code == first
    assert [once.made("key", REBOOT, api).status_code for _ in range(2)] == [202, 202]
    assert api.calls == 2


def test_two_at_the_same_moment_are_one_call() -> None:
    once, api, begun, end = Once(), Api(202), threading.Event(), threading.Event()

    def slow() -> httpx.Response:
        begun.set()
        end.wait(10)
        return api()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(once.made, "key", REBOOT, slow)
        assert begun.wait(10)
        second = pool.submit(once.made, "key", REBOOT, slow)
        end.set()
        assert first.result(10) is second.result(10)
    assert api.calls == 1


def test_a_key_is_good_for_one_change() -> None:
    once, api = Once(), Api(202)
    once.made("key", REBOOT, api)
    for other in (("POST", "/v1/runs", b""), (*REBOOT[:2], b"{}")):
        with pytest.raises(OtherChange):
            once.made("key", other, api)
    assert api.calls == 1


def test_only_the_newest_are_kept() -> None:
    once, api = Once(most=2), Api(202)
    for key in ("a", "b", "c", "c", "a"):
        once.made(key, REBOOT, api)
    assert api.calls == 4
