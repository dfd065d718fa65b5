"""Every command that a sentence of ours names can be run: the CLI's own parser takes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.named_commands import Named, named, trouble
from tests.support.repository import ROOT

#: All that people read what to do in: problems, next steps, refusals, reasons, help.
ROOMS = (
    "layers", "cli", "node_agent/trainyard_agent", "job_library", "trainers", "localcloud",
)  # fmt: skip
#: Where errors and problems have their next steps: at least so many are read there.
LEAST = {
    "layers/core/trainyard/domain/problems.py": 20,
    "layers/core/trainyard/domain/errors.py": 20,
}


def commands() -> Iterator[Named]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if "build" not in path.relative_to(ROOT).parts:
                yield from named(path, ROOT)


def test_every_command_that_a_sentence_names_can_be_run() -> None:
    wrong = [
        f"{one.where}: {why} ({one.text[:80]})"
        for one in commands()
        if (why := trouble(one.text)) is not None
    ]
    assert not wrong, "\n".join(wrong)


def test_the_sentences_of_problems_and_errors_are_among_them() -> None:
    for path, least in LEAST.items():
        assert sum(one.where.startswith(path) for one in commands()) >= least, path


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("trainyard run resume RUN begins this one", None),
        ("trainyard run resume RUN.", None),
        ("trainyard cluster show VALUE0 --json), or another", None),
        ("trainyard run submit trainyard.yaml --watch", None),
        ("trainyard run show. When it", "Missing argument"),
        ("trainyard run shw RUN", "has no 'shw'"),
        ("trainyard runs show RUN", "has no 'runs'"),
        ("trainyard run resume RUN --forces", "No such option"),
        ("trainyard run logs RUN --kind liffecycle", "liffecycle"),
    ],
)
def test_a_command_that_cannot_be_run_is_found(text: str, why: str | None) -> None:
    found = trouble(text)
    assert found is None if why is None else found is not None and why in found
