"""A file says of itself whether it is whole, or says nothing; a directory lacks no file."""

from __future__ import annotations

import errno
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.foreign import archive, hugging_face, safetensors

from trainyard_agent.checkpoints import formats
from trainyard_agent.checkpoints.formats import glance, prove
from trainyard_agent.checkpoints.torn import Torn


def names(root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("name", "body", "proven"),
    [
        ("snapshot.pt", archive(1), True),
        ("model.safetensors", safetensors(), True),
        ("state.json", b'{"a": 1}', True),
        ("old.pt", b"\x80\x02legacy", False),
        ("notes.txt", b"words", False),
    ],
)
def test_whole_files(tmp_path: Path, name: str, body: bytes, proven: bool) -> None:
    (tmp_path / name).write_bytes(body)
    assert prove(tmp_path, [name], ranks=None) == proven
    assert glance(tmp_path, [name]) == ("provable" if proven else "silent")


@pytest.mark.parametrize("name", ["snapshot.pt", "model.safetensors", "state.json"])
def test_a_file_that_is_cut_anywhere_is_torn(tmp_path: Path, name: str) -> None:
    whole = {
        "snapshot.pt": archive(1, 200),
        "model.safetensors": safetensors(),
        "state.json": b'{"step": 100}',
    }[name]
    for end in range(4, len(whole), 7):
        (tmp_path / name).write_bytes(whole[:end])
        with pytest.raises(Torn, match=name):
            prove(tmp_path, [name], ranks=None)


def test_a_member_that_was_not_written_is_torn_though_the_end_is_there(tmp_path: Path) -> None:
    body = archive(1, 4000)
    (tmp_path / "snapshot.pt").write_bytes(body[:1000] + b"\0" * 1000 + body[2000:])
    assert glance(tmp_path, ["snapshot.pt"]) == "provable"
    with pytest.raises(Torn, match="CRC"):
        prove(tmp_path, ["snapshot.pt"], ranks=None)


def test_a_file_that_torch_wrote_without_crcs_proves_nothing(tmp_path: Path) -> None:
    """torch.serialization.set_crc32_options(False): all of them are wrong then."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as into:
        for name in ("data.pkl", "version", "data/0"):
            into.writestr(zipfile.ZipInfo(name), name * 100)
        for member in into.infolist():
            member.CRC ^= 1
    (tmp_path / "snapshot.pt").write_bytes(body.getvalue())
    assert not prove(tmp_path, ["snapshot.pt"], ranks=None)
    (tmp_path / "snapshot.pt").write_bytes(body.getvalue()[:-9])
    with pytest.raises(Torn):
        prove(tmp_path, ["snapshot.pt"], ranks=None)


def test_lines_of_json_are_not_torn_and_prove_nothing(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert not formats.proves(tmp_path, "log.json")


def test_an_empty_file_of_weights_is_torn_and_another_is_not(tmp_path: Path) -> None:
    (tmp_path / "a.pt").touch()
    (tmp_path / "b.txt").touch()
    assert prove(tmp_path, ["b.txt"], ranks=None)
    with pytest.raises(Torn, match=r"a\.pt is empty"):
        prove(tmp_path, ["a.pt", "b.txt"], ranks=None)


def test_a_directory_of_hugging_faces_trainer_is_whole(tmp_path: Path) -> None:
    hugging_face(tmp_path / "checkpoint-5", 5)
    assert prove(tmp_path, names(tmp_path), ranks=2)
    assert glance(tmp_path, names(tmp_path)) == "provable"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda d: (d / "trainer_state.json").unlink(), "trainer_state.json is missing"),
        (lambda d: (d / "trainer_state.json").write_text('{"global_'), "is cut off"),
        (lambda d: (d / "rng_state_1.pth").unlink(), "rng_state of rank 1 is missing"),
        (lambda d: (d / "model-00002-of-00002.safetensors").unlink(), "00002.* is missing"),
        (lambda d: (d / "model.safetensors.index.json").write_text("{"), "index.json is cut off"),
        (lambda d: (d / "optimizer.pt").write_bytes(archive(5)[:500]), "optimizer.pt: it ends"),
        (lambda d: (d / "model-00001-of-00002.safetensors").write_bytes(b"x" * 9), "safetensors"),
    ],
)
def test_a_directory_that_lacks_something_is_torn(
    tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    damage(hugging_face(tmp_path / "checkpoint-5", 5))
    with pytest.raises(Torn, match=words):
        prove(tmp_path, names(tmp_path), ranks=2)


def test_a_naive_callbacks_checkpoint_without_rank_ones_state_is_not_whole(tmp_path: Path) -> None:
    made = hugging_face(tmp_path / "checkpoint-5", 5, ranks=1)
    assert (made / "rng_state_0.pth").exists()
    with pytest.raises(Torn, match="of rank 1 is missing"):
        prove(tmp_path, names(tmp_path), ranks=2)
    assert prove(tmp_path, names(tmp_path), ranks=None), "a program that starts its own processes"


def test_a_distributed_checkpoint_is_whole_once_its_metadata_is_there(tmp_path: Path) -> None:
    (tmp_path / "__0_0.distcp").write_bytes(b"tensors")
    with pytest.raises(Torn, match=r"\.metadata is missing"):
        prove(tmp_path, names(tmp_path), ranks=1)
    (tmp_path / ".metadata").write_bytes(b"\x80plan")
    assert prove(tmp_path, names(tmp_path), ranks=1)


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
def test_what_cannot_be_read_now_is_not_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    (tmp_path / "snapshot.pt").write_bytes(archive(1))

    class Failing:
        """A file whose end cannot be read."""

        def __init__(self, root: Path, path: Path) -> None:
            self._stream = path.open("rb")
            self.fileno = self._stream.fileno

        def read(self, size: int = -1) -> bytes:
            if size == 8:
                return self._stream.read(8)
            raise OSError(code, "the file system fails over")

        def seek(self, *where: int) -> int:
            return self._stream.seek(*where)

        def __enter__(self) -> Failing:
            return self

        def __exit__(self, *_: object) -> None:
            self._stream.close()

    monkeypatch.setattr(formats, "open_inside", Failing)
    for look in (lambda: prove(tmp_path, ["snapshot.pt"], ranks=None),
                 lambda: glance(tmp_path, ["snapshot.pt"])):  # fmt: skip
        with pytest.raises(OSError, match="fails over"):
            look()


def test_deep_json_is_torn_and_ends_nobody(tmp_path: Path) -> None:
    (tmp_path / "a.index.json").write_text("[" * 100_000)
    (tmp_path / "b.json").write_text(json.dumps({"a": 1}))
    with pytest.raises(Torn):
        prove(tmp_path, names(tmp_path), ranks=None)
