"""The web console in Chromium, for tests and benchmarks."""

from __future__ import annotations

import base64
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from trainyard_cli.console.server import Console
from trainyard_sdk.connection import Connection

CHROMIUM = shutil.which("chromium")
AS_WEBP = """async (png) => {
  const image = await createImageBitmap(await (await fetch("data:image/png;base64," + png)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext("2d").drawImage(image, 0, 0);
  const blob = await canvas.convertToBlob({ type: "image/webp", quality: 0.85 });
  return [...new Uint8Array(await blob.arrayBuffer())];
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    assert CHROMIUM is not None, "no chromium: make setup-trainers"
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as played:
        found = played.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@contextmanager
def served(
    connection: Connection, transport: httpx.BaseTransport | None = None
) -> Iterator[Console]:
    server = Console(connection, transport=transport)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def known(server: Console, browser: Browser) -> BrowserContext:
    """A window of a person who opened the link."""
    context = browser.new_context(reduced_motion="reduce", timezone_id="UTC")
    ours = server.ours
    context.add_cookies([{"name": ours.cookie_name, "value": ours.cookie, "url": ours.origin}])
    return context


def picture(page: Page, place: Path) -> None:
    """What the page looks like, as a small WebP."""
    png = base64.b64encode(page.screenshot()).decode()
    browser = page.context.browser
    assert browser is not None
    blank = browser.new_page()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(bytes(blank.evaluate(AS_WEBP, png)))
    blank.close()
