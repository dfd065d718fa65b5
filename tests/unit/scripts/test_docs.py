"""`make docs` finds what is wrong with pages and with the site that was built of them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.repository import ROOT


@pytest.fixture
def docs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("trainyard_docs", ROOT / "scripts/docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_md", ".md").replace("_yaml", ".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A repository with two pages and what they link to."""
    return write(
        tmp_path / "repository",
        README_md="[page](docs/deep/page.md#part), [folder](docs/deep/)\n",
        CONTRIBUTING_md="x\n",
        CHANGELOG_md="x\n",
        docs__deep__page_md=(
            "[front](../../README.md) [spec](../../examples/a.yaml)\n\n"
            "```sh\n[no link](nowhere.md)\n```\n"
        ),
        docs__deep__README_md="[away](https://example.org/nowhere.md) [here](#part)\n",
        examples__a_yaml="a: 1\n",
    )


def test_pages_of_the_root_and_files_that_are_linked_are_pages_of_the_site(
    docs: ModuleType, pages: Path, tmp_path: Path
) -> None:
    docs.stage(pages, tmp_path / "to")
    front = (tmp_path / "to/repository/README.md").read_text()
    assert front == "[page](../deep/page.md#part), [folder](../deep/README.md)\n"
    page = (tmp_path / "to/deep/page.md").read_text()
    assert "[front](../repository/README.md) [spec](../repository/examples/a.yaml.md)" in page
    assert "[no link](nowhere.md)" in page
    code = (tmp_path / "to/repository/examples/a.yaml.md").read_text()
    assert code == "# examples/a.yaml\n\n~~~~~~yaml\na: 1\n~~~~~~\n"
    away = (tmp_path / "to/deep/README.md").read_text()
    assert away == "[away](https://example.org/nowhere.md) [here](#part)\n"


@pytest.mark.parametrize("link", ["gone.md", "../../../outside.md", "../../nowhere/"])
def test_a_link_to_no_file_names_its_page(
    docs: ModuleType, pages: Path, tmp_path: Path, link: str
) -> None:
    write(tmp_path, outside_md="x\n")
    write(pages, docs__deep__page_md=f"[x]({link})\n")
    with pytest.raises(docs.DocsError, match=r"docs/deep/page.md: it links to"):
        docs.stage(pages, tmp_path / "to")


@pytest.mark.parametrize(
    ("written", "staged"),
    [
        ("- a\n  more\n  - b\n    more\n", "- a\n    more\n    - b\n        more\n"),
        ("1. a\n\n   more\n\n       code\n", "1. a\n\n    more\n\n        code\n"),
        ("words:\n- a\n- b\n", "words:\n\n- a\n- b\n"),
        ("words\n\n    code\n    - code\n", "words\n\n    code\n    - code\n"),
        ("- a\n- b\n\nwords\n\n    code\n", "- a\n- b\n\nwords\n\n    code\n"),
        ("```\n- a\n  - b\n```\n", "```\n- a\n  - b\n```\n"),
    ],
)
def test_lists_get_the_indentation_that_the_builder_wants(
    docs: ModuleType, written: str, staged: str
) -> None:
    assert docs.indented(written) == staged


def site(tmp_path: Path, page: str, **more: str) -> Path:
    (tmp_path / "index.html").write_text(page)
    for name, text in more.items():
        (tmp_path / name.replace("_", ".")).write_text(text)
    return tmp_path


GOOD = (
    '<h1 id="a">A</h1><a href="#a">x</a><a href="https://example.org">x</a>'
    '<a href="other.html#b">x</a><link rel="canonical" href="https://example.org">'
)


def test_a_whole_site_has_no_faults(docs: ModuleType, tmp_path: Path) -> None:
    assert list(docs.faults(site(tmp_path, GOOD, other_html='<p id="b">'))) == []


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<a href="gone.html">', "index.html: gone.html leads nowhere"),
        ('<a href="#gone">', "index.html: #gone leads nowhere"),
        ('<a href="other.html#gone">', "index.html: other.html#gone leads nowhere"),
        ('<img src="gone.svg">', "index.html: gone.svg leads nowhere"),
        ('<img src="https://example.org/a.png">', "index.html: loads https://example.org/a.png"),
        ('<script src="//example.org/a.js">', "index.html: loads //example.org/a.js"),
        (
            '<link rel="stylesheet" href="https://example.org/a.css">',
            "index.html: loads https://example.org/a.css",
        ),
        (
            "<style>a { src: url('https://example.org/a.woff2') }</style>",
            "index.html: loads from another server",
        ),
    ],
)
def test_a_fault_names_the_page(docs: ModuleType, tmp_path: Path, page: str, fault: str) -> None:
    assert fault in list(docs.faults(site(tmp_path, page, other_html='<p id="b">')))


def test_styles_pictures_and_scripts_load_nothing_from_elsewhere(
    docs: ModuleType, tmp_path: Path
) -> None:
    made = site(
        tmp_path,
        GOOD.replace("other.html#b", ""),
        a_css='@import "https://example.org/b.css";',
        a_svg="<style>@font-face { src: url(https://example.org/f) }</style>",
        a_js='load("https://unpkg.com/x")',
    )
    assert list(docs.faults(made)) == [
        "a.css: loads from another server",
        "a.js: may load from https://unpkg",
        "a.svg: loads from another server",
    ]


def test_every_page_is_named_in_the_sites_sections() -> None:
    """A new page that nobody can find from the first one fails here, before the site is built."""
    nav = (ROOT / "docs/mkdocs.yml").read_text().partition("\nnav:\n")[2]
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    unnamed = {
        page for page in pages if not page.startswith("adr/0") and f" {page}\n" not in f"{nav}\n"
    }
    assert unnamed == set()
