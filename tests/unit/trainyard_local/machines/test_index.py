"""The package index of nodes that boot is empty at first, and then has the project's wheels."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from trainyard_local.machines import index as machine_index


@pytest.mark.real
def test_a_package_index_has_nothing_at_first_and_then_the_projects_wheels(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    index = machine_index.Index("127.0.0.1", packages)
    try:
        for name in ("tiny_tool-1.0-py3-none-any.whl", "tiny-1.0-py3-none-any.whl", "notes.txt"):
            (packages / name).write_bytes(name.encode())
        url = index.configuration.split("index-url = ")[1].split()[0]
        assert httpx.get(f"{url}/tiny.tool/").status_code == 404
        page = httpx.get(f"{url}/tiny.tool/").text
        [link] = re.findall(r'href="([^"]+)"', page)
        assert (
            httpx.get(url.removesuffix("/simple") + link).content
            == b"tiny_tool-1.0-py3-none-any.whl"
        )
        assert httpx.get(url.removesuffix("/simple") + "/files/notes.md").status_code == 404
        index.booted("127.0.0.1")
        assert httpx.get(f"{url}/tiny/").status_code == 404
    finally:
        index.close()
