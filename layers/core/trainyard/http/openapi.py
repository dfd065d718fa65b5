"""The OpenAPI 3.1 document of the API, from the routes that serve it; no function needs it."""

from __future__ import annotations

import copy
import json
from typing import Any

from trainyard.http import openapi_examples
from trainyard.http import openapi_words as words
from trainyard.http.api import Api
from trainyard.http.problems import MEDIA_TYPE
from trainyard.http.reasons import PARAMETER
from trainyard.ports import Ports

DESCRIPTION = (
    "Distributed training on AWS with nobody watching. Requests are signed with AWS Signature "
    "Version 4 (service execute-api). "
    "Errors are application/problem+json with a closed code. Times are RFC 3339; "
    "units are in the names."
)
_NAMES = {
    "trainyard_contracts__hyperpod__InstanceGroup": "HyperPodInstanceGroup",
    "trainyard_contracts__training_job_data__InstanceGroup": "TrainingJobInstanceGroup",
}
CONTACT = {"name": "Whom the AWS account with this stack belongs to"}
LICENSE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
TAGS = {
    "runs": "One training each, from its submission to its end",
    "clusters": "Clusters that runs use: their own, or one that stays",
    "filesystems": "Filesystems that clusters share and that outlive them",
    "nodes": "The nodes of a cluster",
    "approvals": "What waits until people say yes or no",
    "arrays": "Many runs of one spec, with other parameters each",
    "webhooks": "Receivers of events by Standard Webhooks",
    "schedules": "Runs that are submitted again and again, by a clock",
    "costs": "What runs and clusters have cost, and what for",
    "budgets": "What runs of a label, or a cluster, may cost together",
    "people": "Who may change what, and who changed what",
    "uploads": "Directories that runs have as their working directory or data",
}
# The resolver documents its own answers to invalid requests, which this API replaces by problems.
_UNUSED = ("HTTPValidationError", "ValidationError", "ResponseValidationError")


def document() -> dict[str, Any]:
    """The document as plain data."""
    resolver = Api(_no_ports).resolver
    found: dict[str, Any] = resolver.get_openapi_schema(
        title="Trainyard", version="1", openapi_version="3.1.0", description=DESCRIPTION
    ).model_dump(by_alias=True, exclude_none=True, mode="json")
    for path in found["paths"].values():
        for method, operation in path.items():
            operation["responses"] = _responses(operation["responses"])
            if method != "get" and "uploads" not in operation["tags"]:
                operation.setdefault("parameters", []).append(copy.deepcopy(PARAMETER))
            for parameter in operation.get("parameters", ()):
                _bound(parameter["schema"])
    for name in _UNUSED:
        found["components"]["schemas"].pop(name, None)
    found["components"]["securitySchemes"] = {"sigv4": _SIGV4}
    found["security"] = [{"sigv4": []}]
    found["paths"] = dict(sorted(found["paths"].items()))
    found["info"] |= {"contact": CONTACT, "license": LICENSE}
    found["tags"] = [{"name": name, "description": words} for name, words in TAGS.items()]
    found = _renamed(found)
    _worded(found)
    found["servers"] = [{"url": "/", "description": "the ApiUrl output of the stack"}]
    return found


def _bound(schema: dict[str, Any]) -> None:
    """The resolver writes a parameter's bounds in pydantic's words, which no client reads."""
    for theirs, word in (("ge", "minimum"), ("le", "maximum")):
        if theirs in schema:
            schema[word] = schema.pop(theirs)
    for one in schema.get("anyOf", ()):
        _bound(one)


def _renamed(found: dict[str, Any]) -> dict[str, Any]:
    """Classes of one name in two modules get names of their own, as generated clients need them."""
    text = json.dumps(found)
    for module, name in _NAMES.items():
        text = text.replace(f'"{module}"', f'"{name}"').replace(
            f"schemas/{module}", f"schemas/{name}"
        )
    renamed: dict[str, Any] = json.loads(text)
    for name, schema in renamed["components"]["schemas"].items():
        if "title" in schema:
            schema["title"] = name
    return renamed


def _worded(found: dict[str, Any]) -> None:
    """Every class and field with words, every field with an example, every call described."""
    for name, schema in found["components"]["schemas"].items():
        schema.setdefault("description", words.SUMMARIES.get(name, ""))
        for field, inner in schema.get("properties", {}).items():
            _word(name, field, inner)
    _constants_as_enums(found["components"])
    for operations in found["paths"].values():
        for operation in operations.values():
            operation["description"] = operation.get("description") or f"{operation['summary']}."


def _word(name: str, field: str, schema: dict[str, Any]) -> None:
    _constants_as_enums(schema)
    own = schema.get("description")
    own = own or words.DESCRIPTIONS.get(f"{name}.{field}") or words.DESCRIPTIONS.get(field)
    if own:
        schema["description"] = own
    if "examples" not in schema:
        made = openapi_examples.example(field, schema)
        if made is not None:
            schema["examples"] = [made]


def _constants_as_enums(value: Any) -> None:
    """A constant is an enum of one word: generators of clients know enums better."""
    if isinstance(value, list):
        for inner in value:
            _constants_as_enums(inner)
    elif isinstance(value, dict):
        if isinstance(value.get("const"), (str, int, float, bool)):
            value["enum"] = [value.pop("const")]
        for inner in value.values():
            _constants_as_enums(inner)


_SIGV4 = {
    "type": "apiKey",
    "name": "Authorization",
    "in": "header",
    "description": "AWS Signature Version 4, service execute-api",
    "x-amazon-apigateway-authtype": "awsSigv4",
}
#: What any path can answer before a route is found: an unknown path, or a method that the path
#: lacks.
_WITHOUT_A_ROUTE = {
    "404": "There is no such path",
    "405": "The path does not take this method; Allow names those it takes",
}


def _problem(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/ProblemDetails"}
    return {"description": description, "content": {MEDIA_TYPE: {"schema": schema}}}


def _responses(responses: dict[str, Any]) -> dict[str, Any]:
    kept = {
        status: response
        for status, response in responses.items()
        if not _is_the_resolvers(response)
    }
    kept["403"] = _problem(
        "The gateway refuses the request (no signature, a wrong one, no permission; its answer is "
        '{"message": ...}), or the person may not do this (code not-allowed)'
    )
    for status, description in _WITHOUT_A_ROUTE.items():
        kept.setdefault(status, _problem(description))
    return dict(sorted(kept.items()))


def _is_the_resolvers(response: dict[str, Any]) -> bool:
    schema = response.get("content", {}).get("application/json", {}).get("schema", {})
    return str(schema.get("$ref", "")).endswith(_UNUSED)


def _no_ports() -> Ports:
    raise AssertionError("generating the document calls no use case")
