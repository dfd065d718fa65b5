"""Nodes that are machines, without a machine: the host's needs, names, networks, the mirror."""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import re
import shutil
import socket
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from trainyard_local import control, server
from trainyard_local.machines import cloud as machine_cloud
from trainyard_local.machines import host as machine_host
from trainyard_local.machines import image as machine_image
from trainyard_local.machines import index as machine_index
from trainyard_local.machines import metadata as machine_metadata
from trainyard_local.machines import names as machine_names
from trainyard_local.machines import network as machine_network
from trainyard_local.machines.names import Names


def query(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    monkeypatch.setattr(socket.socket, "bind", lambda self, address: None)
    monkeypatch.setattr(machine_names.threading.Thread, "start", lambda self: None)
    return Names("10.9.8.1", ipaddress.IPv4Network("10.9.8.0/24"))


def answered(names: Names, question: bytes, asker: str = "10.9.8.10") -> tuple[int, str | None]:
    """The answer's code, and its address."""
    answer = names._answer(question, asker)
    _, flags, _, records, _, _ = struct.unpack_from("!6H", answer)
    return flags & 15, socket.inet_ntoa(answer[-4:]) if records else None


def test_without_its_packages_a_machine_says_which_and_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        machine_host.shutil,
        "which",
        lambda program, path: None if program in ("debootstrap", "nft") else f"/usr/bin/{program}",
    )
    with pytest.raises(machine_host.Impossible) as refused:
        machine_host.require()
    assert "debootstrap, nftables" in refused.value.message
    assert "apt-get install -y --no-install-recommends debootstrap nftables" in refused.value.remedy


def test_machines_are_refused_to_who_is_not_root_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_host.shutil, "which", lambda program, path: f"/usr/bin/{program}")
    monkeypatch.setattr(machine_host.os, "geteuid", lambda: 1000)
    with pytest.raises(control.Unusable) as refused:
        control.up(tmp_path / "state", nodes="machines")
    assert "root" in refused.value.message
    assert "--nodes processes" in refused.value.remedy
    assert not (tmp_path / "state").exists()


def test_nodes_and_aws_names_resolve_and_nothing_else_does(names: Names) -> None:
    assert answered(names, query("ip-10-9-8-11")) == (0, "10.9.8.11")
    assert answered(names, query("ip-10-9-8-11.ec2.internal")) == (0, "10.9.8.11")
    assert answered(names, query("fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com")) == (
        0,
        "10.9.8.1",
    )
    assert answered(names, query("ip-10-9-9-11"))[0] == machine_names.NXDOMAIN
    assert answered(names, query("ip-999-9-8-1"))[0] == machine_names.NXDOMAIN
    assert answered(names, query("index.example"))[0] == machine_names.NXDOMAIN
    assert answered(names, query("ip-10-9-8-11", kind=28)) == (0, None), "no IPv6 address"


