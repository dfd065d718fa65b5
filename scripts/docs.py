"""Builds the site of the pages, and refuses a broken link or a page that loads from elsewhere.

The pages are copied first, since those of the repository's root, and files that a page links to,
are pages of the site, too. `make docs` runs it with the environment of `requirements/docs.txt`.
"""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "build/docs"
PAGES, SITE = BUILT / "pages", BUILT / "site"
#: Pages of the repository's root that people read.
ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
ITEM = re.compile(r"( *)([-*]|\d+\.)( +)\S")
FENCE = re.compile(r" *(```|~~~)")
LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".py": "python", ".json": "json", ".ipynb": "json"}


@dataclass(frozen=True)
class Script:
    """What the theme would load from another server, from npm into the site."""

    package: str
    sha512: str
    file: str
    name: str

    @property
    def where(self) -> str:
        return f"assets/javascripts/{self.name}"


DIAGRAMS = Script(
    "mermaid@11.17.2",
    "V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg==",
    "dist/mermaid.min.js",
    "mermaid.min.js",
)
#: The search of a site that is read from a disk.
SEARCH = Script(
    "iframe-worker@1.0.4",
    "roeaaI+Lg1LJNfgpCjoRe/+WzEjy9+Z08LoEvu85MCPbBjwm+qXz8Ag5U05lHa6V1CysZyGzE0SOkAtSUA5q7Q==",
    "shim/index.js",
    "iframe-worker.js",
)
SEARCH_TAG = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
#: What the theme's script would load from another server, and what it does instead. The second is
#: for browsers of before 2020.
REPLACED = {
    '"https://unpkg.com/mermaid@11/dist/mermaid.min.js"': (
        f'new URL("{DIAGRAMS.where}",__md_scope).href'
    ),
    '"https://unpkg.com/resize-observer-polyfill"': '"data:text/javascript,"',
}
#: Attributes whose address a browser loads by itself.
LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("object", "data"),
    ("video", "src"),
    ("source", "src"),
    ("link", "href"),
}
ELSEWHERE = re.compile(r"""url\(\s*["']?(?:https?:)?//|@import\s+["'](?:https?:)?//""")
HOSTS = re.compile(r"https?://(?:unpkg|cdn|cdnjs|fonts)\b")


class DocsError(Exception):
    """The message says what is wrong, and where."""


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with each line changed that is in no fence."""
    lines, fence = [], ""
    for line in text.splitlines():
        begun = FENCE.match(line)
        if begun and (not fence or line.strip() == fence):
            fence = "" if fence else begun[1]
            lines.append(line)
        else:
            lines.append(line if fence else change(line))
    return "\n".join(lines) + "\n"


def indented(text: str) -> str:
    """Lists as Python's Markdown wants them: 4 columns for each level, after an empty line.

    Forges take what stands in the repository: an item's text begins below its first word.
    """
    levels: list[int] = []
    #: The line before is words that belong to no list.
    words = False

    def change(line: str) -> str:
        nonlocal words
        if not line.strip():
            words = False
            return line
        indent = len(line) - len(line.lstrip())
        while levels and indent < levels[-1]:
            levels.pop()
        more = indent - (levels[-1] if levels else 0)
        moved = " " * (4 * len(levels) + more) + line.lstrip()
        item = ITEM.match(line)
        if item and more < 4:
            levels.append(indent + len(item[2]) + len(item[3]))
            if words:
                moved = f"\n{moved}"
        words = not levels
        return moved

    return outside_code(text, change)


@dataclass
class Staging:
    """Copies pages to where the site is built from, and all that they link to."""

    root: Path
    to: Path
    placed: set[str] = field(default_factory=set)

    def place(self, path: str) -> str:
        """Where the site has a file of the repository, which is copied there once."""
        inside = path.removeprefix("docs/")
        code = inside == path and not path.endswith(".md")
        where = inside if inside != path else f"repository/{path}{'.md' if code else ''}"
        if path not in self.placed:
            self.placed.add(path)
            self._copy(path, self.to / where, code)
        return where

    def _copy(self, path: str, to: Path, code: bool) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        source = self.root / path
        if code:
            words = LANGUAGES.get(source.suffix, "")
            shown = f"~~~~~~{words}\n{source.read_text().rstrip()}\n~~~~~~"
            to.write_text(f"# {path}\n\n{shown}\n")
        elif source.suffix == ".md":
            here = posixpath.dirname(to.relative_to(self.to).as_posix())
            text = outside_code(source.read_text(), lambda line: self._linked(path, here, line))
            to.write_text(indented(text))
        else:
            shutil.copyfile(source, to)

    def _linked(self, path: str, here: str, line: str) -> str:
        def moved(link: re.Match[str]) -> str:
            address = urlsplit(link[1])
            if address.scheme or address.netloc or not address.path:
                return link[1]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), address.path))
            if (self.root / target).is_dir():
                target = f"{target}/README.md"
            if target.startswith("../") or not (self.root / target).is_file():
                raise DocsError(f"{path}: it links to {link[1]}, and there is no file {target}")
            relative = posixpath.relpath(self.place(target), here or ".")
            return relative + (f"#{address.fragment}" if address.fragment else "")

        return LINK.sub(moved, line)


def stage(root: Path, to: Path) -> None:
    """Copy all pages, and the files that they link to."""
    shutil.rmtree(to, ignore_errors=True)
    staging = Staging(root, to)
    for path in sorted((root / "docs").rglob("*")):
        if path.is_file() and path.suffix != ".yml":
            staging.place(path.relative_to(root).as_posix())
    for name in ROOT_PAGES:
        staging.place(name)


@dataclass
class Seen(html.parser.HTMLParser):
    """What a built page links to, loads, and can be linked at."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(filter(None, (given.get("id"), given.get("name"))))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        for name, value in given.items():
            if (tag, name) in LOADED and given.get("rel") not in ("canonical", "next", "prev"):
                self.loads.append(value)


