"""Git repositories for tests, and a server that has them, with a token."""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

WHO = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}  # fmt: skip


def git(where: Path, *words: str, text: bytes = b"") -> str:
    done = subprocess.run(
        ["git", "-C", str(where), *words],
        input=text,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(where), **WHO},
        check=True,
    )
    return done.stdout.decode().strip()


class Repository:
    """A bare repository whose commits are made without a work tree."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        git(path, "init", "--quiet", "--bare", "--initial-branch=main")

    def commit(self, files: dict[str, bytes], *, branch: str = "main", **modes: str) -> str:
        """The whole of a new commit on a branch; `modes` are by names with _ for what is no letter.

        A file's own mode is 100644.
        """
        lines = []
        for name, body in files.items():
            plain = "".join(sign if sign.isalnum() else "_" for sign in name)
            mode = modes.get(plain, "100644")
            blob = (
                body.decode()
                if mode == "160000"
                else git(self.path, "hash-object", "-w", "--stdin", text=body)
            )
            lines.append(f"{mode} {blob}\t{name}\n")
        index = {"GIT_INDEX_FILE": str(self.path / "index")}
        (self.path / "index").unlink(missing_ok=True)
        environment = {"PATH": os.environ["PATH"], **WHO, **index}
        for words, given in (
            (["update-index", "--index-info"], "".join(lines).encode()),
            (["write-tree"], b""),
        ):
            done = subprocess.run(
                ["git", "-C", str(self.path), *words],
                input=given,
                capture_output=True,
                env=environment,
                check=True,
            )
        commit = git(self.path, "commit-tree", done.stdout.decode().strip(), "-m", "one")
        git(self.path, "update-ref", f"refs/heads/{branch}", commit)
        return commit


class _Handler(BaseHTTPRequestHandler):
    server_of: GitServer
    protocol_version = "HTTP/1.0"

    def log_message(self, *_: object) -> None: ...

    def answer(self) -> None:
        server, url = self.server_of, urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        server.asked.append(self.headers.get("authorization", ""))
        if server.redirect:
            self.send_response(302)
            self.send_header("location", server.redirect + self.path)
            self.end_headers()
            return
        if server.token and not server.knows(self.headers.get("authorization", "")):
            self.send_response(401)
            self.send_header("www-authenticate", 'Basic realm="git"')
            self.end_headers()
            return
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            capture_output=True,
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(server.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
                "REQUEST_METHOD": self.command,
                "PATH_INFO": url.path,
                "QUERY_STRING": url.query,
                "CONTENT_TYPE": self.headers.get("content-type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
                **WHO,
            },
            check=False,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = answer


class _Server(ThreadingHTTPServer):
    def shutdown_request(self, request: Any) -> None:
        """An answer without a length ends with the connection, which TLS has to say."""
        if isinstance(request, ssl.SSLSocket):
            with contextlib.suppress(OSError):
                request.unwrap()
        super().shutdown_request(request)


class GitServer:
    """`git http-backend` on loopback; `asked` are the Authorization headers that came.

    `certificate` is a file with a certificate and its key, for https.
    """

    def __init__(
        self, root: Path, token: str = "", redirect: str = "", certificate: Path | None = None
    ) -> None:
        self.root, self.token, self.redirect = root, token, redirect
        self.asked: list[str] = []

        class Handler(_Handler):
            server_of = self

        self.server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        if certificate is not None:
            self.url = self.url.replace("http:", "https:")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def knows(self, authorization: str) -> bool:
        given = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        return given.partition(":")[2] == self.token

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
