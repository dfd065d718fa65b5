"""Size and SHA-256 of files, and what S3 shows of them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from trainyard_agent.host.job_files import open_inside

BLOCK = 1024 * 1024
#: S3's limit of one PutObject: larger files go up in parts, and their checksum is the composite of
#: the parts'.
SINGLE_PUT_BYTES = 5 * 1024**3
#: A file that is too large for one PutObject goes up in parts of this size.
PART_BYTES = 512 * 1024**2


@dataclass(frozen=True)
class Digest:
    """Size and SHA-256 of a file.

    `checksum` is what S3 shows for it (base64, with '-parts' where it was uploaded in parts).
    """

    size: int
    sha256: str
    checksum: str


def digest(
    path: Path,
    *,
    below: Path | None = None,
    pause: Callable[[], None] | None = None,
    most: int | None = None,
) -> Digest:
    """Read a file once, in blocks; `pause` is called between blocks.

    No link is followed on the way from `below` (its directory). `most`: so many bytes from its
    beginning, of a file that may grow for ever.
    """
    whole, part, parts, size = sha256(), sha256(), [], 0
    with open_inside(below or path.parent, path) as stream:
        while block := stream.read(BLOCK if most is None else min(BLOCK, most - size)):
            whole.update(block)
            part.update(block)
            size += len(block)
            if size % PART_BYTES == 0:
                parts.append(part.digest())
                part = sha256()
            if pause is not None:
                pause()
    if size <= SINGLE_PUT_BYTES:
        return Digest(size, whole.hexdigest(), b64encode(whole.digest()).decode())
    if size % PART_BYTES:
        parts.append(part.digest())
    composite = b64encode(sha256(b"".join(parts)).digest()).decode()
    return Digest(size, whole.hexdigest(), f"{composite}-{len(parts)}")


def of_bytes(body: bytes) -> Digest:
    hashed = sha256(body)
    return Digest(len(body), hashed.hexdigest(), b64encode(hashed.digest()).decode())


def of_sha256(size: int, hexadecimal: str) -> Digest | None:
    """The digest of a file whose hash is known; None where S3 would show another checksum."""
    if size > SINGLE_PUT_BYTES:
        return None
    return Digest(size, hexadecimal, b64encode(bytes.fromhex(hexadecimal)).decode())
