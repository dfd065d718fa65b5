"""One class makes and reads each command of the agent, also between two versions."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_contracts import commands
from trainyard_contracts.commands import (
    Answer,
    BadCommand,
    Cancelling,
    Command,
    Excluded,
    Exporting,
    Submitted,
    Tail,
    answer_of,
    of_words,
)

RUN = "run-01j0000000000000000000000a"
SHA = "0" * 64
EXAMPLES: list[Command] = [
    commands.Submit(RUN, 1, "s3://data/x y"),
    commands.Submit(RUN, 1, "b", needs="watch,progress,sync"),
    commands.Submit(RUN, 1, "b", needs="sync"),
    commands.Submit(RUN, 100_000, "s3://data/--run=x", SHA), commands.Exclude(RUN, 2, ()),
    commands.Exclude(RUN, 2, ("ip-1", "ip-2.a.b")), commands.Cancel(RUN), commands.Status(RUN),
    commands.Export(RUN, "e-1", "s3://data/x"), commands.Export(RUN, "e-1", "s3://data/x", "all"),
    commands.Logs(RUN, 3), commands.Logs(RUN, 3, 10_000, "", 600), commands.Nodes(),
    commands.Logs(RUN, 3, rank=0), commands.Logs(RUN, 3, node="ip-1.a.b"),
    commands.Checkout(RUN, 1, "s3://data/x", SHA),
]  # fmt: skip


@pytest.mark.parametrize("command", EXAMPLES, ids=lambda command: " ".join(command.argv()[1:])[:40])
def test_a_command_is_read_as_it_was_made(command: Command) -> None:
    assert command.argv()[:2] == ["trainyard-agent", command.name]
    assert of_words(command.argv()[1:]) == command
    apart = [part for word in command.argv()[2:] for part in word.split("=", 1)]
    assert of_words([command.name, *apart]) == command, (
        "as a person, or an older control plane, writes it"
    )


@given(st.text(max_size=80).filter(lambda text: text and "\0" not in text))
def test_no_text_is_taken_for_an_option(text: str) -> None:
    made = commands.Submit(RUN, 1, text)
    assert of_words(made.argv()[1:]) == made


def test_what_is_not_said_is_left_out_since_an_older_agent_may_not_know_it() -> None:
    assert commands.Submit(RUN, 1, "b").argv() == [
        "trainyard-agent",
        "submit",
        f"--run={RUN}",
        "--attempt=1",
        "--bundle=b",
    ]
    assert commands.Logs(RUN, 1).options() == {"run": RUN, "attempt": "1"}


@pytest.mark.parametrize(("words", "said"), [
    ([], "the first argument must be one of submit, exclude, cancel"),
    (["explode"], "got 'explode'"),
    (["cancel"], "'cancel' needs --run"),
    (["submit", "--run", RUN], "'submit' needs --attempt --bundle"),
    (["cancel", "--run"], "--run needs a value"),
    (["cancel", "--run", "run-$(id)"],
     "--run must be a run's id (run-<26 characters>), got 'run-$(id)'"),
    (["cancel", "--run", RUN, "--force", "yes"],
     "--force is not an option of 'cancel'; it takes --run"),
    (["cancel", RUN], "is not an option of 'cancel'; options begin with --"),
    (["logs", "--run", RUN, "--attempt", "0"],
     "--attempt must be a whole number from 1 to 100000, got '0'"),
    (["logs", "--run", RUN, "--attempt", "\u0661"], "--attempt must be a whole number"),
    (["logs", "--run", RUN, "--attempt", "000000000001999999"], "--attempt must be a whole number"),
    (["logs", "--run", RUN, "--attempt", "0" * 11 + "1" + "9" * 5000],
     "--attempt must be a whole number"),
    (["logs", "--run", RUN, "--attempt", "1\n"], "--attempt must be a whole number"),
    (["logs", "--run", RUN, "--attempt", "1", "--lines", "10001"],
     "--lines must be a whole number from 1 to 10000"),
    (["logs", "--run", RUN, "--attempt", "1", "--rank=-1"],
     "--rank must be a rank, a whole number from 0, got '-1'"),
    (["logs", "--run", RUN, "--attempt", "1", "--node=$(x)"],
     "--node must be the name of a Slurm node, got '$(x)'"),
    (["exclude", "--run", RUN, "--attempt", "1", "--nodes", "ip-1,$(x)"],
     "--nodes must be names of Slurm nodes, separated by commas; '$(x)'"),
    (["exclude", "--run", RUN, "--attempt", "1", "--nodes=-x"],
     "--nodes must be names of Slurm nodes"),
    (["submit", "--run", RUN, "--attempt", "1", "--bundle", "b", "--needs", "watch,teleport"],
     "--needs is not an option of 'submit' with 'teleport'; it knows watch, progress, image"),
    (["submit", "--run", RUN, "--attempt", "1", "--bundle", "b", "--sha256", "x"],
     "--sha256 must be 64 hexadecimal digits in lower case"),
    (["export", "--run", RUN, "--export-id", "a b", "--destination", "s3://x"],
     "--export-id must be 1 to 128 letters"),
    (["export", "--run", RUN, "--export-id", "a", "--destination", "s3://x", "--checkpoints",
      "some"], "--checkpoints must be none, last or all"),
])  # fmt: skip
def test_what_cannot_be_read_names_the_option_and_what_would_be_right(
    words: list[str], said: str
) -> None:
    with pytest.raises(BadCommand) as refused:
        of_words(words)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "answer",
    [
        Submitted("7", "PENDING", 1),
        Excluded("7", "x", True),
        Cancelling("none"),
        Exporting("finished", SHA),
    ],
)
def test_an_answer_is_read_as_it_was_given(answer: Any) -> None:
    assert type(answer).of({**answer.as_json(), "ofANewerAgent": 1}) == answer
    assert type(answer).of({}) == type(answer)(), "an older agent may say less"
    assert all(name[0].islower() and "_" not in name for name in answer.as_json())


@pytest.mark.parametrize(
    ("cls", "said", "read"),
    [
        (Submitted, {"jobId": 7, "attempt": "7"}, Submitted("7")),
        (Submitted, {"jobId": ["x"], "state": None, "attempt": True}, Submitted()),
        (Submitted, {"jobId": True, "state": {"a": 1}, "attempt": 1.5}, Submitted()),
        (Submitted, {"jobId": "\ud800"}, Submitted("?")),
        (Excluded, {"waits": "no"}, Excluded()),
        (Excluded, {"waits": 1, "state": 10**9}, Excluded("", "1000000000")),
        (Tail, {"text": []}, Tail()),
    ],
)
def test_what_is_not_of_its_type_is_not_said(
    cls: type[Answer], said: dict[str, Any], read: Answer
) -> None:
    assert cls.of(said) == read


def test_an_answer_that_is_not_whole_is_none() -> None:
    assert [answer_of(text) for text in ("", "{", "[" * 100_000, "[]", "null", '{"a": 1}')] == [
        None,
        None,
        None,
        None,
        None,
        {"a": 1},
    ]


def test_every_command_has_a_name_of_its_own_and_reads_each_option() -> None:
    assert [cls.name for cls in commands.COMMANDS.values()] == list(commands.COMMANDS)
    assert all(
        "read" in option.metadata
        for cls in commands.COMMANDS.values()
        for option in dataclasses.fields(cls)
    )


@pytest.mark.real
def test_a_command_needs_the_standard_library_only() -> None:
    code = "import sys, trainyard_contracts.commands; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
