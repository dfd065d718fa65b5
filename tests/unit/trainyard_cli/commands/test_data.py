"""Data go up under a name, and only what is new goes up again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.fake_api import FakeApi
from tests.support.fake_bucket import FakeBucket

pytestmark = pytest.mark.real
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    root = tmp_path / "corpus"
    (root / "train").mkdir(parents=True)
    (root / "train/a.txt").write_text("first\n")
    (root / ".gitignore").write_text("*\n")
    return root


def test_a_directory_goes_up_under_its_name_and_a_gitignore_keeps_nothing_back(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, corpus: Path
) -> None:
    code, out, err = trainyard("data", "upload", str(corpus), "corpus-v1")
    assert (code, out) == (0, "corpus-v1\n"), err
    assert "2 files" in err
    assert "inputs: [{source: corpus-v1, path: data}]" in err
    asked = [json.loads(call["body"]) for call in api.calls("POST /v1/uploads")]
    assert {one["name"] for one in asked} == {"corpus-v1"}
    tree = json.loads(bucket.objects[f"uploads/{asked[-1]['tree']['sha256']}"])
    assert [file["path"] for file in tree["files"]] == [".gitignore", "train/a.txt"]


def test_again_sends_only_what_is_new(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, corpus: Path
) -> None:
    (corpus / "large.bin").write_bytes(bytes(17 * 1024 * 1024))
    trainyard("data", "upload", str(corpus), "corpus")
    before = len(bucket.puts)
    (corpus / "train/a.txt").write_text("second\n")
    code, out, _ = trainyard("--json", "data", "upload", str(corpus), "corpus")
    assert code == 0
    assert json.loads(out)["sentPacks"] == len(bucket.puts) - before == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("s3:/bucket/x", "or s3://BUCKET/PREFIX/ for a bucket of yours"),
        ("no_underscore", "letters, digits and inner hyphens"),
        ("x" * 64, "1 to 63"),
    ],
)
def test_what_cannot_be_a_name_is_refused_with_words(
    api: FakeApi, trainyard: Call, corpus: Path, name: str, words: str
) -> None:
    code, _, err = trainyard("data", "upload", str(corpus), name)
    assert code == 6
    assert words in " ".join(err.split())
    assert api.requests == []


def test_a_directory_without_files_is_refused(
    api: FakeApi, trainyard: Call, tmp_path: Path
) -> None:
    for place, words in (("nowhere", "is not a directory"), ("empty", "has no file")):
        (tmp_path / "empty").mkdir(exist_ok=True)
        code, _, err = trainyard("data", "upload", str(tmp_path / place), "corpus")
        assert code == 6
        assert words in " ".join(err.split())
