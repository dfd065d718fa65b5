"""Random requests, right and wrong ones, get a documented answer and never a 5xx."""

from __future__ import annotations

import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from schemathesis.core import NOT_SET
from schemathesis.generation import GenerationMode
from tests.support.adopted import MemoryAdoptions, foreign
from tests.support.http_events import Answer, Client
from tests.support.memory import World

from trainyard.http.openapi import document

DOCUMENT = document()
REGISTRY = Registry().with_resource(
    "urn:openapi", Resource.from_contents(DOCUMENT, default_specification=DRAFT202012)
)
schema = schemathesis.openapi.from_dict(DOCUMENT)
schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])


def body_of(case: Any) -> Any:
    if case.body is NOT_SET:
        return None
    return case.body if isinstance(case.body, bytes) else json.dumps(case.body)


def check_documented(case: Any, answer: Answer) -> None:
    """The status is documented for the operation, and the body is what the document says of it."""
    responses = case.operation.definition.raw["responses"]
    assert str(answer.status) in responses, (
        f"{answer.status} is not documented: {answer.text[:300]}"
    )
    content = responses[str(answer.status)]["content"]
    assert answer.headers["Content-Type"] in content
    reference = content[answer.headers["Content-Type"]]["schema"]["$ref"]
    Draft202012Validator({"$ref": f"urn:openapi{reference}"}, registry=REGISTRY).validate(
        answer.json
    )


@schema.parametrize()
@settings(
    max_examples=15, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
def test_no_request_breaks_the_api(case: Any, client: Client, world: World) -> None:
    world.backend.adoptions = MemoryAdoptions(foreign())
    headers = {str(name): str(value) for name, value in (case.headers or {}).items()}
    headers["content-type"] = "application/json"
    query = {str(name): value for name, value in (case.query or {}).items() if value is not None}
    answer = client.send(
        case.method.upper(), case.formatted_path, query=query, headers=headers, body=body_of(case)
    )
    assert answer.status < 500, answer.text
    if answer.status not in (404, 405):  # a random path may belong to another operation, or to none
        check_documented(case, answer)


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/clusters"])
def test_bodies_that_are_no_json_never_break_the_api(client: Client, path: str) -> None:
    for body in (
        "",
        " ",
        "nul",
        "{]",
        "\x00",
        "\ufeff{}",
        "1e999",
        '{"a":' * 500,
        b"\x80",
        b"\x1f\x8b\x08",
    ):
        assert 400 <= client.post(path, body).status < 500
