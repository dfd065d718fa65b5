"""A directory becomes the same tree everywhere, and a second pack reads what changed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard_contracts.trees import Tree
from trainyard_sdk.problems import InvalidInput
from trainyard_sdk.upload import index, packing
from trainyard_sdk.upload.packing import FileChanged, Packed, grouped, pack
from trainyard_sdk.upload.scan import Entry

MIB = 1024 * 1024


def unpacked(packed: Packed) -> dict[str, bytes]:
    """The files as a node makes them of tree and packs."""
    packs = {one.sha256: b"".join(packed.contents(one.sha256)) for one in packed.tree.packs}
    for name, body in packs.items():
        assert hashlib.sha256(body).hexdigest() == name
    bodies = [packs[one.sha256] for one in packed.tree.packs]
    files = {}
    for file in packed.tree.files:
        parts = [bodies[at.pack][at.offset : at.offset + at.bytes] for at in file.chunks]
        files[file.path] = b"".join(parts)
        assert hashlib.sha256(files[file.path]).hexdigest() == file.sha256
    return files


def fill(root: Path, number: int = 300) -> dict[str, bytes]:
    chance = random.Random(7)
    made = {}
    for count in range(number):
        path = f"pkg{count % 7}/m{count}.py"
        made[path] = chance.randbytes(chance.randint(0, 3000))
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(made[path])
    return made


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that was written before counts as old enough to be remembered."""
    monkeypatch.setattr(index, "TICK_NS", -1)


def test_what_was_packed_comes_out_again(root: Path) -> None:
    made = fill(root)
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o700)
    (root / "empty").mkdir()
    (root / "zero").write_bytes(b"")
    (root / "latest").symlink_to("pkg1/m1.py")
    packed = pack(root)
    assert unpacked(packed) == {**made, "run.sh": b"#!/bin/sh\n", "zero": b""}
    assert [file.path for file in packed.tree.files if file.executable] == ["run.sh"]
    assert packed.tree.directories == ["empty"]
    assert [(link.path, link.target) for link in packed.tree.links] == [("latest", "pkg1/m1.py")]
    assert Tree.model_validate(json.loads(packed.document)) == packed.tree


def test_the_same_directory_is_the_same_tree_wherever_and_whenever_it_lies(
    root: Path, tmp_path: Path
) -> None:
    fill(root)
    first = pack(root)
    copy = tmp_path / "elsewhere"
    # Another order of creation, other times, other inodes.
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_file():
            target = copy / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    assert pack(copy).id == first.id


def test_one_changed_file_changes_one_pack(root: Path) -> None:
    fill(root, 600)
    before = pack(root)
    (root / "pkg3/m3.py").write_text("changed")
    after = pack(root)
    new = {one.sha256 for one in after.tree.packs} - {one.sha256 for one in before.tree.packs}
    assert len(before.tree.packs) > 3
    assert len(new) == 1
    (root / "pkg3/added.py").write_text("new")
    more = pack(root)
    new = {one.sha256 for one in more.tree.packs} - {one.sha256 for one in after.tree.packs}
    assert 1 <= len(new) <= 2


def entries(*sizes: int) -> list[Entry]:
    return [Entry(f"f{number:06}", size, 0, 0, 0, False) for number, size in enumerate(sizes)]


def test_packs_have_64_files_on_average_and_a_size_that_a_retry_can_afford() -> None:
    groups = list(grouped(entries(*[10] * 20_000)))
    assert 50 < 20_000 / len(groups) < 80
    groups = list(grouped(entries(*[5 * MIB] * 100)))
    assert all(group.bytes <= packing.SMALL_BYTES for group in groups)
    groups = list(grouped(entries(10, 17 * MIB, 10)))
    assert [len(group.entries) for group in groups] == [1, 2]
    assert len(list(grouped(entries(*[1] * 200_000)))) < 2000


