"""Every backend of the union of specs tells the stories of tests/conformance, or says why not."""

from __future__ import annotations

import pytest
from tests.conformance.adapter import STORIES, Adapter, adapter_of, members
from tests.conformance.table import PAGE, page, table
from tests.support.repository import ROOT

from trainyard_contracts.cluster_specs import read_cluster_spec

FOLDER = ROOT / "tests/conformance"


class Elsewhere(Adapter):
    """A backend that lacks a story."""

    name = "hyperpod"
    without = {"lost_node": "its nodes are never lost."}
    cluster = scarce = kill_worker = lose_node = tear = refused = None
    spoiled_export = left = keeps = None


def test_each_backend_has_an_adapter_and_each_adapter_a_backend() -> None:
    found = {path.stem for path in (FOLDER / "backends").glob("*.py")}
    assert found == {name.replace("-", "_") for name in members()}


@pytest.mark.parametrize("name", members())
def test_an_adapter_makes_a_spec_of_its_backend(name: str) -> None:
    adapter = adapter_of(name)
    spec = read_cluster_spec(adapter.cluster("story"))
    assert (adapter.name, spec.backend) == (name, name)
    assert spec.worker_count() >= 2


def test_a_backend_without_an_adapter_is_found() -> None:
    with pytest.raises(ModuleNotFoundError, match="another_service"):
        adapter_of("another-service")


def test_each_story_has_its_file_and_each_file_its_story() -> None:
    found = {path.stem.removeprefix("test_") for path in FOLDER.glob("test_*.py")}
    assert found == set(STORIES)


@pytest.mark.parametrize("name", members())
def test_a_story_that_cannot_be_is_one_of_the_stories_and_has_one_sentence(name: str) -> None:
    without = adapter_of(name).without
    assert without.keys() <= STORIES.keys()
    assert all(why.endswith(".") and why.count(". ") == 0 for why in without.values())


def test_a_story_that_cannot_be_is_listed_with_its_reason() -> None:
    written = table([Elsewhere()])
    assert "| a node is lost: the run resumes on other nodes | no, see below |" in written
    assert "- `hyperpod`, a node is lost: its nodes are never lost." in written


def test_the_page_has_the_table_of_the_adapters() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "write it anew: .venv/bin/python -m tests.conformance.table"


def test_no_story_names_a_backend() -> None:
    """Their words are the API's."""
    for path in [*FOLDER.glob("test_*.py"), FOLDER / "stage.py"]:
        for name in members():
            assert name not in path.read_text(), f"{path} names {name}"
