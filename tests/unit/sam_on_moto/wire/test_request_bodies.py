"""What a request may send before anybody knows who it is: bounded memory, and a clear answer."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from sam_on_moto.wire.ports import listen
from sam_on_moto.wire.request_bodies import MB, BodyRefused, read
from sam_on_moto.wire.server import LoopbackServer

API, S3 = (
    "/_api/abc/v1/runs",
    {"authorization": "AWS4-HMAC-SHA256 Credential=A/20260101/us-east-1/s3/aws4_request, ..."},
)
CHUNKED = {"transfer-encoding": "chunked"}


class Wire(io.BytesIO):
    """A connection that remembers how much was asked for at once."""

    most = 0

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert size >= 0, "read to the end of what never ends"
        self.most = max(self.most, size)
        return super().read(size)


def refused(path: str, headers: dict[str, str], sent: bytes) -> tuple[int, Wire]:
    wire = Wire(sent)
    with pytest.raises(BodyRefused) as error:
        read(wire, path, headers)
    return error.value.status, wire


def test_a_chunk_that_announces_all_memory_and_is_cut_off_is_refused_in_little_memory() -> None:
    status, wire = refused(API, CHUNKED, b"FFFFFFFFFFFFFFFF\r\nabc")
    assert (status, wire.most <= MB) == (413, True)


def test_a_body_cut_off_inside_a_chunk_is_refused() -> None:
    assert refused(API, CHUNKED, b"9\r\nabc")[0] == 400


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\r\n",
        b"xyz\r\n",
        b"-3\r\nabc\r\n",
        b"+3\r\nabc\r\n",
        b"1_0\r\n",
        b"3\r\nabcdef\r\n0\r\n\r\n",
    ],
)
def test_a_chunk_without_a_size_or_another_length_is_refused(sent: bytes) -> None:
    assert refused(API, CHUNKED, sent)[0] == 400


def test_many_small_chunks_end_at_ten_megabytes_too() -> None:
    chunk = b"100000\r\n" + b"x" * MB + b"\r\n"
    assert refused(API, CHUNKED, chunk * 11 + b"0\r\n\r\n")[0] == 413
    body, length = read(Wire(chunk * 10 + b"0\r\n\r\n"), API, CHUNKED)
    assert (length, len(body.read())) == (10 * MB, 10 * MB)


def test_chunks_with_extensions_and_trailers_are_put_together() -> None:
    wire = Wire(b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX-Check: 1\r\n\r\nGET /next")
    body, length = read(wire, API, CHUNKED)
    assert (body.read(), length, wire.read(20)) == (b"abcde", 5, b"GET /next")


def test_trailers_that_never_end_are_refused() -> None:
    assert refused(API, CHUNKED, b"0\r\n" + b"X-A: b\r\n" * 1000)[0] == 400


@pytest.mark.parametrize("length", ["-1", "+5", "1_0", "5, 5", "", "٣", "9" * 30])
def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    assert refused(API, {"content-length": length}, b"x" * 10)[0] == 400


def test_a_body_with_two_lengths_is_refused() -> None:
    assert refused(API, {**CHUNKED, "content-length": "3"}, b"3\r\nabc\r\n0\r\n\r\n")[0] == 400
    assert refused(API, {"transfer-encoding": "gzip, chunked"}, b"")[0] == 400


def test_a_body_shorter_than_its_length_is_refused() -> None:
    assert refused(API, {"content-length": "5"}, b"abc")[0] == 400


def test_each_service_has_its_own_longest_body() -> None:
    long = {"content-length": str(10 * MB + 1)}
    assert refused(API, long, b"")[0] == 413
    assert refused("/", {"content-length": str(16 * MB + 1)}, b"")[0] == 413
    assert (
        read(Wire(b"x" * (17 * MB)), "/bucket/key", {**S3, "content-length": str(17 * MB)})[1]
        == 17 * MB
    )
    assert refused("/bucket/key", {**S3, "content-length": str(5 * 1024 * MB + 1)}, b"")[0] == 413


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [environ["wsgi.input"].read()]

    serving = LoopbackServer(listen(0), app)
    serving.start()
    yield serving
    serving.close()


def exchange(server: LoopbackServer, sent: bytes) -> bytes:
    """Everything that the server answers until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.real
def test_a_refused_body_is_answered_and_its_rest_is_never_taken_for_a_request(
    server: LoopbackServer,
) -> None:
    head = b"POST /_api/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = exchange(server, head + b"zz\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in answer


@pytest.mark.real
def test_a_whole_body_leaves_the_connection_to_the_next_request(server: LoopbackServer) -> None:
    head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = exchange(server, (head + b"3\r\nabc\r\n0\r\n\r\n") * 2)
    assert (answer.count(b"HTTP/1.1 200 "), answer.count(b"abc")) == (2, 2)