def test_a_large_file_is_streamed_in_chunks_of_64_mib(root: Path, old: None) -> None:
    with open(root / "large.bin", "wb") as file:
        for number in range(130):
            file.write(number.to_bytes(2, "big") * (MIB // 2))
    packed = pack(root)
    (file_of,) = packed.tree.files
    assert [chunk.bytes for chunk in file_of.chunks] == [64 * MIB, 64 * MIB, 2 * MIB]
    largest = max(len(block) for block in packed.contents(packed.tree.packs[0].sha256))
    assert largest <= MIB
    digest = hashlib.sha256()
    for one in packed.tree.packs:
        for block in packed.contents(one.sha256):
            digest.update(block)
    assert digest.hexdigest() == file_of.sha256
    again = pack(root)
    assert (again.id, again.read_bytes) == (packed.id, 0)


def test_a_second_pack_reads_only_the_pack_of_what_changed(root: Path, old: None) -> None:
    made = fill(root, 600)
    first = pack(root)
    assert first.read_bytes == sum(map(len, made.values()))
    again = pack(root)
    assert (again.id, again.read_bytes) == (first.id, 0)
    (root / "pkg3/m3.py").write_text("changed")
    third = pack(root)
    assert third.id != first.id
    assert 0 < third.read_bytes < first.read_bytes / 3


def test_a_change_in_the_same_tick_with_the_same_size_is_seen(root: Path) -> None:
    path = root / "a.py"
    path.write_text("one")
    seen = path.stat()
    first = pack(root)
    path.write_text("two")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert pack(root).id != first.id


def test_a_touched_time_does_not_hide_a_change(root: Path, old: None) -> None:
    path = root / "a.py"
    path.write_text("one")
    seen = path.stat()
    first = pack(root)
    path.write_text("two")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert path.stat().st_mtime_ns == seen.st_mtime_ns
    assert pack(root).id != first.id


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"version": 1}', '{"version": 1, "files": 3}'])
def test_a_broken_index_costs_some_reading_only(
    root: Path, cache: Path, old: None, broken: str
) -> None:
    (root / "a.py").write_text("one")
    first = pack(root)
    (file,) = cache.iterdir()
    file.write_text(broken)
    assert pack(root).id == first.id


def test_an_index_that_cannot_be_written_is_done_without(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (root / "a.py").write_text("one")
    assert pack(root).id == pack(root).id


def test_an_empty_directory_is_a_tree_without_files(root: Path) -> None:
    packed = pack(root)
    assert (packed.tree.files, packed.tree.packs) == ([], [])
    assert packed.upload.tree.bytes == len(packed.document)


def test_a_file_that_changes_all_the_time_is_refused_by_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "growing.log"
    path.write_text("x")
    monkeypatch.setattr(packing, "PAUSE_SECONDS", 0.0)
    real = packing._of_entry

    def grows(where: Path, entry: Entry) -> Iterator[bytes]:
        with open(path, "a") as file:
            file.write("more")
        return real(where, entry)

    monkeypatch.setattr(packing, "_of_entry", grows)
    with pytest.raises(InvalidInput, match=r"'growing\.log' changed in each of 3 tries"):
        pack(root)


def test_a_file_that_changes_once_is_packed_as_it_is_then(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "a.py"
    path.write_text("x")
    monkeypatch.setattr(packing, "PAUSE_SECONDS", 0.0)
    real, changes = packing._of_entry, ["once"]

    def changing(where: Path, entry: Entry) -> Iterator[bytes]:
        if changes:
            path.write_text(changes.pop())
        return real(where, entry)

    monkeypatch.setattr(packing, "_of_entry", changing)
    assert unpacked(pack(root)) == {"a.py": b"once"}


@pytest.mark.parametrize("now", ["other", "x", None])
def test_contents_that_are_not_what_was_hashed_are_never_handed_out_whole(
    root: Path, now: str | None
) -> None:
    path = root / "a.py"
    (root / "b.py").write_text("same")
    path.write_text("first")
    packed = pack(root)
    if now is None:
        path.unlink()
    else:
        path.write_text(now)
    (one,) = packed.tree.packs
    given: list[bytes] = []
    with pytest.raises(FileChanged) as changed:
        given.extend(packed.contents(one.sha256))
    assert changed.value.path == "a.py"
    assert sum(map(len, given)) < one.bytes


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(root: Path) -> None:
    (root / "secret").write_text("x")
    (root / "secret").chmod(0)
    with pytest.raises(InvalidInput, match="'secret': Permission denied"):
        pack(root)


def test_too_many_packs_are_told_with_what_is_largest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(root)
    monkeypatch.setattr(packing, "MOST_PACKS", 2)
    with pytest.raises(InvalidInput, match=r"packs, of 2 at most\. Largest: pkg\d/ "):
        pack(root)
