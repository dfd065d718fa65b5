"""Directories as they are uploaded, and an S3 that has them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import IO, Any

from trainyard_agent.host.locations import Location
from trainyard_contracts.trees import Chunk, Pack, Tree, TreeFile, TreeLink, tree_id


def sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def packed(
    files: Mapping[str, bytes],
    *,
    links: Mapping[str, str] | None = None,
    empty: tuple[str, ...] = (),
    executable: tuple[str, ...] = (),
    chunk: int = 1000,
) -> tuple[Tree, dict[str, bytes]]:
    """The tree of these files, and its packs by hash; each pack has at most `chunk` bytes."""
    packs: list[bytes] = []
    listed = []
    for path, body in sorted(files.items()):
        chunks = []
        for start in range(0, len(body), chunk):
            part = body[start : start + chunk]
            if not packs or len(packs[-1]) + len(part) > chunk:
                packs.append(b"")
            chunks.append(Chunk(pack=len(packs) - 1, offset=len(packs[-1]), bytes=len(part)))
            packs[-1] += part
        listed.append(
            TreeFile(
                path=path,
                bytes=len(body),
                sha256=sha(body),
                executable=path in executable,
                chunks=chunks,
            )
        )
    tree = Tree(
        packs=[Pack(sha256=sha(pack), bytes=len(pack)) for pack in packs],
        files=listed,
        links=[TreeLink(path=path, target=target) for path, target in (links or {}).items()],
        directories=list(empty),
    )
    return tree, {sha(pack): pack for pack in packs}


class TreeS3:
    """Has a tree and its packs below a prefix, as the agent's S3; counts what is fetched."""

    def __init__(self, tree: Tree, packs: Mapping[str, bytes], prefix: str = "code") -> None:
        document = tree.document()
        self.id, self.prefix = tree_id(document), prefix
        self.objects = {f"{prefix}/{key}": body for key, body in packs.items()}
        self.objects[f"{prefix}/{self.id}"] = document
        self.fetched: list[str] = []
        self.before: Callable[[str], Any] = lambda key: None
        self._lock = threading.Lock()

    def get_file(self, at: Location, into: IO[bytes]) -> bool:
        with self._lock:
            self.fetched.append(at.key.rpartition("/")[2])
        self.before(at.key)
        if at.key not in self.objects:
            return False
        into.seek(0)
        into.truncate()
        into.write(self.objects[at.key])
        into.flush()
        return True


def upload_spec(tree: Tree, packs: Mapping[str, bytes]) -> dict[str, Any]:
    """The body of POST /v1/uploads for it."""
    document = tree.document()
    return {
        "tree": {"sha256": tree_id(document), "bytes": len(document)},
        "packs": [{"sha256": sha256, "bytes": len(body)} for sha256, body in packs.items()],
    }