def test_an_answer_that_cannot_be_sent_does_not_end_the_resolver(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Line:
        """One asker is unreachable, then another one asks, then the resolver is closed."""

        def __init__(self) -> None:
            self.questions = iter(
                [
                    (query("ip-10-9-8-11"), ("10.9.8.10", 1)),
                    (query("ip-10-9-8-11"), ("10.9.8.12", 1)),
                ]
            )
            self.answered: list[str] = []

        def recvfrom(self, _size: int) -> tuple[bytes, tuple[str, int]]:
            if question := next(self.questions, None):
                return question
            raise OSError("closed")

        def sendto(self, _answer: bytes, peer: tuple[str, int]) -> None:
            if peer[0] == "10.9.8.10":
                raise OSError("no route to host")
            self.answered.append(peer[0])

    line = Line()
    monkeypatch.setattr(names, "_socket", line)
    names._serve()
    assert line.answered == ["10.9.8.12"]


def test_nothing_resolves_on_a_node_that_has_just_booted(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(machine_names.time, "monotonic", lambda: now)
    names.booted("10.9.8.10")
    assert answered(names, query("ip-10-9-8-11"))[0] == machine_names.SERVFAIL
    assert answered(names, query("ip-10-9-8-11"), asker="10.9.8.12") == (0, "10.9.8.11"), (
        "another node's resolver is up"
    )
    now += machine_names.LATE_SECONDS + 0.1
    assert answered(names, query("ip-10-9-8-11")) == (0, "10.9.8.11")


def test_a_network_is_chosen_that_no_route_of_the_machine_touches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    routes = (
        '[{"dst": "default"}, {"dst": "10.1.2.0/24"}, {"dst": "10.3.0.0/16"}, {"dst": "local"}]'
    )
    monkeypatch.setattr(
        machine_network, "ip", lambda *arguments: routes.replace(', {"dst": "local"}', "")
    )
    assert machine_network._free_subnet("0102" + "0304" + "0506" + "0000") == ipaddress.IPv4Network(
        "10.5.6.0/24"
    )


def test_the_names_of_a_clouds_interfaces_fit_and_differ_between_clouds() -> None:
    first, second = machine_network.bridge_name(Path("/a")), machine_network.bridge_name(Path("/b"))
    assert first != second
    assert max(len(first), len(second)) <= 15


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "debian.sources",
            "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\n",
        ),
        (
            "old.list",
            "# a comment\ndeb [signed-by=/x] http://mirror.example/debian bookworm main\n",
        ),
    ],
)
def test_the_image_is_built_from_the_machines_own_package_mirror(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "security.sources").write_text(
        "Types: deb\nURIs: http://mirror.example/security\nSuites: bookworm-security\n"
    )
    monkeypatch.setattr(machine_image, "SOURCES", [*sorted(tmp_path.iterdir())])
    assert machine_image.mirror() == "http://mirror.example/debian"


def test_what_the_build_mounts_is_gone_with_it_also_when_it_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """debootstrap mounts /proc and /sys below its root. If it is killed, they stay mounted."""
    started: list[list[str]] = []
    monkeypatch.setattr(machine_image, "mirror", lambda: "http://mirror.example/debian")
    done = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(
        machine_image.subprocess, "run", lambda argv, **_options: started.append(argv) or done
    )
    machine_image._bootstrap(tmp_path)
    assert started[0][:5] == ["unshare", "--mount", "--propagation", "private", "--"]
    assert started[0][5] == "debootstrap"


def test_without_a_source_for_the_suite_it_is_said_what_to_add(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine_image, "SOURCES", [])
    with pytest.raises(
        machine_image.Impossible, match="no package source of this machine has Debian's bookworm"
    ):
        machine_image.mirror()


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


@pytest.mark.real
def test_the_metadata_service_answers_as_version_2_of_aws_does() -> None:
    keys = {
        "AWS_ACCESS_KEY_ID": "ASIA",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
    }
    metadata = machine_metadata.Metadata("127.0.0.1", {"127.0.0.1": keys}.get)

    def asked(method: str, path: str, **headers: str) -> tuple[int, str]:
        given = {
            f"X-aws-ec2-metadata-{name.replace('_', '-')}": text for name, text in headers.items()
        }
        answer = httpx.request(method, metadata.endpoint + path, headers=given, trust_env=False)
        return answer.status_code, answer.text

    try:
        assert asked("GET", machine_metadata.CREDENTIALS)[0] == 401, "version 1"
        assert asked("PUT", "/latest/api/token")[0] == 400, "no time is named"
        status, token = asked("PUT", "/latest/api/token", token_ttl_seconds="21600")
        assert status == 200
        assert asked("GET", machine_metadata.CREDENTIALS, token=token) == (200, "node")
        status, found = asked("GET", machine_metadata.CREDENTIALS + "node", token=token)
        assert (status, json.loads(found)["AccessKeyId"]) == (200, "ASIA")
        assert asked("GET", "/latest/user-data", token=token)[0] == 404
    finally:
        metadata.close()


