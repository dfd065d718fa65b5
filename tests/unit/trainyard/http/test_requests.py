"""The API refuses what it cannot understand and says which field and what would be right."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from tests.support.http_events import Client, changed, is_a_problem, spec

from trainyard.http import api, requests
from trainyard_contracts.base import words_for
from trainyard_contracts.specs import RunSpec

NO_RUN = "run-01h00000000000000000000000"

HOSTILE = [
    "; rm -rf /",
    "$(reboot)",
    "`id`",
    "a && b | c > /etc/passwd",
    "'\"\\\n\t",
    "${HOME}",
    "--help",
    "\u202e\U0001f4a9",
]


def without(path: str) -> dict[str, Any]:
    body = copy.deepcopy(spec())
    *parents, last = path.split(".")
    place: Any = body
    for part in parents:
        place = place[int(part)] if part.isdigit() else place[part]
    del place[last]
    return body


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        (changed("nmae", "x"), "nmae", "not a known field"),
        (changed("job.comand", "x"), "job.comand", "not a known field"),
        (without("name"), "name", "is required"),
        (changed("name", 7), "name", "must be a string"),
        (changed("job.nodes", "2"), "job.nodes", "must be a whole number"),
        (changed("job.nodes", True), "job.nodes", "must be a whole number"),
        (changed("name", "x" * 64), "name", "at most 63"),
        (changed("name", "under_score"), "name", "no underscore"),
        (changed("name", ""), "name", "at least 1"),
        (changed("cluster.spec.name", "under_score"), "cluster.spec.name", "no underscore"),
        (changed("job.nodes", "two"), "job.nodes", "must be a whole number"),
        (changed("job.nodes", 0), "job.nodes", "greater than or equal to 1"),
        (changed("job.nodes", 3), "job.nodes", "ask for at most 2"),
        (changed("job.module", "os; rm -rf /"), "job.module",
         "must be the name of a Python module"),
        (changed("job.script", "train.py"), "job", "give one of 'module'"),
        (changed("progress", "x"), "progress", "must be 'auto', 'none', or one of"),
        (changed("progress", {"regex": "x"}), "progress.regex", "must name the step"),
        (changed("progress", {"regexp": "x"}), "progress.regexp", "not a known field"),
        (changed("job.environment", {"TRAINYARD_FENCE": "1"}), "job.environment",
         "set by Trainyard"),
        (changed("job.environment", {"a b": "1"}), "job.environment.a b", "variable name"),
        (changed("checkpoint", {"directory": "../../etc"}), "checkpoint.directory",
         "stays inside its root"),
        (changed("checkpoint", {"directory": "/etc"}), "checkpoint.directory", "relative path"),
        (changed("checkpoint", {"everySeconds": 0}), "checkpoint.everySeconds", "greater than 0"),
        (changed("cluster", {}), "cluster", "give one of 'name'"),
        (without("cluster.spec.sharedFilesystem"), "cluster.spec.sharedFilesystem",
         "give dnsName and mountName"),
        (without("cluster.spec.network"), "cluster.spec.network",
         "give subnetIds and securityGroupIds"),
        (changed("cluster", {"name": "c", "spec": spec()["cluster"]["spec"]}), "cluster",
         "give one of 'name'"),
        (changed("cluster.spec.instanceGroups", spec()["cluster"]["spec"]["instanceGroups"][1:]),
         "cluster.spec.instanceGroups", "'controller'"),
        (changed("cluster.spec.instanceGroups", spec()["cluster"]["spec"]["instanceGroups"][:1]),
         "cluster.spec.instanceGroups", "'worker'"),
        (changed("cluster.spec.instanceGroups", []), "cluster.spec.instanceGroups", "'controller'"),
        (changed("cluster.spec.instanceGroups.0.role", "worker"), "cluster.spec.instanceGroups",
         "exactly one group with role 'controller'"),
        (changed("cluster.spec.instanceGroups.1.instanceType", "p5.48xlarge"),
         "cluster.spec.instanceGroups.1.instanceType", "ml.c5.xlarge"),
        (changed("cluster.spec.instanceGroups.1.role", "boss"),
         "cluster.spec.instanceGroups.1.role", "'controller', 'worker' or 'login'"),
        (changed("cluster.spec.instanceGroups.0.spares", 1), "cluster.spec.instanceGroups.0",
         "spares are for worker groups only"),
        (changed("cluster.spec.instanceGroups", "many"), "cluster.spec.instanceGroups",
         "valid list"),
        (changed("cluster", "mine"), "cluster", "must be an object"),
        (changed("recovery", {"maxAttempts": 1e400}), "recovery.maxAttempts", "whole number"),
        (changed("teardown", "sometimes"), "teardown", "'always', 'on-success' or 'never'"),
    ],
)  # fmt: skip
def test_every_bad_field_is_named_with_what_would_be_right(
    client: Client, body: dict[str, Any], field: str, words: str
) -> None:
    sent = json.dumps(body).replace("Infinity", "1e400")
    answer = client.post("/v1/runs", sent)
    is_a_problem(answer, 400, "invalid-request")
    assert words in answer.fields[field], answer.fields


def test_several_mistakes_are_reported_at_once(client: Client) -> None:
    body = changed("name", "under_score") | {"extra": 1}
    answer = client.post("/v1/runs", body)
    assert set(answer.fields) == {"name", "extra"}
    assert "(1 more)" in answer.json["detail"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{", "not valid JSON"),
        ('{"name": "a", "name": "b"}', "the key 'name' twice"),
        ('{"name": NaN}', "contains NaN"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' * 20_000, "nested too deeply"),
        ('{"name": ' + "9" * 10_000 + "}", "integer"),
        ("[]", "not an array"),
        (json.dumps([spec()]), "not an array"),
        ("null", "not null"),
        ('"run"', "not a string"),
        ("7", "not a number"),
        (b"\xff\xfe{", "not UTF-8"),
    ],
)  # fmt: skip
def test_a_body_that_is_no_json_object_is_refused_with_the_place(
    client: Client, body: Any, words: str
) -> None:
    answer = client.post("/v1/runs", body)
    is_a_problem(answer, 400, "invalid-request")
    assert words in answer.fields["body"], answer.fields


def test_no_body_at_all_is_refused(client: Client) -> None:
    is_a_problem(client.post("/v1/runs"), 400, "invalid-request")


@pytest.mark.parametrize("size", [256 * 1024 + 1, 1_000_000])
def test_a_body_over_the_limit_is_too_large_whatever_it_says(client: Client, size: int) -> None:
    for body in ("x" * size, b"x" * (size + 3)):
        answer = client.post("/v1/runs", body)
        is_a_problem(answer, 413, "body-too-large")
        assert "at most 262144 bytes" in answer.fields["body"]


def test_a_body_just_under_the_limit_is_read(client: Client) -> None:
    body = changed("job.files", {"a.py": "x" * 120_000, "b.py": "y" * 120_000})
    assert client.post("/v1/runs", body).status == 202


@pytest.mark.parametrize(
    "media_type",
    ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"],
)
def test_a_body_that_does_not_say_it_is_json_is_refused_with_the_header_to_send(
    client: Client, media_type: str
) -> None:
    answer = client.post("/v1/runs", spec(), headers={"content-type": media_type})
    is_a_problem(answer, 415, "invalid-request")
    assert "Content-Type: application/json" in answer.json["nextStep"]
    assert "must be application/json" in answer.fields["content-type"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1",
        "/v1/",
        "/v1/nope",
        "/v1/runs/",
        "/v1/runs/a/b/c",
        "/v1/runs/run-x:explode",
        "/",
        "/v2/runs",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_is_not_found(client: Client, method: str, path: str) -> None:
    answer = client.send(method, path)
    if method == "GET" and path.endswith(":explode"):
        is_a_problem(answer, 405, "method-not-allowed")
    else:
        is_a_problem(answer, 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/v1/runs", "GET, POST"),
        ("PUT", "/v1/runs/run-01h00000000000000000000000", "GET, PATCH"),
        ("POST", "/v1/clusters/c", "DELETE, GET, PATCH, PUT"),
        ("HEAD", "/v1/clusters", "GET, POST"),
        ("OPTIONS", "/v1/runs", "GET, POST"),
    ],
)
def test_a_wrong_method_is_refused_with_the_right_ones(
    client: Client, method: str, path: str, allow: str
) -> None:
    answer = client.send(method, path)
    is_a_problem(answer, 405, "method-not-allowed")
    assert answer.headers["Allow"] == allow


def test_a_verb_sent_with_get_is_a_wrong_method(client: Client) -> None:
    is_a_problem(
        client.get("/v1/runs/run-01h00000000000000000000000:cancel"), 405, "method-not-allowed"
    )


@pytest.mark.parametrize("key", ["", "x" * 129, "tab\there", "ключ", "\u007f"])
def test_a_bad_idempotency_key_is_refused(client: Client, key: str) -> None:
    answer = client.post("/v1/runs", spec(), headers={"Idempotency-Key": key})
    is_a_problem(answer, 400, "invalid-request")
    assert any(field.lower() == "idempotency-key" for field in answer.fields)


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("/v1/runs", {"limit": 0}, "limit"),
        ("/v1/runs", {"limit": 101}, "limit"),
        ("/v1/runs", {"limit": "many"}, "limit"),
        # Python reads both as 10.
        ("/v1/runs", {"limit": "1_0"}, "limit"),
        ("/v1/runs", {"limit": " 10"}, "limit"),
        ("/v1/runs", {"status": "Sleeping"}, "status"),
        ("/v1/runs", {"limt": 5}, "limt"),
        ("/v1/clusters", {"nextToken": "x" * 5000}, "nextToken"),
        ("/v1/runs/run-01h00000000000000000000000/logs", {"kind": "diary"}, "kind"),
        ("/v1/runs/run-01h00000000000000000000000/logs", {"lines": 0}, "lines"),
        ("/v1/runs/run-01h00000000000000000000000/logs", {"attempt": -1}, "attempt"),
        (
            "/v1/runs/run-01h00000000000000000000000/metrics",
            {"sinceSeconds": "yesterday"},
            "sinceSeconds",
        ),
    ],
)
def test_a_bad_query_parameter_is_named(
    client: Client, path: str, query: dict[str, Any], field: str
) -> None:
    answer = client.get(path, query=query)
    is_a_problem(answer, 400, "invalid-request")
    assert field in answer.fields


@pytest.mark.parametrize("hostile", HOSTILE)
def test_ids_that_cannot_exist_are_not_found_and_reach_nothing(
    client: Client, hostile: str
) -> None:
    for path, code in (
        ("/v1/runs/{}", "run-not-found"),
        ("/v1/clusters/{}", "cluster-not-found"),
        ("/v1/runs/{}/events", "run-not-found"),
    ):
        answer = client.get(path.format(hostile))
        assert answer.status in (404, 405)
        assert answer.json["code"] in (code, "not-found", "method-not-allowed")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "/v1/runs/nope",
            "There is no such run: 'nope' is neither the id of a run, nor the beginning of one, "
            "nor a run's name.",
        ),
        (f"/v1/runs/{NO_RUN}", f"There is no such run: '{NO_RUN}' is not the id of a run."),
        ("/v1/clusters/no_pe", "There is no such cluster: 'no_pe' is not the name of a cluster."),
        ("/v1/clusters/nope", "There is no such cluster: 'nope' is not the name of a cluster."),
        ("/v1/nope", "There is no such resource: GET /v1/nope is no call of this API."),
    ],
)
def test_what_is_not_there_is_said_once_and_in_the_same_words_whatever_was_asked(
    client: Client, path: str, said: str
) -> None:
    answer = client.get(path).json
    assert f"{answer['title']}: {answer['detail']}" == said


@pytest.mark.parametrize("hostile", [text for text in HOSTILE if "\x00" not in text])
def test_shell_metacharacters_arrive_as_data(client: Client, hostile: str) -> None:
    body = spec()
    body["job"] |= {
        "arguments": [hostile],
        "environment": {"MESSAGE": hostile},
        "files": {"notes.txt": hostile},
    }
    answer = client.post("/v1/runs", body)
    assert answer.status == 202, answer.text
    stored = client.get(answer.headers["Location"]).json["spec"]["job"]
    assert stored["arguments"] == [hostile]
    assert stored["environment"] == {"MESSAGE": hostile}
    assert stored["files"] == {"notes.txt": hostile}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize(
    "path",
    ["name", "cluster.spec.name", "cluster.spec.instanceGroups.1.name",
     "cluster.spec.instanceGroups.1.instanceType",
     "cluster.spec.instanceGroups.1.partition", "job.module", "job.partition",
     "checkpoint.directory", "teardown"],
)  # fmt: skip
def test_strings_that_name_things_refuse_shell_metacharacters(
    client: Client, path: str, hostile: str
) -> None:
    is_a_problem(client.post("/v1/runs", changed(path, hostile)), 400, "invalid-request")


def test_a_lone_surrogate_is_refused_not_a_crash(client: Client) -> None:
    answer = client.post("/v1/runs", '{"name": "\\ud800", "\\udfff": 1}')
    is_a_problem(answer, 400, "invalid-request")


class CountedName(str):
    """A key that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_repeated_key_is_found_in_one_pass_over_the_keys() -> None:
    names = [CountedName(f"{number:x}") for number in range(2_000)]
    with pytest.raises(ValueError, match="the key 'zz' twice"):
        requests._once([(name, 0) for name in [*names, CountedName("zz"), CountedName("zz")]])
    assert CountedName.compared < 5 * len(names)


