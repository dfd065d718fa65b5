"""Contexts: named deployments, kept in a file for the user alone."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.fake_api import FakeApi

from trainyard_sdk import contexts
from trainyard_sdk.connection import Connection

Call = Callable[..., tuple[int, str, str]]
PROD = "https://abc123.execute-api.eu-west-1.amazonaws.com"
pytestmark = [pytest.mark.real, pytest.mark.usefixtures("api")]


@pytest.fixture
def anywhere(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """No local cloud is named."""
    monkeypatch.delenv("TRAINYARD_STATE_DIR")


@pytest.mark.usefixtures("anywhere")
def test_the_first_context_that_is_added_is_used_with_its_profile(trainyard: Call) -> None:
    assert trainyard("context", "add", "prod", PROD, "--profile", "ml")[0] == 0
    found = Connection.find()
    assert (found.api_url, found.region, found.profile) == (PROD, "eu-west-1", "ml")


def test_a_local_cloud_that_is_named_comes_before_the_context_in_use(trainyard: Call) -> None:
    trainyard("context", "add", "prod", PROD)
    assert Connection.find().local is not None
    assert Connection.find(context="prod").local is None


@pytest.mark.usefixtures("anywhere")
def test_the_variable_names_a_context_and_the_url_of_an_api_comes_before_it(
    trainyard: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainyard("context", "add", "prod", PROD)
    trainyard("context", "add", "test", "https://t.example", "--region", "eu-north-1")
    monkeypatch.setenv("TRAINYARD_CONTEXT", "test")
    assert (Connection.find().api_url, Connection.find().region) == (
        "https://t.example",
        "eu-north-1",
    )
    monkeypatch.setenv("TRAINYARD_API_URL", "https://u.example")
    assert Connection.find().api_url == "https://u.example"
    assert Connection.find(context="prod").api_url == PROD


def test_the_file_is_for_nobody_else_and_has_no_secret(trainyard: Call) -> None:
    trainyard("context", "add", "prod", PROD, "--profile", "ml")
    assert stat.S_IMODE(contexts.file().stat().st_mode) == 0o600
    assert stat.S_IMODE(contexts.file().parent.stat().st_mode) == 0o700
    assert json.loads(contexts.file().read_text()) == {
        "current": "prod",
        "contexts": {"prod": {"endpoint": PROD, "profile": "ml"}},
    }


def test_contexts_are_listed_used_and_removed(trainyard: Call) -> None:
    trainyard("context", "add", "prod", PROD)
    trainyard("context", "add", "test", "https://t.example")
    _, out, _ = trainyard("context", "ls", "--json")
    assert json.loads(out)["current"] == "prod"
    assert [one["name"] for one in json.loads(out)["contexts"]] == ["local", "prod", "test"]
    assert trainyard("context", "use", "test")[0] == 0
    assert contexts.read().current == "test"
    assert trainyard("context", "use", "local")[0] == 0
    assert contexts.read().current is None
    trainyard("context", "use", "prod")
    assert "in use: local" in trainyard("context", "rm", "prod")[1]
    assert set(contexts.read().known) == {"test"}


def test_what_cannot_be_is_refused_with_what_would_be_right(trainyard: Call) -> None:
    code, _, err = trainyard("context", "use", "prod")
    assert (code, "'prod' is none of local" in err) == (6, True)
    assert trainyard("context", "add", "prod", "ftp://x")[0] == 6
    assert trainyard("context", "add", "local", PROD)[0] == 6
    assert trainyard("context", "add", "a b", PROD)[0] == 6
    assert trainyard("context", "rm", "local")[0] == 6
    trainyard("context", "add", "prod", PROD)
    assert trainyard("context", "add", "prod", "https://other.example")[0] == 4
    assert trainyard("context", "add", "prod", PROD)[0] == 0
    assert trainyard("context", "add", "prod", "https://other.example", "--force")[0] == 0
    code, _, err = trainyard("--context", "nope", "run", "ls")
    assert (code, "trainyard context ls" in err) == (6, True)
    code, _, err = trainyard("--context", "prod", "--endpoint", PROD, "run", "ls")
    assert (code, "named twice" in err) == (6, True)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"contexts": {"a": {}}}', '{"contexts": {}, "current": "gone"}', "\xff"],
)
def test_a_file_that_is_not_ours_is_refused_and_left_as_it_is(trainyard: Call, text: str) -> None:
    place = contexts.file()
    place.parent.mkdir(parents=True)
    place.write_text(text, encoding="latin-1")
    code, _, err = trainyard("context", "add", "prod", PROD)
    assert (code, str(place) in err) == (6, True)
    assert place.read_text(encoding="latin-1") == text


def test_a_write_that_is_cut_leaves_the_file_that_was_there(
    trainyard: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainyard("context", "add", "prod", PROD)
    before = contexts.file().read_bytes()

    def cut(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(contexts.os, "fsync", cut)
    with pytest.raises(KeyboardInterrupt), contexts.changing() as held:
        held[0] = held[0].used("local")
    assert contexts.file().read_bytes() == before
    assert {path.name for path in contexts.file().parent.iterdir()} == {
        contexts.file().name,
        f".{contexts.file().name}.lock",
    }


def test_any_call_of_the_api_is_made_signed(trainyard: Call, api: FakeApi, tmp_path: Path) -> None:
    api.answers |= {
        "GET /v1/runs": lambda query: (200, {"asked": query}),
        "POST /v1/things": (202, {"id": "x"}),
    }
    code, out, _ = trainyard("api", "get", "/v1/runs?limit=5&status=Failed")
    assert (code, json.loads(out)) == (0, {"asked": {"limit": "5", "status": "Failed"}})
    (tmp_path / "body.json").write_text('{"a": 1}')
    given = ("--data", f"@{tmp_path / 'body.json'}", "--idempotency-key", "k")
    assert trainyard("api", "POST", "/v1/things", *given)[0] == 0
    (call,) = api.calls("POST /v1/things")
    assert (call["body"], call["headers"]["idempotency-key"]) == (b'{"a": 1}', "k")
    assert trainyard("api", "GET", "/v1/nothing")[0] == 3
    for wrong in (("GRAB", "/v1/runs"), ("GET", "v1/runs"), ("POST", "/v1/x", "--data", "{")):
        assert trainyard("api", *wrong)[0] == 6


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_the_command_itself(trainyard: Call, shell: str) -> None:
    code, out, _ = trainyard("completion", shell)
    assert code == 0
    assert f"_TRAINYARD_COMPLETE=complete_{shell}" in out


def test_a_shell_that_asks_gets_the_commands_that_begin_so(
    trainyard: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_TRAINYARD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "trainyard run su")
    monkeypatch.setenv("COMP_CWORD", "2")
    code, out, _ = trainyard()
    assert (code, out.split()) == (0, ["submit"])
