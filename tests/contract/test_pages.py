"""What two pages say, or a page and the code, is the same in both."""

from __future__ import annotations

import re
from collections import Counter

import grimp
import pytest
from tests.support.repository import ROOT

DOCS = ROOT / "docs"
#: The rooms of docs/architecture.md that are a package of their own.
PACKAGES = {
    "layers/contracts/": "trainyard_contracts",
    "node_agent/trainyard_agent/": "trainyard_agent",
    "job_library/trainyard_job/": "trainyard_job",
    "job_library/trainyard_container/": "trainyard_container",
    "trainers/": "trainyard_trainers",
    "localcloud/sam_on_moto/": "sam_on_moto",
    "localcloud/trainyard_local/": "trainyard_local",
    "cli/trainyard_cli/": "trainyard_cli",
    "cli/trainyard_sdk/": "trainyard_sdk",
}


def test_a_decision_has_one_title() -> None:
    text = (DOCS / "adr/README.md").read_text().replace("\n  ", " ")
    listed = re.findall(r"^- \[(.+)\]\((.+)\)$", text, re.M)
    pages = sorted(path for path in (DOCS / "adr").glob("*.md") if path.name != "README.md")
    titles = [(page.read_text().splitlines()[0].removeprefix("# "), page.name) for page in pages]
    assert listed == titles


def may_import(room: str) -> str:
    """The last cell of the room's row."""
    rows = (DOCS / "architecture.md").read_text().splitlines()
    (row,) = [row for row in rows if row.startswith("|") and f"`{room}`" in row.split("|")[1]]
    return row.split("|")[3]


@pytest.mark.parametrize(("room", "package"), PACKAGES.items())
def test_the_map_says_which_of_our_packages_a_room_imports(room: str, package: str) -> None:
    every = ("trainyard", *PACKAGES.values())
    graph = grimp.build_graph(*every, cache_dir=None)
    imported = {
        found.partition(".")[0]
        for module in graph.modules
        if module.partition(".")[0] == package
        for found in graph.find_modules_directly_imported_by(module)
    }
    words = re.findall(r"\w+", may_import(room))
    unnamed = [
        name for name in imported if {name, name.removeprefix("trainyard_")}.isdisjoint(words)
    ]
    assert set(unnamed) <= {package}


def test_the_map_says_that_a_backend_may_use_the_adapters() -> None:
    assert "`aws/`" in may_import("backends/")


def test_gaps_have_a_number_each_in_rising_order() -> None:
    numbers = [int(n) for n in re.findall(r"^(\d+)\. ", (DOCS / "known-gaps.md").read_text(), re.M)]
    assert numbers == sorted(set(numbers))


def test_only_the_generated_page_lists_the_facts_of_the_control_plane() -> None:
    """A list by hand would lack the next one."""
    text = (DOCS / "events.md").read_text().partition("## Made by the control plane")[2]
    part, _, _ = text.partition("\n## ")
    assert "reference/events.md#made-by-the-control-plane" in part
    assert not re.search(r"`[A-Z]\w+`", part)


def test_the_short_table_of_causes_and_the_book_name_the_whole_one() -> None:
    survives = (ROOT / "README.md").read_text().partition("## What it survives")[2]
    assert "docs/recovery.md#the-table" in survives.partition("\n## ")[0]
    book = (ROOT / "CONTRIBUTING.md").read_text().partition("## Add a cause")[2]
    part, _, _ = book.partition("\n## ")
    assert "`docs/recovery.md`" in part
    assert "*What it survives*" in part


def test_each_limit_has_a_meaning_of_its_own() -> None:
    text = (DOCS / "reference/limits.md").read_text()
    rows = re.findall(r"^\| `(.+)` \| (.+) \| (.+) \|$", text, re.M)
    times = Counter(meaning for _, _, meaning in rows)
    assert rows
    assert [name for name, _, meaning in rows if times[meaning] > 1] == []
    assert [name for name, _, meaning in rows if "..." in meaning] == []


def test_no_line_of_a_diagram_is_cut_by_a_semicolon() -> None:
    """It ends a statement there, and then nothing is drawn."""
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    drawn = {
        page: re.findall(r"```mermaid\n(.*?)```", page.read_text(), re.DOTALL) for page in pages
    }
    assert sum(map(len, drawn.values())) > 3
    assert [page for page, texts in drawn.items() if any(";" in text for text in texts)] == []