def patterns(schema: object) -> set[str]:
    """Every pattern in a JSON schema."""
    if isinstance(schema, dict):
        own = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
        return own.union(*(patterns(part) for part in schema.values()))
    return set().union(*(patterns(part) for part in schema)) if isinstance(schema, list) else set()


def test_every_pattern_of_a_spec_has_words_of_its_own() -> None:
    found = patterns(RunSpec.model_json_schema())
    assert len(found) > 10
    assert [pattern for pattern in found if words_for(pattern).startswith("must match")] == []


def test_a_problem_names_its_request_and_the_log_has_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(api.log, "info", lambda _, **fields: lines.append(fields))
    for method, path, body in [
        ("GET", "/v1/runs/none", None),
        ("GET", "/v1/nothing", None),
        ("POST", "/v1/runs", {}),
        ("POST", "/v1/runs", "{"),
        ("POST", "/v1/runs", "x" * 300_000),
    ]:
        answer = client.send(method, path, body=body, request_id="Yz1x2gA0IAMEV7w=")
        assert answer.json["instance"] == "urn:trainyard:request:Yz1x2gA0IAMEV7w="
        line = lines.pop()
        assert (line["request_id"], line["method"]) == ("Yz1x2gA0IAMEV7w=", method)
        assert (line["code"], line["status"]) == (answer.json["code"], answer.status)
