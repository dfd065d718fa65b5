"""The commands of filesystems."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_api import FakeApi, T

from trainyard_cli.commands import filesystems

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]


def a_filesystem(status: str = "Available", **fields: Any) -> dict[str, Any]:
    return {
        "name": "lab",
        "status": status,
        "createdAt": T,
        "spec": {"storageGib": 1200, "deployment": "PERSISTENT_2"},
        "zone": "us-east-1a",
        "dnsName": "fs-1.fsx.us-east-1.amazonaws.com",
        "mountName": "abcdefgh",
        "clusters": ["one", "two"],
        "usedBytes": 4096,
        "events": [{"at": T, "message": "Clusters may mount it."}],
        **fields,
    }


def an_export(state: str, **fields: Any) -> dict[str, Any]:
    return {"number": 2, "state": state, "files": 7, "failedFiles": 0, "endedAt": T, **fields}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystems, "POLL_SECONDS", 0)


def test_one_that_is_shown_says_who_uses_it_and_what_happened(
    api: FakeApi, trainyard: Command
) -> None:
    api.answers["GET /v1/filesystems/lab"] = (200, a_filesystem())
    code, out, _ = trainyard("filesystem", "show", "lab")
    assert code == 0
    for words in ("one, two", "4.0 KiB", "us-east-1a", "Clusters may mount it."):
        assert words in out
    code, out, _ = trainyard("--json", "filesystem", "show", "lab")
    assert json.loads(out)["name"] == "lab"


def test_a_list_says_when_each_was_exported(api: FakeApi, trainyard: Command) -> None:
    page = {"filesystems": [a_filesystem(verifiedExport=an_export("verified"))]}
    api.answers["GET /v1/filesystems"] = (200, page)
    code, out, _ = trainyard("filesystem", "ls")
    assert (code, "1200 GiB" in out, "ago" in out) == (0, True, True)


def test_a_creation_is_waited_for_and_its_end_is_the_exit_status(
    api: FakeApi, trainyard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status, wanted in (("Available", 0), ("Failed", 1)):
        problem = {"title": "No", "detail": "the limit is reached", "nextStep": "Delete one."}
        ended = a_filesystem(status, problem=problem if wanted else None)
        api.answers["POST /v1/filesystems"] = (202, a_filesystem("Pending"))
        api.answers["GET /v1/filesystems/lab"] = [(200, a_filesystem("Creating")), (200, ended)]
        monkeypatch.setattr("sys.stdin", io.StringIO("name: lab"))
        code, out, _ = trainyard("filesystem", "create", "-", "--wait")
        assert (code, "the limit is reached" in out) == (wanted, bool(wanted))


def test_a_dry_run_shows_each_request_and_the_price(
    api: FakeApi, trainyard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {
        "requests": [{"operation": "CreateFileSystem", "request": {"StorageCapacity": 1200}}],
        "monthlyUsd": 174.0,
        "warnings": ["It has no repository"],
    }
    api.answers["POST /v1/filesystems"] = lambda query: (
        (200, plan) if query == {"dryrun": "true"} else (500, {})
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("name: lab"))
    code, out, err = trainyard("filesystem", "create", "-", "--dryrun")
    assert (code, "174.00 USD a month" in out, "CreateFileSystem" in out) == (0, True, True)
    assert "Nothing was done." in err


def test_an_export_that_failed_is_a_failure(api: FakeApi, trainyard: Command) -> None:
    path = "/v1/filesystems/lab"
    for state, wanted in (("verified", 0), ("failed", 1)):
        api.answers[f"POST {path}:export"] = (202, a_filesystem(export=an_export("requested")))
        over = a_filesystem(export=an_export(state, failedFiles=wanted))
        api.answers[f"GET {path}"] = [
            (200, a_filesystem(export=an_export("running"))),
            (200, over),
        ]
        code, out, _ = trainyard("filesystem", "export", "lab", "--wait")
        assert (code, state in out) == (wanted, True)


def test_what_it_holds_is_given_up_only_with_a_reason(api: FakeApi, trainyard: Command) -> None:
    path = "/v1/filesystems/lab"
    given_up = {"discard": "true", "reason": "only tests"}
    api.answers[f"DELETE {path}"] = lambda query: (
        202,
        a_filesystem("Deleting" if query == given_up else "Archiving"),
    )
    api.answers[f"GET {path}"] = (200, a_filesystem("Deleted"))
    code, out, _ = trainyard("filesystem", "delete", "lab", "--yes")
    assert (code, "Archiving" in out) == (0, True)
    code, out, _ = trainyard(
        "filesystem", "delete", "lab", "--discard", "only tests", "-w", "--yes"
    )
    assert (code, "Deleted" in out) == (0, True)


def test_one_that_stays_because_its_export_failed_is_a_failure(
    api: FakeApi, trainyard: Command
) -> None:
    path = "/v1/filesystems/lab"
    api.answers[f"DELETE {path}"] = (202, a_filesystem("Archiving"))
    api.answers[f"GET {path}"] = [(200, a_filesystem("Archiving")), (200, a_filesystem())]
    code, _, _ = trainyard("filesystem", "delete", "lab", "--wait", "--yes")
    assert code == 1
