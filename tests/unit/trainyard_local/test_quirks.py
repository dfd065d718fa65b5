"""Quirks of the local cloud: known by name, refused otherwise, off unless asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.repository import ROOT

from sam_on_moto.cloud import Cloud, Naming
from sam_on_moto.gateway.admin import Admin
from sam_on_moto.iam.access import Access
from sam_on_moto.wire.messages import Request
from trainyard_local import admin_calls
from trainyard_local.local_cloud import LocalCloud, forbids, quirky_heads
from trainyard_local.quirks import QUIRKS, Quirks

SOURCES = ROOT / "localcloud/trainyard_local"


def admin_of(cloud: LocalCloud) -> Admin:
    return Admin(cloud, lambda: None, lambda template: None, admin_calls.calls(cloud))


def asked(admin: Admin, body: Any) -> tuple[int, Any]:
    request = Request(
        "POST",
        "/_trainyard/quirk",
        "",
        {"x-trainyard-token": admin.token},
        json.dumps(body).encode(),
    )
    answer = admin.handle(request)
    return answer.status, json.loads(answer.body)


def test_a_quirk_is_played_from_when_it_is_asked_for_until_it_is_ended(tmp_path: Path) -> None:
    cloud = LocalCloud(tmp_path, 1)
    admin = admin_of(cloud)
    assert "targets-have-the-name" not in cloud.quirks
    assert asked(admin, {"name": "targets-have-the-name"}) == (
        200,
        {"quirks": ["targets-have-the-name"]},
    )
    assert "targets-have-the-name" in cloud.quirks
    assert asked(admin, {"name": "targets-have-the-name", "on": False}) == (200, {"quirks": []})
    assert "targets-have-the-name" not in cloud.quirks


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"name": "gravity"}, "name: 'gravity' is no quirk; there are: prices-"),
        ({}, "name: 'None'"),
        ([], "name: 'None'"),
        ({"name": "slurm-comes-late", "on": "yes"}, "on: 'yes' must be true or false"),
    ],
)
def test_a_quirk_that_nobody_plays_is_refused_with_those_that_there_are(
    tmp_path: Path, body: Any, words: str
) -> None:
    status, answer = asked(admin_of(LocalCloud(tmp_path, 1)), body)
    assert status == 400
    assert words in answer["message"]


def test_a_quirk_refuses_events_to_nodes_and_to_nobody_else(tmp_path: Path) -> None:
    cloud = LocalCloud(tmp_path, 1)
    access = Access(cloud.account_id)
    node = access.issue("arn:aws:iam::123456789012:role/Node", "i-0123")
    service = access.issue("arn:aws:iam::123456789012:role/Function", "function")
    assert not forbids(cloud, node, "events:PutEvents")
    cloud.quirks.set({"name": "node-roles-may-not-put-events"})
    assert forbids(cloud, node, "events:PutEvents")
    assert not forbids(cloud, node, "s3:GetObject")
    assert not forbids(cloud, service, "events:PutEvents")


@pytest.mark.parametrize(
    ("method", "quirks", "names"),
    [
        ("HEAD", [], ["ETag", "x-amz-checksum-sha256"]),
        ("HEAD", ["heads-have-no-checksum"], ["ETag"]),
        ("GET", ["heads-have-no-checksum"], ["ETag", "x-amz-checksum-sha256"]),
    ],
)
def test_a_quirk_takes_the_checksum_from_answers_to_head(
    tmp_path: Path, method: str, quirks: list[str], names: list[str]
) -> None:
    cloud, sent = LocalCloud(tmp_path, 1), []
    for name in quirks:
        cloud.quirks.set({"name": name})

    def moto(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("ETag", "e"), ("x-amz-checksum-sha256", "c")])
        return []

    application = quirky_heads(cloud, moto)
    application({"REQUEST_METHOD": method}, lambda status, headers: sent.extend(headers))
    assert [name for name, _ in sent] == names


def test_another_clouds_admin_calls_have_its_own_names_and_none_of_ours(tmp_path: Path) -> None:
    naming = Naming(admin_prefix="/_mine/", admin_header="x-mine")
    admin = Admin(Cloud(tmp_path, 1, naming), lambda: None, lambda template: None)
    headers = {"x-mine": admin.token}
    status = admin.handle(Request("GET", "/_mine/status", "", headers, b""))
    assert json.loads(status.body)["stateDir"] == str(tmp_path)
    quirk = admin.handle(Request("POST", "/_mine/quirk", "", headers, b"{}"))
    assert quirk.status == 404
    assert b"POST /_mine/shutdown" in quirk.body
    assert admin.handle(Request("GET", "/_mine/status", "", {}, b"")).status == 403


def test_each_quirk_is_played_somewhere() -> None:
    """A part asks by the name, and a name that is none of them is a mistake of ours."""
    code = "".join(path.read_text() for path in SOURCES.rglob("*.py") if path.name != "quirks.py")
    assert [name for name in QUIRKS if not re.search(rf'"{name}" (not )?in ', code)] == []
    with pytest.raises(AssertionError):
        assert "gravity" in Quirks()
