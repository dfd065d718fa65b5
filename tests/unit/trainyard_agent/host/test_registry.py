"""What a registry's answers mean: which image a reference names, or why it cannot be used."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from trainyard_agent.host.http_errors import Unreachable
from trainyard_agent.host.registry import ImageRefused, Login, Registry, ecr_region
from trainyard_contracts.images import Reference

pytestmark = pytest.mark.real
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def document(**content: Any) -> bytes:
    return json.dumps(content).encode()


def digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


CONFIG = document(architecture="amd64", os="linux")
SINGLE = document(schemaVersion=2, mediaType=MANIFEST, config={"digest": digest(CONFIG)})
AMD, ARM = "sha256:" + "a" * 64, "sha256:" + "b" * 64
INDEX = document(
    manifests=[
        {"digest": AMD, "platform": {"architecture": "amd64", "os": "linux"}},
        {"digest": ARM, "platform": {"architecture": "arm64", "os": "linux", "variant": "v8"}},
        {"digest": "sha256:0", "platform": {"architecture": "unknown", "os": "unknown"}},
        {"digest": "sha256:1", "platform": {"architecture": "amd64", "os": "windows"}},
    ]
)


class Served:
    """A registry: its documents by path, and what it asks of whom."""

    def __init__(self, documents: dict[str, bytes], demands: str = "") -> None:
        self.documents, self.demands = documents, demands
        self.asked: list[tuple[str, str]] = []
        self.status: int | None = None
        self.host = ""

    def answer(self, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        self.asked.append((path, authorization))
        if path.startswith("/token"):
            return 200, {}, document(token="ticket")
        if path.startswith("/storage"):
            return (400 if authorization else 200), {}, CONFIG
        if self.status is not None:
            return self.status, {}, b"{}"
        if self.demands and not authorization.startswith(("Bearer ticket", "Basic ")):
            return 401, {"WWW-Authenticate": self.demands.format(host=self.host)}, b"{}"
        body = self.documents.get(path.removeprefix("/v2/team/train/"))
        if body is not None and "/blobs/" in path:
            return 307, {"Location": f"http://{self.host}/storage"}, b""
        return (200, {}, body) if body is not None else (404, {}, b"{}")


@contextmanager
def serving(served: Served) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = served.answer(
                self.path, self.headers.get("Authorization") or ""
            )
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.host = f"127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield served.host
    finally:
        server.shutdown()
        server.server_close()


def found(served: Served, wanted: str = "amd64", who: Login | None = None, **changes: str) -> str:
    parts = {"repository": "team/train", "tag": "1", "digest": ""} | changes
    with serving(served) as host:
        return Registry(Reference(host, **parts), who, scheme="http").digest(wanted)


def test_the_digest_is_that_of_the_image_for_the_nodes_processors() -> None:
    index = {"manifests/1": INDEX}
    assert found(Served(index)) == AMD
    assert found(Served(index), "arm64") == ARM
    assert found(Served({"manifests/latest": INDEX}), tag="") == AMD


def test_an_image_for_one_kind_of_processor_is_asked_which() -> None:
    served = Served({"manifests/1": SINGLE, f"blobs/{digest(CONFIG)}": CONFIG})
    assert found(served) == digest(SINGLE)
    with pytest.raises(ImageRefused, match="it is for amd64, and the job's nodes are arm64"):
        found(served, "arm64")


def test_an_index_without_the_nodes_processor_is_refused_with_what_it_has() -> None:
    with pytest.raises(ImageRefused, match=r"it is for amd64, arm64, and .* are riscv64"):
        found(Served({"manifests/1": INDEX}), "riscv64")


def test_an_image_that_is_not_there_is_refused_by_its_name() -> None:
    with pytest.raises(ImageRefused, match=r"/team/train has no image '1'"):
        found(Served({}))


def test_a_public_registry_gives_a_token_to_anybody() -> None:
    demands = 'Bearer realm="http://{host}/token",service="r",scope="repository:team/train:pull"'
    served = Served({"manifests/1": INDEX}, demands)
    assert found(served) == AMD
    assert "/token?service=r&scope=repository%3Ateam%2Ftrain%3Apull" in served.asked[1][0]
    assert served.asked[1][1] == "", "nobody's password goes to where a registry points"


def test_a_login_is_sent_to_its_registry_and_not_to_the_storage_that_has_the_blobs() -> None:
    served = Served({"manifests/1": SINGLE, f"blobs/{digest(CONFIG)}": CONFIG}, 'Basic realm="x"')
    assert found(served, who=Login("AWS", "secret")) == digest(SINGLE)
    basic = "Basic " + base64.b64encode(b"AWS:secret").decode()
    assert [who for path, who in served.asked if path.startswith("/v2/")] == [basic] * 2
    assert [who for path, who in served.asked if path == "/storage"] == [""]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_says_that_the_image_may_not_be_pulled(status: int) -> None:
    served = Served({})
    served.status = status
    with pytest.raises(ImageRefused, match="it is not there, or not public"):
        found(served)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_registry_in_trouble_is_asked_again_later(status: int) -> None:
    served = Served({})
    served.status = status
    with pytest.raises(Unreachable, match=str(status)):
        found(served)


def test_no_answer_is_no_refusal() -> None:
    with serving(Served({})) as host:
        pass
    with pytest.raises(Unreachable, match="does not answer"):
        Registry(Reference(host, "a", "1", ""), scheme="http").digest("amd64")


@pytest.mark.parametrize("body", [b"no json", b"[1]"])
def test_an_answer_that_cannot_be_read_is_no_refusal_either(body: bytes) -> None:
    with pytest.raises(Unreachable, match="cannot be read"):
        found(Served({"manifests/1": body}))


def test_bytes_that_are_not_those_of_the_digest_are_not_believed() -> None:
    other = "sha256:" + "0" * 64
    with pytest.raises(Unreachable, match="another image"):
        found(Served({f"manifests/{other}": INDEX}), digest=other)


def test_a_password_is_in_no_representation() -> None:
    assert "secret" not in repr(Login("AWS", "secret"))


def test_the_region_of_a_registry_of_ecr_is_in_its_name() -> None:
    assert ecr_region("763104351884.dkr.ecr.eu-west-1.amazonaws.com") == "eu-west-1"
    assert ecr_region("763104351884.dkr.ecr-fips.us-gov-west-1.amazonaws.com") == "us-gov-west-1"
    assert ecr_region("763104351884.dkr.ecr.cn-north-1.amazonaws.com.cn") == "cn-north-1"
    assert ecr_region("public.ecr.aws") is None
    assert ecr_region("evil.org/763104351884.dkr.ecr.eu-west-1.amazonaws.com") is None
