"""Each command's help ends with an example that the command takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest
import typer

from trainyard_cli import examples
from trainyard_cli.context import Context
from trainyard_cli.main import app, hoist_options

ROOT = typer.main.get_command(app)


def commands(group: click.Command, words: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with the words that call it."""
    for name, command in getattr(group, "commands", {}).items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{words}{name} ")
        else:
            yield f"{words}{name}", command


EVERY = dict(commands(ROOT))


def parse(command: click.Command, given: list[str], parent: click.Context | None) -> None:
    """Reads the arguments as a call does. Raises click.UsageError."""
    context = command.make_context(command.name, given, parent=parent, obj=Context())
    if hasattr(command, "commands"):
        _, below, rest = command.resolve_command(
            context, [*getattr(context, "_protected_args", ()), *context.args]
        )
        parse(below, rest, context)


@pytest.mark.parametrize("words", EVERY)
def test_a_command_takes_the_examples_of_its_help(words: str) -> None:
    found = examples.examples_of(words)
    assert found
    epilog = EVERY[words].epilog or ""
    for one in found:
        assert f"trainyard {one}" in epilog
        assert one.startswith(words)
        parse(ROOT, hoist_options(shlex.split(one)), None)


def test_no_example_is_of_a_command_that_there_is_not() -> None:
    assert set(examples.EXAMPLES) <= set(EVERY)
    assert {f"fault {name}" for name in examples.FAULTS} <= set(EVERY)


def test_what_waits_may_be_given_a_time_and_what_changes_much_a_reason() -> None:
    def options(words: str) -> set[str]:
        return {name for one in EVERY[words].params for name in one.opts}

    waits = [words for words in EVERY if "--wait" in options(words)]
    assert {"run cancel", "run resume", "run export", "node replace", "cluster delete"} <= set(
        waits
    )
    assert [words for words in waits if "--timeout" not in options(words)] == []
    for words in ("run cancel", "run resume", "run export", "node replace", "node reboot"):
        assert "--reason" in options(words)
    for words in ("cluster delete", "cluster stop", "filesystem delete", "schedule rm"):
        assert {"--reason", "--yes"} <= options(words)
