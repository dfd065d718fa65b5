"""The command and the SDK against a real HTTP server that checks signatures and can misbehave."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.support.fake_api import (
    CLUSTER,
    NODE,
    RUN,
    FakeApi,
    a_run,
    exported,
    serve_a_whole_run,
)

from trainyard_cli import main
from trainyard_sdk import client as client_module

pytestmark = pytest.mark.real


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, 6),
        (401, 7),
        (403, 7),
        (404, 3),
        (405, 3),
        (409, 4),
        (413, 6),
        (415, 6),
        (422, 6),
        (500, 1),
    ],
)
def test_a_problem_is_told_with_its_fields_and_the_next_step(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str, status: int, code: int
) -> None:
    errors = [{"field": "job.nodes", "message": "must be [at most] 2"}]
    api.answers["POST /v1/runs"] = (
        status,
        {"title": "Bad", "code": "x", "detail": "d", "nextStep": "Correct it", "errors": errors},
    )
    got, out, err = trainyard("run", "submit", spec)
    assert (got, out) == (code, "")
    assert "job.nodes  must be [at most] 2" in err
    assert "Next: Correct it" in err
    got, out, err = trainyard("run", "submit", spec, "--json")
    assert (got, err) == (code, "")
    assert json.loads(out)["error"]["errors"] == errors


def test_no_server_is_told_as_such(
    trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module.time, "sleep", lambda _: None)
    monkeypatch.delenv("TRAINYARD_API_URL", raising=False)
    code, _, err = trainyard("--state-dir", str(tmp_path), "run", "ls")
    assert (code, "trainyard local up" in err) == (5, True)
    local = {
        "endpoint": "http://127.0.0.1:1",
        "apiUrl": "http://127.0.0.1:1/x",
        "region": "us-east-1",
        "accessKeyId": "a",
        "secretAccessKey": "b",
    }
    (tmp_path / "local.json").write_text(json.dumps(local))
    code, _, err = trainyard("run", "ls", "--state-dir", str(tmp_path))
    assert (code, "trainyard local status" in err) == (5, True)


def test_json_is_all_that_is_on_stdout_and_the_option_may_stand_anywhere(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    serve_a_whole_run(api)
    api.answers |= {
        "GET /v1/runs": (200, {"runs": [a_run()]}),
        "GET /v1/clusters": (200, {"clusters": [CLUSTER]}),
        f"GET /v1/runs/{RUN}/logs": (
            200,
            {"kind": "job", "attempt": 1, "source": "node", "text": "a\nb\n"},
        ),
        f"POST /v1/runs/{RUN}:export": (202, exported()),
        "POST /_trainyard/fault": (200, {"node": "i-1"}),
    }
    commands = ["run ls", f"run show {RUN}", f"run events {RUN}", f"run logs {RUN}",
                f"run watch {RUN}", f"run export {RUN}", "cluster ls",
                "cluster show mine-abc", "node ls mine-abc",
                "fault kill-node mine-abc"]  # fmt: skip
    for command in commands:
        for arguments in (["--json", *command.split()], [*command.split(), "--json"]):
            code, out, err = trainyard(*arguments)
            assert (code, err, bool(json.loads(out))) == (0, "", True), command


def test_tables_show_what_users_wrote_as_they_wrote_it(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    serve_a_whole_run(api)
    api.answers["GET /v1/runs"] = (200, {"runs": [a_run()]})
    _, out, _ = trainyard("run", "ls")
    assert "mine [bold]" in out
    _, out, _ = trainyard("node", "ls", "mine-abc")
    assert "ip-127-0-0-2" in out
    assert "55%" in out
    assert "1.0 GiB / 4.0 GiB" in out
    _, out, _ = trainyard("run", "show", RUN)
    assert "Checkpoints" in out


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_what_people_copy_is_never_cut_or_wrapped(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
) -> None:
    node = {**NODE, "instanceId": "i-0123456789abcdef0", "name": "ip-127-30-24-10"}
    api.answers |= {
        "GET /v1/clusters/mine-abc/nodes": (200, {"nodes": [node]}),
        "GET /v1/runs": (
            200,
            {
                "runs": [
                    a_run(
                        reason="a reason that is longer than the terminal is wide, "
                        "which may well happen"
                    )
                ]
            },
        ),
    }
    monkeypatch.setattr("trainyard_cli.screen.output.out.width", columns)
    _, out, _ = trainyard("node", "ls", "mine-abc")
    row = next(line for line in out.splitlines() if "ip-127-30-24-10" in line)
    copied = ["ip-127-30-24-10", "i-0123456789abcdef0", "workers", "worker", "ml.c5.xlarge"]
    assert row.split()[:5] == copied if columns > 40 else row.split() == copied[:2]
    assert all(value in out.split() or f"{value};" in out.split() for value in copied)
    _, out, _ = trainyard("run", "ls")
    assert f"{RUN}  mine [bold]  Running" in out


def test_the_other_kind_of_spec_is_refused_with_the_command_for_it(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "cluster.yaml").write_text("name: mine\ninstanceGroups: []\n")
    (tmp_path / "run.yaml").write_text("name: mine\njob: {nodes: 2}\n")
    code, _, err = trainyard("run", "submit", str(tmp_path / "cluster.yaml"))
    assert (code, "Next: trainyard cluster create" in err) == (6, True)
    code, _, err = trainyard("cluster", "create", str(tmp_path / "run.yaml"))
    assert (code, "Next: trainyard run submit" in err) == (6, True)
    assert api.requests == []


#: A few hundred bytes that written out are nine to the tenth.
ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("content", "words"),
    [("a: [1", "is not YAML"), ("", "empty"), ("- 1", "no mapping"), (None, "cannot be read"),
     ("[" * 5000, "is not YAML"), ('progress: {regex: "\\d"}', "use single quotes"),
     ("name: 2026-11-20", "JSON does not know"),
     ("job: {nodes: 1}\nname: a\njob: {nodes: 2}\n", "line 3"),
     ("a: &b [*b]", "JSON does not know"), ("name: 2026-02-30", "is not YAML"),
     ("name: " + "9" * 5000, "is not YAML"), (ALIASES, "is too large")],
)  # fmt: skip
def test_a_spec_that_cannot_be_read_is_told_before_anything_is_sent(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    content: str | None,
    words: str,
) -> None:
    path = tmp_path / "bad.yaml"
    if content is not None:
        path.write_text(content)
    code, _, err = trainyard("run", "submit", str(path))
    assert (code, words in err, api.requests) == (6, True, [])


def test_the_version_is_told(trainyard: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = trainyard("--version")
    assert (code, out.startswith("trainyard ")) == (0, True)


def test_help_keeps_its_defaults(trainyard: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = trainyard("--help")
    assert "default: .trainyard" in " ".join(out.replace("│", " ").split())


def test_a_number_with_bounds_is_named_by_what_it_counts() -> None:
    def numbers(group: Any, words: str) -> Iterator[tuple[str, Any]]:
        for option in group.params:
            if (getattr(option, "min", None), getattr(option, "max", None)) != (None, None):
                yield f"{words} {option.name}", option.metavar
        for name, below in getattr(group, "commands", {}).items():
            yield from numbers(below, f"{words} {name}")

    found = dict(numbers(typer.main.get_command(main.app), ""))
    assert (found[" run logs rank"], found[" local up port"]) == ("NUMBER", "PORT")
    assert [name for name, metavar in found.items() if metavar is None] == []


def test_wrong_usage_is_exit_code_2(trainyard: Callable[..., tuple[int, str, str]]) -> None:
    assert trainyard("run", "ls", "--nope")[0] == 2
    assert trainyard("nope")[0] == 2


def test_options_are_hoisted_up_to_the_double_dash() -> None:
    assert main.hoist_options(["run", "ls", "--json", "--state-dir", "x", "--", "--json"]) == [
        "--json",
        "--state-dir",
        "x",
        "run",
        "ls",
        "--",
        "--json",
    ]
