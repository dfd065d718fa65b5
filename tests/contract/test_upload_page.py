"""The page on uploads shows the document of a tree as the API takes it."""

from __future__ import annotations

import re

from tests.support.repository import ROOT

from trainyard_contracts.trees import Pack, Tree, TreeFile, TreeLink, unfit

PAGE = (ROOT / "docs/uploads.md").read_text()


def shown() -> Tree:
    example = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert example, "the page shows no tree"
    text = example[1].replace("PACK", "0" * 64).replace("FILE", "1" * 64)
    return Tree.model_validate_json(text, strict=True)


def test_the_tree_of_the_page_is_one() -> None:
    assert unfit(shown()) == ""


def test_the_page_shows_every_field_of_a_tree() -> None:
    example = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert example
    for model in (Tree, Pack, TreeFile, TreeLink):
        for name, field in model.model_fields.items():
            assert f'"{field.alias or name}":' in example[1], (model.__name__, name)
