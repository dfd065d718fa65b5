"""The page's files: what an address leads to, and the policy that they run under."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest
from tests.support.repository import ROOT

from trainyard_cli.console import files

FOUND = files.read()
LOCK = json.loads((ROOT / "requirements/console.json").read_text())


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/runs",
        "/runs/run-1",
        "/clusters/c",
        "/approvals",
        "/cost",
        "/submit",
        "/compare",
        "/runs/",
        "/runs/run-1/",
        "/cost/",
    ],
)
def test_an_address_of_a_page_leads_to_the_page(path: str) -> None:
    assert FOUND.get(path) is FOUND.by_path["/static/index.html"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py", "/static/%2e%2e/server.py", "/static//app.js", "/etc/passwd",
        "/static/", "/static", "/server.py", "/runs/../static/app.js", "/runs/a/b", "static/app.js",
        "/static/app.js/", "/static/vendor/../../gate.py", "/RUNS",
        "/runs//", "//", "/runs/run-1//",
    ],
)  # fmt: skip
def test_no_address_leads_to_another_file(path: str) -> None:
    assert FOUND.get(path) is None


def test_scripts_are_ours_alone_and_the_one_in_the_page_is_named_by_its_hash() -> None:
    index = FOUND.by_path["/static/index.html"].content
    (inline,) = re.findall(rb"<script(?![^>]*src)[^>]*>(.*?)</script>", index, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(inline).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in FOUND.policy
    assert "unsafe" not in FOUND.policy
    assert "default-src 'none'" in FOUND.policy


def test_every_name_of_the_import_map_is_a_file() -> None:
    index = FOUND.by_path["/static/index.html"].content.decode()
    (inline,) = re.findall(r'<script type="importmap">(.*?)</script>', index, re.DOTALL)
    named = set(json.loads(inline)["imports"].values())
    assert len(named) == 6
    assert named <= set(FOUND.by_path)


def test_nothing_of_the_page_makes_html_of_text_or_loads_from_elsewhere() -> None:
    ours = {path: one.content.decode() for path, one in FOUND.by_path.items()
            if "/vendor/" not in path and path.endswith((".js", ".html", ".css"))}  # fmt: skip
    assert len(ours) > 8
    for path, text in ours.items():
        for word in ("innerHTML", "outerHTML", "dangerouslySet", "document.write", "eval(",
                     "insertAdjacent", "new Function"):  # fmt: skip
            assert word not in text, f"{path}: {word}"
        assert not re.findall(r"""["'(]https?://[a-z]""", text), path
        assert not [line for line in text.splitlines() if len(line) > 100], path


def test_each_library_has_its_licence_beside_it_and_nothing_else_lies_there() -> None:
    wanted = {name for package in LOCK["page"] for name in package["files"]}
    vendored = {path.rpartition("/")[2] for path in FOUND.by_path if "/vendor/" in path}
    assert vendored == wanted
    for package in LOCK["page"]:
        (licence,) = [name for name in package["files"] if name.endswith(".LICENSE.txt")]
        assert b"Copyright" in FOUND.by_path[f"/static/vendor/{licence}"].content
