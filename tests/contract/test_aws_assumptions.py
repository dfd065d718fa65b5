"""What we take for true of AWS is listed once each, and names code that is there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from tests.local.system import test_system_broken_assumptions as system
from tests.machines import test_machine_broken_assumptions as machines
from tests.support.repository import ROOT

from trainyard_cli.first_light.looks import every_look
from trainyard_local.quirks import QUIRKS

ENTRIES = re.split(r"^### ", (ROOT / "docs/aws-assumptions.md").read_text(), flags=re.MULTILINE)[1:]


def test_each_assumption_has_an_id_of_its_own() -> None:
    ids = [entry.split(" ", 1)[0] for entry in ENTRIES]
    assert all(re.fullmatch(r"A-\d{3}", found) for found in ids)
    assert [found for found, times in Counter(ids).items() if times > 1] == []
    assert ids == sorted(ids)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry[:5])
def test_an_assumption_says_its_evidence_its_code_and_how_it_is_seen(entry: str) -> None:
    for part in ("evidence", "code", "seen"):
        assert len(re.findall(rf"^- {part}: \S", entry, flags=re.MULTILINE)) == 1, part
    for place in re.findall(
        r"`([^`]+)`", re.findall(r"^- code: (.*)$", entry, flags=re.MULTILINE)[0]
    ):
        path, _, name = place.partition(":")
        assert (ROOT / path).is_file(), path
        assert name in _names(ROOT / path), place


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry[:5])
def test_first_light_looks_at_an_assumption_or_it_is_said_why_it_does_not(entry: str) -> None:
    sees = re.findall(r"^- first-light: \S", entry, flags=re.MULTILINE)
    does_not = re.findall(r"^- not seen by first-light: \S", entry, flags=re.MULTILINE)
    assert len(sees) + len(does_not) == 1
    assert bool(sees) == (entry[:5] in {look.assumption for look in every_look()})


def test_every_look_is_at_an_assumption_that_is_listed() -> None:
    assert {look.assumption for look in every_look()} <= {entry[:5] for entry in ENTRIES}


def test_each_quirk_breaks_the_assumption_that_names_it_and_a_test_has_it_found() -> None:
    told = {
        quirk: entry[:5]
        for entry in ENTRIES
        for quirk in re.findall(r"^- broken on purpose: `(.+)`$", entry, flags=re.MULTILINE)
    }
    assert told.keys() == QUIRKS.keys() - {"nodes-cost-a-dollar", "scripts-come-late"}
    assert told == {
        broken.quirk: broken.assumption for broken in [*system.BROKEN, *machines.BROKEN]
    }


def _names(path: Path) -> set[str]:
    """Functions and classes of a file; methods as Class.method."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found
