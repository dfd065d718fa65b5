"""The libraries of the web console: nothing is taken that the lock does not name by its hash."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from scripts import vendor_console as vendor


def archive(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def integrity(content: bytes) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


def test_what_has_the_hash_of_the_lock_is_taken() -> None:
    assert vendor.checked(b"x", "it", integrity(b"x")) == b"x"


def test_another_hash_is_refused_and_both_are_shown() -> None:
    with pytest.raises(vendor.VendorError) as error:
        vendor.checked(b"y", "it", integrity(b"x"))
    assert str(error.value).startswith("it: its hash is sha512-")
    assert integrity(b"x") in str(error.value)


def test_only_the_files_that_are_named_come_out_under_our_names() -> None:
    packed = archive(LICENSE=b"free", code=b"1", other=b"2")
    assert vendor.unpacked(packed, {"it.txt": "LICENSE", "it.mjs": "code"}) == {
        "it.txt": b"free",
        "it.mjs": b"1",
    }


def test_a_file_that_is_not_in_the_package_is_named() -> None:
    with pytest.raises(vendor.VendorError, match=r"dist/it\.mjs: is not in the package"):
        vendor.unpacked(archive(code=b"1"), {"it.mjs": "dist/it.mjs"})


def test_the_lock_names_each_package_whole_and_no_place_to_fetch_it_from() -> None:
    lock = json.loads(vendor.LOCK.read_text())
    for package in [*lock["page"], lock["tests"]]:
        assert set(package) == {"name", "version", "licence", "integrity", "files"}
        assert package["integrity"].startswith("sha512-")
    assert "http" not in vendor.LOCK.read_text()


def test_a_failure_is_a_line_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refuse(name: str, *_: str) -> bytes:
        raise vendor.VendorError(f"{name}: away")

    monkeypatch.setattr(vendor, "fetched", refuse)
    assert vendor.main(["axe", str(tmp_path)]) == 1
    assert vendor.main(["nonsense"]) == 2
    assert "vendor: axe-core: away" in capsys.readouterr().err
