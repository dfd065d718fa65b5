"""A directory as it is uploaded: a tree names its files, and packs hold their bytes.

Trees and packs are named by their SHA-256, so what is there already is never sent again, and what
arrives is what was packed. A pack is the plain contents of files, one after the other.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator
from typing_extensions import Self

from .base import Lenient, Name, Sha256Hex, Strict, rule

#: A pack has at most so much, so that one request carries it and a retry loses little.
PACK_BYTES = 64 * 1024 * 1024
#: An upload has at most so many packs.
MOST_PACKS = 2000
#: An upload has at most so many files.
MOST_FILES = 200_000
#: A tree's own document has at most so much.
TREE_BYTES = 64 * 1024 * 1024
#: An upload has at most so much, for who packs and for the API; data belong into a bucket
#: (`s3Mounts`).
UPLOAD_BYTES = 32 * 1024**3
_PATH_BYTES = 1024
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def tree_path(value: str) -> str:
    """Return the path if it names a file below the directory.

    Any name of UTF-8 without control characters will do. Raise ValueError otherwise.
    """
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError("must be UTF-8; rename the file") from None
    parts = value.split("/")
    if size > _PATH_BYTES or any(part in ("", ".", "..") or len(part) > 255 for part in parts):
        raise ValueError(
            f"must be a path below the directory of at most {_PATH_BYTES} bytes, without '..'"
        )
    if _CONTROL.search(value):
        raise ValueError("must not contain control characters; rename the file")
    return value


TreePath = Annotated[str, AfterValidator(tree_path)]


class Pack(Strict):
    """Some files' bytes, by their hash."""

    sha256: Sha256Hex
    bytes: int = Field(ge=1, le=PACK_BYTES)


class Chunk(Lenient):
    """Bytes of a file: `pack` is an index into the tree's packs."""

    pack: int = Field(ge=0)
    offset: int = Field(ge=0)
    bytes: int = Field(ge=1)


class TreeFile(Lenient):
    """A regular file; an empty one has no chunks."""

    path: TreePath
    bytes: int = Field(ge=0)
    sha256: Sha256Hex
    executable: bool = False
    chunks: list[Chunk] = Field(default_factory=list)


class TreeLink(Lenient):
    """A symbolic link to a file or directory of the same tree; `target` is relative to the link."""

    path: TreePath
    target: str


class Tree(Lenient):
    """A directory; its id is the SHA-256 of its document (`document`)."""

    schema_name: Literal["trainyard.tree.v1"] = Field(default="trainyard.tree.v1", alias="schema")
    packs: list[Pack] = Field(default_factory=list, max_length=MOST_PACKS)
    files: list[TreeFile] = Field(default_factory=list, max_length=MOST_FILES)
    links: list[TreeLink] = Field(default_factory=list, max_length=MOST_FILES)
    directories: list[TreePath] = Field(
        default_factory=list, description="those that are empty", max_length=MOST_FILES
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for file in self.files:
            if sum(chunk.bytes for chunk in file.chunks) != file.bytes:
                raise ValueError(f"the chunks of '{file.path}' are not its {file.bytes} bytes")
            for chunk in file.chunks:
                if chunk.pack >= len(self.packs):
                    raise ValueError(f"'{file.path}' lies in a pack that is not listed")
                if chunk.offset + chunk.bytes > self.packs[chunk.pack].bytes:
                    raise ValueError(f"'{file.path}' reaches beyond the end of its pack")
        return self

    def document(self) -> bytes:
        """The same bytes for the same directory."""
        text = json.dumps(
            self.model_dump(mode="json", by_alias=True),
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
        )
        return text.encode()


def tree_id(document: bytes) -> str:
    """A tree's id, as `job.workdir` names it."""
    return hashlib.sha256(document).hexdigest()


def unfit(tree: Tree) -> str:
    """Why the tree is no directory: a sentence; '' if it is one.

    Two things of one path, something below a file or a link, or a link that may lead out.
    """
    leaves = [*(file.path for file in tree.files), *(link.path for link in tree.links)]
    taken: set[str] = set()
    for path in [*leaves, *tree.directories]:
        if path in taken:
            return f"'{path}' is in the tree twice"
        taken.add(path)
    leaves_taken = set(leaves)
    for path in taken:
        for parent in _parents(path):
            if parent in leaves_taken:
                return f"'{path}' lies below '{parent}', which is no directory"
    for link in tree.links:
        if not leads_inside(link.path, link.target):
            return (
                f"the link '{link.path}' leads to '{link.target}'; a link must lead to a relative "
                "path inside the directory, with '..' at its beginning only"
            )
    return ""


def _parents(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:end]) for end in range(1, len(parts)))


def leads_inside(path: str, target: str) -> bool:
    """Whether a link at this path of a directory leads to something in the same directory.

    Ups are taken from a real directory, and then only downs: no other link can lead it out.
    """
    try:
        parts = target.removesuffix("/").split("/")
        ups = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
        downs = [part for part in parts[ups:] if part != "."]
        here = "/".join(downs) or ("." if target.strip("/") else "")
        return ups <= path.count("/") and (here == "." or bool(tree_path(here)))
    except ValueError:
        return False


class UploadSpec(Strict):
    """What somebody wants to upload: the tree's document, and the packs that it names."""

    tree: Pack = Field(description="hash and size of the tree's document")
    packs: list[Pack] = Field(
        default_factory=list, max_length=MOST_PACKS, description="hash and size of each pack"
    )
    name: Name | None = Field(
        default=None,
        description="by which inputs of runs find it once it is Complete; given again, it is the "
        "name of the newer upload",
    )

    @rule
    def _possible(self) -> Self:
        seen: set[str] = set()
        for pack in [self.tree, *self.packs]:
            if pack.sha256 in seen:
                raise ValueError(f"packs: {pack.sha256} is given twice; name each pack once")
            seen.add(pack.sha256)
        total = sum(pack.bytes for pack in self.packs)
        if total > UPLOAD_BYTES:
            raise ValueError(
                f"packs: they have {total} bytes together; an upload has at most {UPLOAD_BYTES}: "
                "put data into S3 or on the shared filesystem"
            )
        return self


class MissingObject(Lenient):
    """An object that is to be PUT to `url`, with all of these headers and these very bytes."""

    sha256: Sha256Hex
    bytes: int = Field(ge=1)
    url: str = Field(description="takes one PUT of these bytes; a secret while it is valid")
    headers: dict[str, str] = Field(description="are signed: the PUT must send each as it is here")


class Upload(Lenient):
    """An upload: what of it is missing. `id` is what `job.workdir` names once it is Complete."""

    id: Sha256Hex
    state: Literal["Incomplete", "Complete"]
    missing: list[MissingObject] = Field(
        default_factory=list, description="some of what is to be sent; ask again for the rest"
    )
    missing_count: int = Field(default=0, ge=0, description="of all that is missing")
    expires_at: datetime | None = Field(
        default=None,
        description="of the URLs; of a Complete upload: until then runs can be submitted with it",
    )


class CompleteUpload(Lenient):
    """uploads/complete/<id> of the data bucket: everything of this tree was there."""

    tree: Sha256Hex
    files: int = Field(ge=0)
    bytes: int = Field(ge=0, description="of the files")
    completed_at: datetime


class HeldParts(Lenient):
    """uploads/held/<id> of the data bucket: which of a tree's parts were there, hash and bytes."""

    parts: dict[Sha256Hex, int]
    looked_at: datetime


class NamedData(Lenient):
    """datasets/<name> of the data bucket: what `inputs` of a run mean by this name."""

    tree: Sha256Hex
    named_at: datetime
