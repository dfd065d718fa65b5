"""Runs that are cancelled and resumed."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from tests.support.fake_api import RUN, FakeApi, a_run

pytestmark = pytest.mark.real


@pytest.mark.parametrize(("answer", "code", "sent"), [("n\n", 1, 0), ("y\n", 0, 1)])
def test_a_person_is_asked_before_a_run_is_cancelled(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    sent: int,
) -> None:
    api.answers[f"POST /v1/runs/{RUN}:cancel"] = (202, a_run("Cancelling"))
    monkeypatch.setattr("trainyard_cli.screen.output.may_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    got, _, err = trainyard("run", "cancel", RUN)
    assert (got, f"Cancel {RUN}?" in err) == (code, True)
    assert len(api.calls(f"POST /v1/runs/{RUN}:cancel")) == sent
    assert trainyard("run", "cancel", RUN, "--yes")[0] == 0


def test_without_a_terminal_nobody_is_asked(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers[f"POST /v1/runs/{RUN}:cancel"] = (202, a_run("Cancelling"))
    code, _, err = trainyard("run", "cancel", RUN)
    assert (code, "?" in err) == (0, False)


def test_a_run_is_resumed_on_another_filesystem(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    key, other = f"POST /v1/runs/{RUN}:resume", "fs-0bbbbbbbbbbbbbbbb.fsx.us-east-1.x/abcdefgh"
    api.answers[key] = (202, a_run("Pending"))
    assert trainyard("run", "resume", RUN)[0] == 0
    assert trainyard("run", "resume", RUN, "--filesystem", other)[0] == 0
    assert [call["query"] for call in api.calls(key)] == [{}, {"filesystem": other}]
