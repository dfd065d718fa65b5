"""What is sent to people's addresses, on a real connection: TLS, and no answer that takes long."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from standardwebhooks.webhooks import Webhook as Verifier

from trainyard.aws.receivers import HttpsReceivers
from trainyard.domain import webhook_signing, webhooks
from trainyard.domain.addresses import Address
from trainyard.domain.webhook_records import Key, Keys, Webhook
from trainyard_contracts.user_events import UserEvent
from trainyard_contracts.webhooks import WebhookSpec

pytestmark = pytest.mark.real
NAME = "receiver.example.com"
HERE = IPv4Address("127.0.0.1")


class Receiver(HTTPServer):
    """A person's server: what it got, and what it answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.status, self.headers = 200, {}  # type: tuple[int, dict[str, str]]
        self.raw: Callable[[Any], None] | None = None

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, *_: Any) -> None:
        """A client that hangs up is no news here."""


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.path, dict(self.headers.items()), body))
        if self.server.raw is not None:
            self.server.raw(self.wfile)
            return
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing on the screen."""


@contextmanager
def serving(server: Receiver) -> Iterator[Receiver]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the receiver's name, and its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "receiver.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def receiver(certificate: Path) -> Iterator[Receiver]:
    server = Receiver()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server):
        yield server


def receivers(certificate: Path | None, *addresses: Address, **given: Any) -> HttpsReceivers:
    """Names mean these addresses, and this machine's may be reached."""
    trusted = ssl.create_default_context(cafile=certificate) if certificate else None
    given = {"allowed": lambda address: address == HERE, "seconds": 5.0, **given}
    return HttpsReceivers(resolve=lambda host, port: addresses or (HERE,), tls=trusted, **given)


def test_a_receiver_gets_it_over_tls_and_verifies_it(receiver: Receiver, certificate: Path) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    event = UserEvent(id="run-1/end", at=now, type="run.failed", message="no")
    spec = WebhookSpec(url=f"https://{NAME}:{receiver.port}/hook?for=me")
    hook = Webhook(id="wh-1", spec=spec, created_at=now, updated_at=now)
    secret = webhook_signing.secret_of(b"s" * 32)
    body = webhook_signing.body_of(event)
    delivery = webhooks.delivery_of(hook, event, now)
    headers = webhook_signing.headers_of(delivery, body, Keys(keys=[Key(secret=secret)]), now)
    answer = receivers(certificate).post(spec.url, headers, body)
    assert answer.outcome == "delivered"
    (path, got, sent) = receiver.got[0]
    assert path == "/hook?for=me"
    assert got["host"] == f"{NAME}:{receiver.port}"
    assert Verifier(secret).verify(sent, got)["data"]["id"] == "run-1/end"


@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"])
def test_a_name_that_means_an_address_within_is_not_connected_to(
    receiver: Receiver, certificate: Path, address: str
) -> None:
    within = IPv6Address(address) if ":" in address else IPv4Address(address)
    sender = receivers(certificate, HERE, within)  # one of several is enough
    answer = sender.post(f"https://{NAME}:{receiver.port}/", {}, b"{}")
    assert answer.status is None
    assert "nothing was sent" in answer.said
    assert receiver.got == []


def test_without_the_seam_this_machine_is_not_reached(receiver: Receiver) -> None:
    for host in ("localhost", "127.0.0.1", "[::1]"):
        answer = HttpsReceivers().post(f"https://{host}:{receiver.port}/", {}, b"{}")
        assert "nothing was sent" in answer.said
    rebound = HttpsReceivers(resolve=lambda host, port: [HERE])
    answer = rebound.post(f"https://{NAME}:{receiver.port}/", {}, b"{}")
    assert "loopback" in answer.said
    assert receiver.got == []


def test_the_name_is_asked_for_once_so_it_cannot_change_its_mind(
    receiver: Receiver, certificate: Path
) -> None:
    asked = []

    def resolve(host: str, port: int) -> list[Address]:
        asked.append(host)
        return [HERE] if len(asked) == 1 else [IPv4Address("10.0.0.1")]

    trusted = ssl.create_default_context(cafile=certificate)
    sender = HttpsReceivers(resolve=resolve, allowed=lambda address: address == HERE, tls=trusted)
    assert sender.post(f"https://{NAME}:{receiver.port}/", {}, b"{}").status == 200
    assert asked == [NAME]


def test_a_certificate_that_nobody_vouches_for_is_refused(receiver: Receiver) -> None:
    answer = receivers(None).post(f"https://{NAME}:{receiver.port}/", {}, b"{}")
    assert "certificate is not valid" in answer.said
    assert receiver.got == []


