"""The OpenAPI document is generated from the routes, valid, complete and checked in."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openapi_spec_validator import validate
from scripts import openapi

from trainyard.domain.errors import CODES
from trainyard.http.openapi import document

OPERATIONS = {
    "POST /v1/arrays", "GET /v1/arrays", "GET /v1/arrays/{arrayId}",
    "GET /v1/arrays/{arrayId}/members", "POST /v1/arrays/{arrayId}:cancel",
    "POST /v1/schedules", "GET /v1/schedules", "GET /v1/schedules/{scheduleName}",
    "DELETE /v1/schedules/{scheduleName}", "POST /v1/schedules/{scheduleName}:pause",
    "POST /v1/schedules/{scheduleName}:resume",
    "POST /v1/filesystems",
    "GET /v1/filesystems",
    "GET /v1/filesystems/{filesystemName}",
    "DELETE /v1/filesystems/{filesystemName}",
    "POST /v1/filesystems/{filesystemName}:export",
    "POST /v1/runs", "GET /v1/runs", "GET /v1/runs/{runId}", "GET /v1/runs/{runId}/events",
    "GET /v1/runs/{runId}/checkpoints", "GET /v1/runs/{runId}/logs", "GET /v1/runs/{runId}/metrics",
    "GET /v1/runs/{runId}/outputs",
    "POST /v1/runs/{runId}:cancel", "POST /v1/runs/{runId}:resume", "POST /v1/runs/{runId}:export",
    "POST /v1/clusters", "GET /v1/clusters", "GET /v1/clusters/{clusterName}",
    "PUT /v1/clusters/{clusterName}", "DELETE /v1/clusters/{clusterName}",
    "POST /v1/clusters/{clusterName}:stop", "POST /v1/clusters/{clusterName}:start",
    "GET /v1/clusters/{clusterName}/nodes",
    "POST /v1/clusters/{clusterName}/nodes/{instanceId}:replace",
    "POST /v1/clusters/{clusterName}/nodes/{instanceId}:reboot",
    "POST /v1/uploads", "GET /v1/uploads/{uploadId}",
}  # fmt: skip


@pytest.fixture(scope="module")
def generated() -> dict[str, Any]:
    return document()


def test_the_checked_in_document_is_fresh() -> None:
    assert openapi.main(["--check"]) == 0


def test_a_stale_document_is_noticed(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(openapi, "TARGET", tmp_path / "openapi.json")
    assert openapi.main(["--check"]) == 1
    assert "is stale" in capsys.readouterr().out
    assert openapi.main([]) == 0
    assert openapi.main(["--check"]) == 0


def test_it_is_valid_openapi_3_1(generated: dict[str, Any]) -> None:
    assert generated["openapi"].startswith("3.1")
    validate(generated)


def test_it_lists_every_call_of_the_api(generated: dict[str, Any]) -> None:
    found = {
        f"{method.upper()} {path}"
        for path, operations in generated["paths"].items()
        for method in operations
    }
    assert found == OPERATIONS


def test_every_call_documents_its_problems(generated: dict[str, Any]) -> None:
    for operations in generated["paths"].values():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400 and status != "403":
                    schema = response["content"]["application/problem+json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/ProblemDetails"}, operation[
                        "operationId"
                    ]
            assert {"400", "500"} <= operation["responses"].keys()


def test_the_codes_of_problems_are_closed(generated: dict[str, Any]) -> None:
    assert (
        set(generated["components"]["schemas"]["ProblemDetails"]["properties"]["code"]["enum"])
        == CODES
    )


def test_every_name_on_the_wire_is_camel_case(generated: dict[str, Any]) -> None:
    for name, schema in generated["components"]["schemas"].items():
        for field in schema.get("properties", {}):
            assert re.fullmatch(r"[a-z][a-zA-Z0-9]*", field), f"{name}.{field}"


def test_nothing_of_the_table_shows(generated: dict[str, Any]) -> None:
    """What a record has is shown only where a view names it."""
    shown = {
        name: set(generated["components"]["schemas"][name]["properties"])
        for name in ("RunView", "ClusterView", "Attempt", "Incident")
    }
    assert "latest" in shown["RunView"]
    hidden = {
        "RunView": {"version", "actions", "handledFacts", "troubles", "lastTrouble", "formerNodes"},
        "ClusterView": {
            "version",
            "createRequested",
            "machineTries",
            "signsEvents",
            "idempotencyKey",
        },
        "Attempt": {"generation"},
        "Incident": {"factId", "errorSignature"},
    }
    assert {name: shown[name] & fields for name, fields in hidden.items()} == {
        name: set() for name in hidden
    }


def test_every_call_names_the_answers_to_an_unknown_path_and_a_wrong_method(
    generated: dict[str, Any],
) -> None:
    for path, operations in generated["paths"].items():
        for method, operation in operations.items():
            for status in ("404", "405"):
                assert "application/problem+json" in operation["responses"][status]["content"], (
                    f"{method} {path} {status}"
                )
