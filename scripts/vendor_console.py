"""Puts the console's libraries into the clone as the package index has them, by their lock.

python scripts/vendor_console.py [axe DIRECTORY]

The lock names each package's version, the hash that npm publishes of it, and the files that are
taken unchanged, licences included. With `axe` it fetches what the tests judge pages by.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VENDOR = ROOT / "cli/trainyard_cli/console/static/vendor"
LOCK = ROOT / "requirements/console.json"


class VendorError(Exception):
    """What was fetched is not what the lock says."""


def fetched(name: str, version: str, integrity: str) -> bytes:
    """The package's archive, which has that hash. Raises VendorError."""
    with tempfile.TemporaryDirectory(prefix="trainyard-vendor-") as place:
        command = ["npm", "pack", "--silent", f"{name}@{version}"]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        if done.returncode:
            raise VendorError(f"{' '.join(command)} failed: {done.stderr[-1000:]}")
        (archive,) = Path(place).glob("*.tgz")
        content = archive.read_bytes()
    return checked(content, name, integrity)


def checked(content: bytes, name: str, integrity: str) -> bytes:
    """Raises VendorError."""
    found = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
    if found != integrity:
        raise VendorError(f"{name}: its hash is {found}, and the lock has {integrity}")
    return content


def unpacked(archive: bytes, files: dict[str, str]) -> dict[str, bytes]:
    """Contents by our names. Raises VendorError for a file that is not in it."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for ours, theirs in files.items():
            try:
                member = opened.extractfile(f"package/{theirs}")
            except KeyError:
                member = None
            if member is None:
                raise VendorError(f"{theirs}: is not in the package")
            found[ours] = member.read()
    return found


def brought(package: dict[str, Any], directory: Path) -> None:
    """Its files lie in the directory. Raises VendorError."""
    archive = fetched(package["name"], package["version"], package["integrity"])
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in unpacked(archive, package["files"]).items():
        (directory / name).write_bytes(content)
        print(f"{len(content):>8}  {directory / name}")


def main(argv: Sequence[str]) -> int:
    lock = json.loads(LOCK.read_text())
    try:
        if len(argv) == 2 and argv[0] == "axe":
            brought(lock["tests"], Path(argv[1]))
        elif not argv:
            for package in lock["page"]:
                brought(package, VENDOR)
        else:
            print("usage: python scripts/vendor_console.py [axe DIRECTORY]", file=sys.stderr)
            return 2
    except VendorError as problem:
        print(f"vendor: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