def test_an_image_is_not_begun_on_a_disk_that_cannot_hold_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_host, "missing", lambda: None)
    monkeypatch.setenv("TRAINYARD_LOCAL_IMAGES", str(tmp_path / "images"))
    monkeypatch.setattr(machine_image, "ready", lambda: pytest.fail("it was begun"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=60 * 2**20))
    with pytest.raises(machine_host.Impossible) as refused:
        machine_cloud.image(lambda words: None)
    assert "60 MiB are free" in refused.value.message
    assert "TRAINYARD_LOCAL_IMAGES" in refused.value.remedy


@pytest.mark.parametrize("error", [
    OSError(errno.ENOSPC, "No space left on device", "/state/functions"),
    shutil.Error([("/from", "/to", "[Errno 28] No space left on device: '/to'")] * 100),
])  # fmt: skip
def test_a_full_disk_is_told_in_one_line(error: OSError) -> None:
    assert server._kind(error) == "disk"
    assert server._explain(error) == "no space is left on the state directory's disk"
    assert server._kind(OSError(errno.EACCES, "Permission denied")) == "defect"


# What the agent imports

BUILDS = """
import pathlib, sys
target = pathlib.Path(sys.argv[1])
target.mkdir(parents=True, exist_ok=True)
(target / "pip.whl").write_text("wheel")
with open(pathlib.Path(__file__).with_name("built"), "a") as built:
    built.write("x")
"""
FAILS = (
    "import sys; "
    "print('ERROR: No matching distribution found for six==1.17.0', file=sys.stderr); "
    "sys.exit('Traceback')"
)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A template beside the node layer's sources; the host can boot nodes, no server is started."""
    monkeypatch.setattr(machine_host, "missing", lambda: None)
    layer = tmp_path / "clone/node_agent"
    layer.mkdir(parents=True)
    (layer / "build_packages.py").write_text(BUILDS)
    (layer / "packages.txt").write_text("six==1.17.0\n")
    (layer.parent / "template.yaml").write_text("Resources: {}\n")

    def start(state_dir: Path, port: int, template: Path, **_: object) -> dict[str, bool]:
        return {"packages": (template.parent / "node_agent/packages/pip.whl").is_file()}

    monkeypatch.setattr(control, "_start", start)
    return layer.parent


@pytest.mark.real
def test_a_fresh_clone_gets_the_packages_of_its_agents_before_nodes_that_boot_need_them(
    clone: Path, tmp_path: Path
) -> None:
    told: list[str] = []
    template = clone / "template.yaml"
    assert control.up(
        tmp_path / "state", template=template, on_progress=told.append, nodes="machines"
    ) == {"packages": True}
    assert any("packages" in words for words in told), "it takes minutes, and somebody waits"
    control.up(tmp_path / "state", template=template, nodes="machines")
    assert (clone / "node_agent/built").read_text() == "x", "once"
    later = (clone / "node_agent/packages/pip.whl").stat().st_mtime + 1
    os.utime(clone / "node_agent/packages.txt", (later, later))
    control.up(tmp_path / "state", template=template, nodes="machines")
    assert (clone / "node_agent/built").read_text() == "xx", "other packages are asked for"


def test_nodes_that_are_processes_need_no_packages(clone: Path, tmp_path: Path) -> None:
    assert control.up(tmp_path / "state", template=clone / "template.yaml") == {"packages": False}


@pytest.mark.real
def test_packages_that_cannot_be_had_refuse_machines_with_the_index_words(
    clone: Path, tmp_path: Path
) -> None:
    (clone / "node_agent/build_packages.py").write_text(FAILS)
    with pytest.raises(control.Unusable) as refused:
        control.up(tmp_path / "state", template=clone / "template.yaml", nodes="machines")
    assert "No matching distribution found for six==1.17.0" in refused.value.message
    assert "package index" in refused.value.remedy
