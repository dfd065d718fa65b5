"""Each command that changes something takes a reason, and sends it."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest
from tests.support.fake_api import RUN, FakeApi, a_run
from tests.unit.trainyard_cli.test_examples import EVERY

from trainyard_cli import reasons

#: They change nothing of a stack, or nothing that its audit list would hold.
READS = {
    "completion", "init", "whoami", "audit", "costs", "doctor", "first-light", "mcp", "console",
    "data upload",
}  # fmt: skip
READ_VERBS = {
    "ls", "show", "watch", "events", "logs", "metrics", "outputs", "download", "cost"
}  # fmt: skip
OF_THIS_MACHINE = ("local ", "fault ", "context ")


def changing() -> set[str]:
    return {
        words
        for words in EVERY
        if words not in READS
        and words.rpartition(" ")[2] not in READ_VERBS
        and not words.startswith(OF_THIS_MACHINE)
    }


@pytest.mark.parametrize("words", sorted(changing()))
def test_a_command_that_changes_something_takes_a_reason(words: str) -> None:
    options = {name for one in EVERY[words].params for name in one.opts}
    assert "--reason" in options, f"{words}: enter it in TAKE_ONE of trainyard_cli/reasons.py"


def test_none_is_entered_that_there_is_not_or_that_has_one_of_its_own() -> None:
    assert changing() >= reasons.TAKE_ONE


@pytest.mark.real
def test_the_reason_goes_along_with_each_call_that_changes_something(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers[f"GET /v1/runs/{RUN}"] = (200, a_run())
    api.answers[f"PATCH /v1/runs/{RUN}"] = (200, a_run(labels={"exp": "3"}))
    why = "größer: 100% 🙂"
    code, _, err = trainyard("run", "label", RUN, "exp=3", "--reason", why)
    assert code == 0, err
    sent = {one["method"]: one["headers"].get("trainyard-reason") for one in api.requests}
    assert sent["PATCH"] == quote(why, safe="")
    assert sent.get("GET") is None


@pytest.mark.real
def test_without_one_none_is_sent(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers[f"GET /v1/runs/{RUN}"] = (200, a_run())
    api.answers[f"PATCH /v1/runs/{RUN}"] = (200, a_run(labels={"exp": "3"}))
    assert trainyard("run", "label", RUN, "exp=3")[0] == 0
    assert all("trainyard-reason" not in one["headers"] for one in api.requests)
