"""The table of docs/backends.md, made from the adapters: `python -m tests.conformance.table`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from tests.conformance.adapter import STORIES, Adapter, adapter_of, members
from tests.support.repository import ROOT

from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.cluster_specs import ClusterSpec

PAGE = ROOT / "docs/backends.md"
BEGIN = "<!-- Written by `python -m tests.conformance.table`; a test compares it. -->\n"
END = "<!-- Until here. -->\n"


def table(backends: Sequence[Adapter]) -> str:
    """Stories by backend, and below it why a backend lacks one."""
    lines = [["story", *(f"`{each.name}`" for each in backends)], ["---"] * (len(backends) + 1)]
    for story, about in STORIES.items():
        lines.append([about, *(_cell(each, story) for each in backends)])
    rows = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    reasons = [
        f"- `{each.name}`, {STORIES[story].partition(':')[0]}: {why}\n"
        for each in backends
        for story, why in each.without.items()
    ]
    return f"\n{rows}\n" + ("".join(reasons) + "\n" if reasons else "")


def _cell(backend: Adapter, story: str) -> str:
    if story in backend.without:
        return "no, see below"
    if story == "no_capacity":
        return "the next way" if knows_ways(backend.name) else "the words"
    return "yes"


def knows_ways(name: str) -> bool:
    """Whether the backend's spec answers how else its cluster may be made."""
    union = get_args(ClusterSpec.__value__)[0]
    specs = dict(zip(members(), get_args(union) or (union,), strict=True))
    return specs[name].ways_of is not ClusterBase.ways_of


def page(text: str) -> str:
    """The page with the table as it is now."""
    head, _, rest = text.partition(BEGIN)
    return (
        head
        + BEGIN
        + table([adapter_of(name) for name in members()])
        + END
        + rest.partition(END)[2]
    )


def main(path: Path = PAGE) -> int:
    path.write_text(page(path.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
