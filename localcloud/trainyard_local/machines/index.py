"""A package index that machine nodes reach, as CodeArtifact in a network without NAT.

It has nothing for a node's first question.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from trainyard_local.machines.bridge_server import Answer, Asked, BridgeServer

_PAGE = re.compile(r"/simple/([A-Za-z0-9._-]+)/")
_FILE = re.compile(r"/files/([A-Za-z0-9._+!-]+)")


class Index(BridgeServer):
    """Serves the wheels of a directory by PEP 503."""

    def __init__(self, host: str, packages: Path) -> None:
        packages.mkdir(parents=True, exist_ok=True)
        self._packages = packages
        self._asked: set[str] = set()
        super().__init__(host, "index", self._answer)
        self.configuration = (
            f"[global]\nindex-url = {self.endpoint}/simple\ntrusted-host = {host}\n"
        )

    def _answer(self, asked: Asked) -> Answer:
        path = unquote(asked.path)
        if (page := _PAGE.fullmatch(path)) and self.answers(asked.address):
            links = "".join(
                f'<a href="/files/{name}">{name}</a>\n' for name in wheels(self._packages, page[1])
            )
            return Answer(200, links.encode(), "text/html")
        if (file := _FILE.fullmatch(path)) and (self._packages / file[1]).is_file():
            return Answer(200, (self._packages / file[1]).read_bytes(), "application/octet-stream")
        return Answer(404)

    def booted(self, address: str) -> None:
        """That node's first question finds nothing, as while a network comes up."""
        self._asked.discard(address)

    def answers(self, address: str) -> bool:
        """Whether the node has asked before."""
        before = address in self._asked
        self._asked.add(address)
        return before


def wheels(packages: Path, project: str) -> list[str]:
    """Names of the project's wheels; names are compared as PEP 503 says."""
    return sorted(
        path.name
        for path in packages.glob("*.whl")
        if normal(path.name.partition("-")[0]) == normal(project)
    )


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
