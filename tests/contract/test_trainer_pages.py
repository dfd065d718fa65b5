"""The pages of the two trainers name every key of their configuration, with its default."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from tests.support.repository import ROOT

from trainyard_trainers.bert.train import BertConfig
from trainyard_trainers.loop import LoopConfig
from trainyard_trainers.translate.train import TrainConfig

PAGES = ROOT / "docs" / "trainers"


def own_defaults(kind: type[Any], prefix: str = "") -> dict[str, Any]:
    """Default of every key that not all trainers have."""
    shared = {field.name for field in dataclasses.fields(LoopConfig)}
    found: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        nested = field.default_factory
        if prefix == "" and field.name in shared:
            continue
        if isinstance(nested, type) and dataclasses.is_dataclass(nested):
            found.update(own_defaults(nested, f"{field.name}."))
        else:
            found[prefix + field.name.replace("_", "-")] = field.default
    return found


def told_defaults(page: str) -> dict[str, str]:
    """From the page's table: keys with commas between them, their defaults likewise."""
    found: dict[str, str] = {}
    for row in re.findall(r"^\| `.*$", (PAGES / page).read_text(encoding="utf-8"), re.MULTILINE):
        keys, defaults = (cell.strip() for cell in row.split("|")[1:3])
        names = re.findall(r"`([^`]+)`", keys)
        found.update(
            zip(
                names,
                [value.strip() for value in defaults.split(",")] if defaults else [""] * len(names),
                strict=True,
            )
        )
    return found


@pytest.mark.parametrize(
    ("page", "kind"), [("finetune-bert.md", BertConfig), ("translate.md", TrainConfig)]
)
def test_a_page_names_every_key_and_its_default(page: str, kind: type[Any]) -> None:
    told = told_defaults(page)
    for name, default in own_defaults(kind).items():
        if default in (None, dataclasses.MISSING):
            assert told[name] == ""
        elif isinstance(default, str):
            assert told[name] == default
        else:
            assert float(told[name]) == default
    assert set(told) - set(own_defaults(kind)) <= {"steps"}
