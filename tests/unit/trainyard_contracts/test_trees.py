"""A tree is a directory and nothing beside it, and is named by its own document."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.trees import packed

from trainyard_contracts.trees import Pack, Tree, TreeFile, UploadSpec, tree_id, unfit

FILES = {"a.py": b"1", "sub/deep/b.py": b"2"}


def test_the_same_directory_has_the_same_id() -> None:
    assert tree_id(packed(FILES)[0].document()) == tree_id(packed(FILES)[0].document())
    assert tree_id(packed({"a.py": b"2"})[0].document()) != tree_id(packed(FILES)[0].document())
    again = Tree.model_validate_json(packed(FILES)[0].document())
    assert again.document() == packed(FILES)[0].document()


@pytest.mark.parametrize(
    "links",
    [
        {"l": "a.py"},
        {"l": "nowhere.py"},
        {"sub/l": "../a.py"},
        {"sub/deep/l": "../../sub"},
        {"l": "sub/deep/b.py"},
        {"sub/l": "./deep"},
        {"sub/l": ".."},
        {"l": "sub/"},
    ],
)
def test_a_link_that_stays_inside_is_taken(links: dict[str, str]) -> None:
    assert unfit(packed(FILES, links=links)[0]) == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"links": {"l": "/etc/passwd"}}, "leads to '/etc/passwd'"),
        ({"links": {"l": "/"}}, "leads to '/'"),
        ({"links": {"l": ".."}}, "leads to '..'"),
        ({"links": {"sub/l": "../.."}}, "leads to"),
        ({"links": {"l": "sub/../../x"}}, "leads to"),
        ({"links": {"l": "sub/.."}}, "with '..' at its beginning only"),
        ({"links": {"l": ""}}, "leads to ''"),
        ({"links": {"a.py": "sub"}}, "'a.py' is in the tree twice"),
        ({"empty": ("a.py",)}, "'a.py' is in the tree twice"),
        ({"links": {"a.py/l": "x"}}, "lies below 'a.py', which is no directory"),
        ({"links": {"l": "sub"}, "empty": ("l/x",)}, "lies below 'l'"),
    ],
)
def test_what_is_no_directory_is_said_so(changes: dict[str, Any], words: str) -> None:
    assert words in unfit(packed(FILES, **changes)[0])


@pytest.mark.parametrize("path", ["", "/a", "a//b", "../a", "a/..", "a\nb", "x" * 256, "\ud800"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        TreeFile(path=path, bytes=0, sha256="a" * 64)


def test_a_pack_is_named_once_in_an_upload() -> None:
    one = Pack(sha256="a" * 64, bytes=1)
    with pytest.raises(ValidationError, match="given twice"):
        UploadSpec(tree=one, packs=[one])
