"""Whether a file of PyTorch's, which is a ZIP archive, is whole."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Sequence
from typing import IO

from trainyard_agent.checkpoints.torn import Pause, Torn

_BLOCK = 1024 * 1024
#: What a compressed archive may unpack to, in sizes of itself: a larger one proves nothing.
_MOST_RATIO = 100


#: Kinds of members that are read; others' readers raise what looks like an error of the disk.
_READ = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: What zipfile raises for archives that it cannot read, though they may be whole.
STRANGE = (NotImplementedError, RuntimeError, OverflowError)
#: What zipfile raises for bytes that are no whole archive.
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    struct.error,
    UnicodeDecodeError,
    ValueError,
)


def prove_zip(stream: IO[bytes], name: str, size: int, pause: Pause) -> bool:
    """torch.save's and numpy's archives: a directory at the end, and a CRC of each member."""
    see_end(stream, size)
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            if (
                any(member.compress_type not in _READ for member in members)
                or sum(member.file_size for member in members) > _MOST_RATIO * size
            ):
                return False
            wrong = [member for member in members if not _has_its_crc(archive, member, pause)]
            if wrong and not _without_crcs(members, wrong):
                raise Torn(f"{name}: {wrong[0].filename[:200]} does not have its CRC")
    except STRANGE:
        return False
    except BROKEN as error:
        raise Torn(f"{name}: {_in_words(error)}") from error
    return not wrong


def _has_its_crc(archive: zipfile.ZipFile, member: zipfile.ZipInfo, pause: Pause) -> bool:
    try:
        with archive.open(member) as content:
            while content.read(_BLOCK):
                pause()
    except zipfile.BadZipFile as error:
        if str(error).startswith("Bad CRC-32"):
            return False
        raise
    return True


def _without_crcs(members: Sequence[zipfile.ZipInfo], wrong: Sequence[zipfile.ZipInfo]) -> bool:
    """Whether torch was asked to leave the CRCs out, which is faster: then all of them are wrong.

    Such a file proves nothing.
    """
    held = [member for member in members if member.file_size]
    return len(held) >= 3 and len(wrong) == len(held)


def see_end(stream: IO[bytes], size: int) -> None:
    """Raise OSError if the end cannot be read just now: zipfile calls that no zip file."""
    stream.seek(max(0, size - 70_000))
    stream.read()
    stream.seek(0)


def _in_words(error: Exception) -> str:
    text = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return "it ends early" if "not a zip file" in text else text
