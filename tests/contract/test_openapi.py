"""The OpenAPI document is generated from the routes, valid, complete and checked in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from scripts import openapi, sdk_answers

from trainyard.domain.errors import CODES
from trainyard.http.openapi import document

OPERATIONS = {
    "POST /v1/arrays", "GET /v1/arrays", "GET /v1/arrays/{arrayId}",
    "GET /v1/arrays/{arrayId}/members", "POST /v1/arrays/{arrayId}:cancel",
    "GET /v1/runs/{runId}/cost", "GET /v1/clusters/{clusterName}/cost", "GET /v1/costs",
    "POST /v1/schedules", "GET /v1/schedules", "GET /v1/schedules/{scheduleName}",
    "DELETE /v1/schedules/{scheduleName}", "POST /v1/schedules/{scheduleName}:pause",
    "POST /v1/schedules/{scheduleName}:resume",
    "GET /v1/budgets", "GET /v1/budgets/{budgetName}", "PUT /v1/budgets/{budgetName}",
    "DELETE /v1/budgets/{budgetName}",
    "POST /v1/webhooks", "GET /v1/webhooks", "GET /v1/webhooks/{webhookId}",
    "DELETE /v1/webhooks/{webhookId}", "POST /v1/webhooks/{webhookId}:rotate",
    "POST /v1/webhooks/{webhookId}:redeliver",
    "GET /v1/approvals", "GET /v1/approvals/{approvalId}",
    "POST /v1/approvals/{approvalId}:approve", "POST /v1/approvals/{approvalId}:deny",
    "POST /v1/filesystems",
    "GET /v1/filesystems",
    "GET /v1/filesystems/{filesystemName}",
    "DELETE /v1/filesystems/{filesystemName}",
    "POST /v1/filesystems/{filesystemName}:export",
    "POST /v1/runs", "GET /v1/runs", "GET /v1/runs/{runId}", "GET /v1/runs/{runId}/events",
    "PATCH /v1/runs/{runId}", "PATCH /v1/clusters/{clusterName}",
    "GET /v1/runs/{runId}/checkpoints", "GET /v1/runs/{runId}/logs", "GET /v1/runs/{runId}/metrics",
    "GET /v1/runs/{runId}/outputs",
    "POST /v1/runs/{runId}:cancel", "POST /v1/runs/{runId}:resume", "POST /v1/runs/{runId}:export",
    "POST /v1/clusters", "GET /v1/clusters", "GET /v1/clusters/{clusterName}",
    "PUT /v1/clusters/{clusterName}", "DELETE /v1/clusters/{clusterName}",
    "POST /v1/clusters:adopt", "POST /v1/clusters/{clusterName}:release",
    "POST /v1/clusters/{clusterName}:keep", "POST /v1/clusters/{clusterName}:stop",
    "POST /v1/clusters/{clusterName}:start",
    "GET /v1/clusters/{clusterName}/nodes",
    "POST /v1/clusters/{clusterName}/nodes/{instanceId}:replace",
    "POST /v1/clusters/{clusterName}/nodes/{instanceId}:reboot",
    "POST /v1/runs/{runId}:share", "POST /v1/runs/{runId}:transfer",
    "POST /v1/clusters/{clusterName}:share", "POST /v1/clusters/{clusterName}:transfer",
    "POST /v1/filesystems/{filesystemName}:share", "POST /v1/filesystems/{filesystemName}:transfer",
    "POST /v1/arrays/{arrayId}:share", "POST /v1/arrays/{arrayId}:transfer",
    "POST /v1/schedules/{scheduleName}:share", "POST /v1/schedules/{scheduleName}:transfer",
    "GET /v1/whoami", "GET /v1/audit",
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


def test_the_sdks_classes_of_its_answers_are_fresh(tmp_path, monkeypatch, capsys) -> None:
    assert sdk_answers.main(["--check"]) == 0
    monkeypatch.setattr(sdk_answers, "TARGET", tmp_path / "answers.py")
    assert sdk_answers.main(["--check"]) == 1
    assert "is stale" in capsys.readouterr().out


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
                if int(status) >= 400:
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


def fields(generated: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, schema in generated["components"]["schemas"].items():
        for field, inner in schema.get("properties", {}).items():
            yield f"{name}.{field}", inner


def is_plain(schema: dict[str, Any]) -> bool:
    """Text, a number or a word of a list; the examples of others are those of their parts."""
    kinds = {one.get("type") for one in (schema, *schema.get("anyOf", ()))}
    return not kinds.isdisjoint({"string", "integer", "number", "boolean"})


def test_every_class_and_every_field_is_described(generated: dict[str, Any]) -> None:
    """The words are in the class, or in openapi_words.py for a field of many classes."""
    bare = [name for name, schema in fields(generated) if not schema.get("description")]
    assert not bare
    schemas = generated["components"]["schemas"].items()
    assert not [name for name, schema in schemas if not schema.get("description")]


def test_every_plain_field_has_an_example_that_it_would_take(generated: dict[str, Any]) -> None:
    """Its own, or one of EXAMPLES or _POOL of openapi_words.py."""
    registry = Registry().with_resource(
        "urn:openapi", Resource.from_contents(generated, default_specification=DRAFT202012)
    )
    for name, schema in fields(generated):
        if not is_plain(schema):
            continue
        assert schema.get("examples"), name
        place = f"urn:openapi#/components/schemas/{name.replace('.', '/properties/')}"
        for example in schema["examples"]:
            validator = Draft202012Validator({"$ref": place}, registry=registry)
            assert not list(validator.iter_errors(example)), (name, example)


def test_a_parameters_bounds_are_in_the_words_of_json_schema(generated: dict[str, Any]) -> None:
    (limit,) = (
        one for one in generated["paths"]["/v1/runs"]["get"]["parameters"] if one["name"] == "limit"
    )
    assert (limit["schema"]["minimum"], limit["schema"]["maximum"]) == (1, 100)
    assert not re.search(r'"(ge|le|gt|lt)":', json.dumps(generated))


def test_a_constant_is_an_enum_of_one_word(generated: dict[str, Any]) -> None:
    assert '"const"' not in json.dumps(generated)
    backend = generated["components"]["schemas"]["ParallelClusterSpec"]["properties"]["backend"]
    assert backend["enum"] == ["parallelcluster"]


def test_every_call_has_a_description_and_a_tag_that_is_described(
    generated: dict[str, Any],
) -> None:
    tags = {tag["name"] for tag in generated["tags"] if tag["description"]}
    for operations in generated["paths"].values():
        for operation in operations.values():
            assert operation["description"]
            assert set(operation["tags"]) <= tags
    assert generated["info"]["license"]["identifier"] == "Apache-2.0"
    assert generated["info"]["contact"]["name"]


def test_every_call_names_the_answers_to_an_unknown_path_and_a_wrong_method(
    generated: dict[str, Any],
) -> None:
    for path, operations in generated["paths"].items():
        for method, operation in operations.items():
            for status in ("404", "405"):
                assert "application/problem+json" in operation["responses"][status]["content"], (
                    f"{method} {path} {status}"
                )
