"""Objects are copied whole or not at all, after any number of kills."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.buckets import Bucket
from tests.support.dying import dies

from trainyard_agent.host import patience
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.jobs import copy_file, copy_list, copy_progress, copying
from trainyard_agent.jobs.copy_list import Listing
from trainyard_agent.jobs.copy_progress import Progress
from trainyard_agent.jobs.copying import Copy
from trainyard_contracts.inputs import S3Prefix

CODE = tuple(str(one.__file__) for one in (copying, copy_file, copy_list, copy_progress))
FILES = {
    "v1/a.txt": b"first\n",
    "v1/inner/b.bin": bytes(range(256)) * 9,
    "v1/inner/": b"",
    "v1/empty": b"",
    "v1/z+ä.txt": b"plus\n",
    "other/c.txt": b"not asked for",
}
WANTED = {
    key.removeprefix("v1/"): body
    for key, body in FILES.items()
    if key.startswith("v1/") and not key.endswith("/")
}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRAINYARD_ROOT", str(tmp_path / "root"))
    monkeypatch.setattr(patience, "FIRST_PAUSE_SECONDS", 0.0001)
    monkeypatch.setattr(copying, "SPARE_BYTES", 0)


def copy(s3: Any, stage: Path, source: str = "s3://corpus/v1/") -> Listing:
    return Copy(s3, S3Prefix.of(source), stage, "inputs.0.source", Progress()).run()


def assert_whole(stage: Path) -> None:
    top = stage / "whole"
    found = {str(path.relative_to(top)): path for path in top.rglob("*") if path.is_file()}
    assert {name: path.read_bytes() for name, path in found.items()} == WANTED
    # A kill between two system calls leaves an object's list of pieces.
    assert [path for path in (stage / "parts").iterdir() if path.suffix != ".done"] == []


def test_what_is_below_the_prefix_is_copied_with_its_names(tmp_path: Path) -> None:
    listing = copy(Bucket(FILES), tmp_path / "stage")
    assert (listing.objects, listing.bytes) == (4, sum(map(len, WANTED.values())))
    assert_whole(tmp_path / "stage")


def test_an_object_that_came_in_parts_is_fetched_and_compared_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PIECE_BYTES", 100)
    s3 = Bucket(FILES, part=500)
    copy(s3, tmp_path / "stage")
    assert_whole(tmp_path / "stage")
    starts = sorted(start for key, start in s3.fetched if key.endswith("b.bin"))
    assert starts == [0, 500, 1000, 1500, 2000]


@pytest.mark.parametrize(
    "told", [lambda at, number: None, lambda at, number: 500 if number == 1 else 400]
)
def test_an_object_whose_parts_differ_or_nobody_tells_is_fetched_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Any
) -> None:
    monkeypatch.setattr(copying, "PIECE_BYTES", 1000)
    s3 = Bucket(FILES, part=500)
    monkeypatch.setattr(s3, "part_bytes", told)
    copy(s3, tmp_path / "stage")
    assert_whole(tmp_path / "stage")
    starts = sorted(start for key, start in s3.fetched if key.endswith("b.bin"))
    assert starts == [0, 1000, 2000]


@pytest.mark.real
def test_after_a_kill_at_any_line_the_next_one_finishes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PIECE_BYTES", 700)
    line, died = 1, True
    while died:
        stage = tmp_path / str(line)
        s3 = Bucket(FILES, part=700)
        died = dies(CODE, line, partial(copy, s3, stage))
        copy(s3, stage)
        assert_whole(stage)
        line += 29
    assert line > 300


def test_what_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    s3 = Bucket(FILES)
    copy(s3, tmp_path / "stage")
    before = list(s3.fetched)
    copy(s3, tmp_path / "stage")
    assert s3.fetched == before


def test_after_the_machine_went_down_it_is_fetched_again(tmp_path: Path) -> None:
    s3 = Bucket(FILES)
    copy(s3, tmp_path / "stage")
    (tmp_path / "stage/whole/a.txt").write_bytes(b"\0" * 6)
    (tmp_path / "stage/boot").write_text("another")
    copy(s3, tmp_path / "stage")
    assert_whole(tmp_path / "stage")


def test_an_object_that_is_changed_meanwhile_ends_it_and_the_next_copy_lists_anew(
    tmp_path: Path,
) -> None:
    s3 = Bucket(FILES)

    def change(key: str) -> None:
        s3.objects["v1/inner/b.bin"] = b"new"

    s3.before = change
    with pytest.raises(CommandRefused, match="was changed while it was copied") as refused:
        copy(s3, tmp_path / "stage")
    assert refused.value.code == "input-refused"
    assert copy(s3, tmp_path / "stage").bytes == sum(map(len, WANTED.values())) - 9 * 256 + 3


def test_bytes_that_arrive_otherwise_are_not_taken(tmp_path: Path) -> None:
    s3 = Bucket(FILES)
    s3.damage = lambda body: body[::-1]
    with pytest.raises(CommandRefused, match="with other bytes than its ETag says") as refused:
        copy(s3, tmp_path / "stage")
    assert refused.value.code == "unreachable"
    s3.damage = lambda body: body
    copy(s3, tmp_path / "stage")
    assert_whole(tmp_path / "stage")


def test_with_a_kms_key_the_etag_is_no_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = Bucket(FILES)
    s3.kind = "aws:kms"
    monkeypatch.setattr(s3, "etag", lambda key: "0" * 32)
    copy(s3, tmp_path / "stage")
    assert_whole(tmp_path / "stage")


def test_an_answer_that_breaks_off_is_asked_for_again(tmp_path: Path) -> None:
    s3, cut = Bucket(FILES), [True]
    s3.damage = lambda body: body[:3] if cut and cut.pop() else body
    copy(s3, tmp_path / "stage")
    assert_whole(tmp_path / "stage")


@pytest.mark.parametrize(
    ("source", "objects", "words"),
    [
        ("s3://corpus/v2/", FILES, "s3://corpus/v2/: there is no object below it"),
        ("s3://nowhere/", FILES, "there is no such bucket"),
        ("s3://corpus/v1/", {"v1/a": b"1", "v1/a/b": b"2"}, "a file and the directory of another"),
        ("s3://corpus/v1/", {"v1/../a": b"1"}, "cannot be a file"),
        ("s3://corpus/v1/", {"v1/a//b": b"1"}, "cannot be a file"),
        ("s3://corpus/v1/", {"v1/a/": b"1"}, "ends with '/'"),
    ],
)
def test_what_cannot_be_files_is_refused_with_words(
    tmp_path: Path, source: str, objects: dict[str, bytes], words: str
) -> None:
    with pytest.raises(CommandRefused, match=words.replace("(", r"\(")) as refused:
        copy(Bucket(objects), tmp_path / "stage", source)
    assert refused.value.code == "input-refused"
    assert str(refused.value).startswith("inputs.0.source: s3://")


def test_a_bucket_that_the_nodes_may_not_read_is_refused_with_words(tmp_path: Path) -> None:
    s3 = Bucket(FILES)
    s3.refusal = Refused(403, "AccessDenied")
    with pytest.raises(CommandRefused, match="the nodes' role may not read it"):
        copy(s3, tmp_path / "stage")


def test_an_s3_that_does_not_answer_is_asked_again_later(tmp_path: Path) -> None:
    s3 = Bucket(FILES)

    def away(key: str) -> None:
        raise Unreachable("503")

    s3.before = away
    with pytest.raises(CommandRefused, match="the same command again is safe") as refused:
        copy(s3, tmp_path / "stage")
    assert refused.value.code == "unreachable"


def test_more_than_there_is_room_for_is_refused_before_a_byte_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = Bucket(FILES)
    monkeypatch.setattr(copying, "SPARE_BYTES", 2**60)
    with pytest.raises(CommandRefused, match="has room for"):
        copy(s3, tmp_path / "stage")
    assert s3.fetched == []
