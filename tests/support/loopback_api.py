"""The API in the test's own process, on a port of loopback, for what is a process of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
from tests.support.in_process_api import LOCAL


@contextmanager
def served(api: httpx.BaseTransport, state_dir: Path) -> Iterator[None]:
    """While it is served, `state_dir` is one of a local cloud that leads there."""
    one_at_a_time = threading.Lock()  # stores in memory are for one thread

    class Handler(BaseHTTPRequestHandler):
        wbufsize = -1  # head and body in one packet

        def log_message(self, *_: object) -> None: ...

        def answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
            url = f"http://{self.headers['host']}{self.path}"
            request = httpx.Request(self.command, url, headers=dict(self.headers), content=content)
            with one_at_a_time:
                found = api.handle_request(request)
            self.send_response(found.status_code)
            self.send_header("content-type", found.headers.get("content-type", ""))
            self.send_header("content-length", str(len(found.content)))
            self.end_headers()
            self.wfile.write(found.content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    state_dir.mkdir(parents=True, exist_ok=True)
    (state_dir / "local.json").write_text(json.dumps({**LOCAL, "endpoint": url, "apiUrl": url}))
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