def test_a_redirect_is_not_followed(receiver: Receiver, certificate: Path) -> None:
    receiver.status = 302
    receiver.headers = {"location": f"https://{NAME}:{receiver.port}/other"}
    answer = receivers(certificate).post(f"https://{NAME}:{receiver.port}/", {}, b"{}")
    assert answer.why == "the receiver answered 302; redirects are not followed"
    assert [path for path, _, _ in receiver.got] == ["/"]


def test_when_to_come_again_is_read(receiver: Receiver, certificate: Path) -> None:
    receiver.status, receiver.headers = 503, {"Retry-After": "120"}
    answer = receivers(certificate).post(f"https://{NAME}:{receiver.port}/", {}, b"{}")
    assert (answer.outcome, answer.retry_after) == ("slow", "120")


def test_an_address_that_takes_nothing_leaves_time_for_the_next(
    receiver: Receiver, certificate: Path
) -> None:
    """A name may have several addresses, and one of them may be of a machine that is off."""
    silent = IPv4Address("127.0.0.2")
    with full(str(silent), receiver.port):
        sender = receivers(certificate, silent, HERE, allowed=lambda _: True, seconds=4.0)
        answer = sender.post(f"https://{NAME}:{receiver.port}/", {}, b"{}")
    assert answer.status == 200


@contextmanager
def full(host: str, port: int) -> Iterator[None]:
    """A listener that has no room for another connection, so that one who tries hears nothing."""
    with socket.socket() as listener, ExitStack() as waiting:
        listener.bind((host, port))
        listener.listen(0)
        for _ in range(8):
            each = waiting.enter_context(socket.socket())
            each.setblocking(False)
            each.connect_ex((host, port))
        yield


def test_an_answer_that_drips_ends_with_the_time_that_it_has(
    receiver: Receiver, certificate: Path
) -> None:
    def drip(out: Any) -> None:
        over = threading.Event()
        try:
            while not over.wait(0.02):
                out.write(b"H")
        except OSError:
            pass

    receiver.raw = drip
    sender = receivers(certificate, seconds=0.5)
    answer = sender.post(f"https://{NAME}:{receiver.port}/", {}, b"{}")
    assert answer.said == "the receiver did not answer within 0.5 s"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"", "closed the connection without an answer"),
        (b"HTTP/1.1 2000 No\r\n\r\n", "no answer of HTTP"),
        (b"SSH-2.0-server\r\n\r\n", "no answer of HTTP"),
        (b"HTTP/1.1 999 No\r\n\r\n", "no answer of HTTP"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"a" * 40_000, "more than 16384 bytes"),
        (b"HTTP/1.1 103 Hints\r\nlink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n", "delivered"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n" + b"a" * 9999, "delivered"),
    ],
)
def test_an_answer_is_read_to_a_small_limit(
    receiver: Receiver, certificate: Path, written: bytes, said: str
) -> None:
    receiver.raw = lambda out: out.write(written)
    answer = receivers(certificate).post(f"https://{NAME}:{receiver.port}/", {}, b"{}")
    assert said in (answer.said or answer.outcome)


def test_a_name_that_nobody_knows_or_that_hangs_is_a_try_that_failed() -> None:
    def unknown(host: str, port: int) -> list[Address]:
        raise OSError("no such name")

    url = "https://example.com/"
    assert "not known" in HttpsReceivers(resolve=unknown).post(url, {}, b"").said
    assert "no address" in HttpsReceivers(resolve=lambda host, port: []).post(url, {}, b"").said
    ended = threading.Event()

    def hang(host: str, port: int) -> list[Address]:
        ended.wait(60)
        return []

    hanging = HttpsReceivers(resolve=hang, seconds=0.2)
    assert "did not answer" in hanging.post(url, {}, b"").said
    ended.set()


def test_on_the_local_cloud_this_machine_is_reached_without_tls() -> None:
    with serving(Receiver()) as plain:
        here = HttpsReceivers(loopback=True)
        assert here.post(f"http://127.0.0.1:{plain.port}/x", {}, b"{}").status == 200
        assert here.post(f"http://localhost:{plain.port}/x", {}, b"{}").status == 200
        assert HttpsReceivers().post(f"http://127.0.0.1:{plain.port}/x", {}, b"{}").status is None
    named = HttpsReceivers(loopback=True, resolve=lambda host, port: [HERE])
    assert "loopback" in named.post(f"https://{NAME}:{plain.port}/", {}, b"{}").said