def read(page: Path) -> Seen:
    seen = Seen()
    seen.feed(page.read_text())
    return seen


def faults(site: Path) -> Iterator[str]:
    """What is wrong with the built site: broken links, and what pages load from elsewhere."""
    pages = {page: read(page) for page in sorted(site.rglob("*.html"))}
    for page, seen in pages.items():
        where = page.relative_to(site)
        yield from (f"{where}: loads {it}" for it in seen.loads if foreign(it))
        # The page for what is not there is shown at any address, so its links begin at the root.
        if page.name != "404.html":
            local = [it for it in [*seen.links, *seen.loads] if not urlsplit(it).scheme]
            yield from (f"{where}: {it} leads nowhere" for it in local if broken(page, it, pages))
    for path in sorted(site.rglob("*")):
        if path.suffix in (".css", ".svg", ".html") and ELSEWHERE.search(path.read_text()):
            yield f"{path.relative_to(site)}: loads from another server"
        if path.suffix == ".js" and path.name != DIAGRAMS.name:
            found = HOSTS.search(path.read_text())
            if found:
                yield f"{path.relative_to(site)}: may load from {found[0]}"


def foreign(address: str) -> bool:
    return urlsplit(address).scheme in ("http", "https") or address.startswith("//")


def broken(page: Path, link: str, pages: dict[Path, Seen]) -> bool:
    address = urlsplit(link)
    target = page
    if address.path:
        target = Path(os.path.normpath(page.parent / unquote(address.path)))
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return True
    anchors = pages[target].anchors if target in pages else {address.fragment}
    # "" and "top" are the page's beginning in every browser; code lines have ids of their own.
    return unquote(address.fragment) not in anchors | {"", "top"}


def theme_loads_here(site: Path) -> None:
    """Let the theme load from the site what it would load from another server."""
    [bundle] = site.glob("assets/javascripts/bundle.*.min.js")
    text = bundle.read_text()
    for old, new in REPLACED.items():
        if text.count(old) != 1:
            raise DocsError(f"the theme's script has {old} {text.count(old)} times, and not once")
        text = text.replace(old, new)
    bundle.write_text(text)
    for other in site.rglob("*.map"):
        other.unlink()
    there = add_scripts(site)
    for page in site.rglob("*.html"):
        source = posixpath.relpath(SEARCH.where, page.parent.relative_to(site).as_posix())
        tag = f'<script src="{source}"></script>' if there else ""
        page.write_text(page.read_text().replace(SEARCH_TAG, tag))


def add_scripts(site: Path) -> bool:
    """Put the scripts from npm into the site. Without npm the site does with less, and says so."""
    npm = shutil.which("npm")
    for script in (DIAGRAMS, SEARCH):
        kept = BUILT / f"{script.package}.js"
        if not kept.exists():
            if npm is None:
                words = "npm is missing (sudo apt-get install -y npm): without it diagrams are text"
                if os.environ.get("CI"):
                    raise DocsError(words)
                print(f"docs: {words}, and the search needs a web server")
                return False
            _fetch(npm, script, kept)
        shutil.copyfile(kept, site / script.where)
    return True


def _fetch(npm: str, script: Script, kept: Path) -> None:
    command = [npm, "pack", script.package, "--json", "--loglevel=error"]
    done = subprocess.run(
        command, cwd=BUILT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DocsError(f"'{' '.join(command)}' failed:\n{done.stderr[-2000:]}")
    package = BUILT / str(json.loads(done.stdout)[0]["filename"])
    found = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    if found != script.sha512:
        raise DocsError(f"{script.package}: SHA-512 {found}, and {script.sha512} is expected")
    with tarfile.open(package) as archive:
        inner = archive.extractfile(f"package/{script.file}")
        if inner is None:
            raise DocsError(f"{script.package} has no {script.file}")
        temporary = kept.with_suffix(".new")
        temporary.write_bytes(inner.read())
    temporary.replace(kept)
    package.unlink()


def build() -> None:
    stage(ROOT, PAGES)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    command += ["--config-file", str(ROOT / "docs/mkdocs.yml")]
    # The theme says at each start which program its makers write next.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, env=environment, check=False)
    if done.returncode:
        raise DocsError("mkdocs refuses the pages (above)")
    theme_loads_here(SITE)
    found = list(faults(SITE))
    if found:
        raise DocsError("\n  ".join([f"{len(found)} faults of the site:", *found]))


def main() -> int:
    started = time.monotonic()
    BUILT.mkdir(parents=True, exist_ok=True)
    try:
        build()
    except DocsError as problem:
        print(f"docs: {problem}", file=sys.stderr)
        return 1
    pages = sum(1 for _ in SITE.rglob("*.html"))
    seconds = time.monotonic() - started
    print(f"docs: {pages} pages in {seconds:.0f} s; open {SITE.relative_to(ROOT)}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
