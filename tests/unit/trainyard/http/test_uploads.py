"""Uploads over HTTP: what is missing, until nothing is; and runs that name one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from tests.support.http_events import Answer, Client, changed, is_a_problem
from tests.support.memory import World
from tests.support.trees import packed, sha, upload_spec

from trainyard.app.runs import uploads
from trainyard_contracts import places
from trainyard_contracts.trees import UPLOAD_BYTES, Pack

FILES = {"train.py": b"print()\n", "data.bin": b"x" * 900 + b"y" * 1600}
TREE, PACKS = packed(FILES)
SPEC = upload_spec(TREE, PACKS)
ID = SPEC["tree"]["sha256"]
DAY = 86400.0

#: Of an upload, which has no commit.
CODE = {"tree": ID, "files": 2, "bytes": 2508, "commit": "", "url": "", "ref": ""}


def ask(client: Client, body: dict[str, Any] | None = None) -> Any:
    answer = client.post("/v1/uploads", body or SPEC)
    assert answer.status == 200, answer.text
    return answer.json


def send_all(world: World) -> None:
    for body in (TREE.document(), *PACKS.values()):
        world.uploads.put(body)


def complete(client: Client, world: World) -> None:
    send_all(world)
    assert ask(client)["state"] == "Complete"


def submit(client: Client, **job: Any) -> Answer:
    script = {"nodes": 2, "recipe": "command", "script": "train.py", "workdir": ID}
    return client.post("/v1/runs", changed("job", script | job))


# -- what is missing -----------------------------------------------------------------------------
def test_what_is_missing_has_a_url_each_and_the_headers_that_its_put_must_send(
    client: Client,
) -> None:
    answer = ask(client)
    assert (answer["id"], answer["state"]) == (ID, "Incomplete")
    assert [one["sha256"] for one in answer["missing"]] == [ID, *PACKS]
    assert answer["missingCount"] == 1 + len(PACKS)
    first = answer["missing"][1]
    assert first["url"].startswith("https://")
    assert first["headers"]["content-length"] == str(first["bytes"])
    assert "x-amz-checksum-sha256" in first["headers"]


def test_what_was_sent_is_not_asked_for_again_and_in_the_end_it_is_complete(
    client: Client, world: World
) -> None:
    ask(client)
    world.uploads.put(next(iter(PACKS.values())))
    assert ask(client)["missingCount"] == len(PACKS)
    send_all(world)
    done = ask(client)
    assert (done["state"], done["missing"], done["missingCount"]) == ("Complete", [], 0)
    assert ask(client) == done


def test_bytes_of_another_size_are_missing(client: Client, world: World) -> None:
    send_all(world)
    one = next(iter(PACKS))
    world.blobs.put(places.upload_key(one), b"short")
    assert [missing["sha256"] for missing in ask(client)["missing"]] == [one]


def test_what_was_there_a_moment_ago_is_not_looked_for_again_within_the_hour(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    held = world.uploads.held

    def watched(part: Pack) -> datetime | None:
        looked.append(part.sha256)
        return held(part)

    first, *others = PACKS
    world.uploads.put(PACKS[first])
    monkeypatch.setattr(world.uploads, "held", watched)
    ask(client)
    assert sorted(looked) == sorted([ID, *PACKS])
    looked.clear()
    ask(client)
    assert sorted(looked) == sorted([ID, *others])
    world.clock.tick(3600)
    looked.clear()
    ask(client)
    assert sorted(looked) == sorted([ID, *PACKS])
    other_size = [{**pack, "bytes": pack["bytes"] + 1} for pack in SPEC["packs"]]
    assert ask(client, SPEC | {"packs": other_size})["missingCount"] == 1 + len(PACKS)


@pytest.mark.parametrize("note", [b"", b"{}", b'{"parts": {"a": 1}, "lookedAt": "now"}'])
def test_a_note_of_what_was_there_that_cannot_be_read_is_made_anew(
    client: Client, world: World, note: bytes
) -> None:
    world.blobs.put(places.held_parts_key(ID), note)
    assert ask(client)["missingCount"] == 1 + len(PACKS)
    send_all(world)
    assert ask(client)["state"] == "Complete"


def test_an_answer_has_urls_for_some_of_what_is_missing_only(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_MISSING", 2)
    answer = ask(client)
    assert (len(answer["missing"]), answer["missingCount"]) == (2, 1 + len(PACKS))


def test_what_was_uploaded_long_ago_is_to_be_sent_again(client: Client, world: World) -> None:
    complete(client, world)
    world.clock.tick(13.9 * DAY)
    assert ask(client)["state"] == "Complete"
    world.clock.tick(0.2 * DAY)
    assert ask(client)["state"] == "Complete", "it lives for half a month more: noted anew"
    world.clock.tick(2 * DAY)
    assert client.get(f"/v1/uploads/{ID}").json["state"] == "Complete"
    world.clock.tick(14 * DAY)
    assert ask(client)["missingCount"] == 1 + len(PACKS)


def test_an_empty_directory_is_an_upload(client: Client, world: World) -> None:
    tree, packs = packed({})
    world.uploads.put(tree.document())
    assert ask(client, upload_spec(tree, packs))["state"] == "Complete"


# -- looking -------------------------------------------------------------------------------------
def test_an_uploads_state_is_shown_without_urls(client: Client, world: World) -> None:
    world.uploads.put(TREE.document())
    found = client.get(f"/v1/uploads/{ID}").json
    assert (found["state"], found["missing"]) == ("Incomplete", [])
    assert found["missingCount"] == len(PACKS)
    send_all(world)
    ask(client)
    assert client.get(f"/v1/uploads/{ID}").json["state"] == "Complete"


@pytest.mark.parametrize("name", [ID, "x", "A" * 64])
def test_an_upload_of_which_nothing_is_there_is_not_found(client: Client, name: str) -> None:
    is_a_problem(client.get(f"/v1/uploads/{name}"), 404, "not-found")


# -- bad input -----------------------------------------------------------------------------------
def pack(sha256: str = "a" * 64, size: int = 1) -> dict[str, Any]:
    return {"sha256": sha256, "bytes": size}


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "tree", "is required"),
        ({"tree": pack("A" * 64)}, "tree.sha256", "64 digits and letters a to f"),
        ({"tree": pack(size=0)}, "tree.bytes", "greater than or equal to 1"),
        ({"tree": pack(size=65 * 1024 * 1024)}, "tree.bytes", "less than or equal to 67108864"),
        ({"tree": pack(), "packs": [pack()]}, "packs", "is given twice"),
        (
            {"tree": pack(), "packs": [pack("b" * 64), pack("b" * 64)]},
            "packs",
            "is given twice; name each pack once",
        ),
        (
            {
                "tree": pack(),
                "packs": [pack(f"{n:064x}", 64 * 1024 * 1024) for n in range(801)],
            },
            "packs",
            f"an upload has at most {UPLOAD_BYTES}",
        ),
        ({"tree": pack(), "packs": [pack(f"{n:064x}") for n in range(2001)]}, "packs", "2000"),
        ({"tree": pack(), "files": []}, "files", "is not a known field"),
    ],
)
def test_what_cannot_be_an_upload_is_refused_by_the_fields_name(
    client: Client, body: dict[str, Any], field: str, words: str
) -> None:
    answer = client.post("/v1/uploads", body)
    is_a_problem(answer, 400, "invalid-request")
    assert words in answer.fields[field]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"no json", "is not a tree"),
        (b'{"files": [{"path": "/etc/passwd", "bytes": 0, "sha256": ""}]}', "files.0.path"),
        (packed({"a": b""}, links={"l": "../x"})[0].document(), "the link 'l' leads to '../x'"),
    ],
)
def test_a_tree_that_is_none_is_refused_when_it_is_there(
    client: Client, world: World, document: bytes, words: str
) -> None:
    sent = world.uploads.put(document)
    answer = client.post("/v1/uploads", {"tree": pack(sent, len(document))})
    is_a_problem(answer, 400, "invalid-request")
    assert words in answer.fields["tree"]


def test_a_tree_whose_packs_were_not_named_is_refused(client: Client, world: World) -> None:
    send_all(world)
    answer = client.post("/v1/uploads", SPEC | {"packs": SPEC["packs"][1:]})
    is_a_problem(answer, 400, "invalid-request")
    assert SPEC["packs"][0]["sha256"] in answer.fields["packs"]


# -- runs ----------------------------------------------------------------------------------------
def test_a_run_shows_the_code_that_it_was_submitted_with(client: Client, world: World) -> None:
    complete(client, world)
    answer = submit(client)
    assert answer.status == 202, answer.text
    assert answer.json["code"] == CODE
    assert client.get(answer.headers["Location"]).json["code"]["tree"] == ID


def test_a_run_without_an_upload_has_no_code(client: Client) -> None:
    assert client.post("/v1/runs", changed("name", "plain")).json["code"] is None


def test_a_dry_run_before_the_upload_plans_the_rest_and_warns(client: Client) -> None:
    script = {"nodes": 2, "recipe": "command", "script": "train.py", "workdir": ID}
    answer = client.post("/v1/runs", changed("job", script), query={"dryrun": "true"})
    assert answer.status == 200, answer.text
    assert answer.json["request"]
    warnings = answer.json["warnings"]
    assert any("job.workdir: it is not complete; upload the directory" in one for one in warnings)
    assert any("not one of Trainyard's trainers" in one for one in warnings)


def test_a_run_whose_upload_is_not_complete_is_refused_with_what_to_do(
    client: Client, world: World
) -> None:
    script = {"nodes": 2, "recipe": "command", "script": "train.py", "workdir": ID}
    for state in ("nothing", "incomplete", "expired"):
        if state == "incomplete":
            world.uploads.put(TREE.document())
            ask(client)
        if state == "expired":
            complete(client, world)
            world.clock.tick(15 * DAY)
        answer = client.post("/v1/runs", changed("job", script))
        is_a_problem(answer, 422, "upload-incomplete")
        assert "upload the directory again" in answer.fields["job.workdir"]
        assert "POST /v1/uploads" in answer.json["nextStep"]


def test_a_script_that_is_nowhere_is_refused_before_anything_is_made(
    client: Client, world: World
) -> None:
    complete(client, world)
    answer = submit(client, script="trian.py")
    is_a_problem(answer, 400, "invalid-request")
    assert "'trian.py' is neither in job.workdir nor in job.files" in answer.fields["job.script"]
    assert submit(client, script="mine.py", files={"mine.py": "print()"}).status == 202


def test_a_repeated_request_is_answered_though_its_upload_has_expired(
    client: Client, world: World
) -> None:
    complete(client, world)
    body = changed("job", {"nodes": 2, "module": "a.b", "workdir": ID})
    headers = {"Idempotency-Key": "k"}
    first = client.post("/v1/runs", body, headers=headers)
    world.clock.tick(15 * DAY)
    assert client.post("/v1/runs", body, headers=headers).json["id"] == first.json["id"]
    assert client.post("/v1/runs", body).status == 422


def test_what_a_run_keeps_can_be_run_again_though_the_upload_has_expired(
    client: Client, world: World
) -> None:
    prefix = "clusters/c/runs/r/code"
    kept = b'{"prefix": "clusters/c/runs/r/code", "files": 2, "bytes": 2508}'
    world.blobs.put(places.kept_code_key(ID), kept)
    world.blobs.put(f"{prefix}/{ID}", TREE.document())
    assert submit(client).json["code"] == CODE
    assert submit(client, script="trian.py").status == 400


def test_a_hash_is_that_of_the_document() -> None:
    assert sha(TREE.document()) == ID


# -- data that runs read -------------------------------------------------------------------------
def reads(client: Client, *inputs: dict[str, str], **query: str) -> Answer:
    return client.post("/v1/runs", changed("inputs", list(inputs)), query=query)


def test_data_are_found_by_the_name_that_they_were_uploaded_under(
    client: Client, world: World
) -> None:
    assert ask(client, SPEC | {"name": "corpus"})["state"] == "Incomplete"
    refused = reads(client, {"source": "corpus", "path": "data"})
    is_a_problem(refused, 400, "invalid-request")
    words = "trainyard data upload DIRECTORY corpus"
    assert words in refused.fields["inputs.0.source"]
    send_all(world)
    assert ask(client, SPEC | {"name": "corpus"})["state"] == "Complete"
    answer = reads(client, {"source": "corpus", "path": "data"})
    assert answer.status == 202, answer.text
    assert world.runs.get(answer.json["id"]).data["corpus"].tree == ID


def test_a_name_goes_on_to_the_newer_upload_and_a_run_keeps_what_it_was_at_its_submission(
    client: Client, world: World
) -> None:
    send_all(world)
    ask(client, SPEC | {"name": "corpus"})
    first = reads(client, {"source": "corpus", "path": "data"}).json["id"]
    tree, packs = packed({"other.bin": b"z"})
    for body in (tree.document(), *packs.values()):
        world.uploads.put(body)
    newer = upload_spec(tree, packs)
    ask(client, newer | {"name": "corpus"})
    second = reads(client, {"source": "corpus", "path": "data"}).json["id"]
    assert world.runs.get(first).data["corpus"].tree == ID
    assert world.runs.get(second).data["corpus"].tree == newer["tree"]["sha256"]


def test_data_that_have_expired_are_to_be_uploaded_again(client: Client, world: World) -> None:
    send_all(world)
    ask(client, SPEC | {"name": "corpus"})
    world.clock.tick(31 * DAY)
    refused = reads(client, {"source": "corpus", "path": "data"})
    assert "it has expired; bring them up again" in refused.fields["inputs.0.source"]


@pytest.mark.parametrize("query", [{}, {"dryrun": "true"}])
def test_objects_that_are_not_there_are_refused_before_there_is_a_run(
    client: Client, world: World, query: dict[str, str]
) -> None:
    world.sources.known["s3://sagemaker-x/v1/"] = "empty"
    world.sources.known["s3://sagemaker-y/"] = "no-bucket"
    spec = changed("inputs", [])
    spec["cluster"]["spec"]["jobInputs"] = ["s3://sagemaker-x", "s3://sagemaker-y"]
    for source, words in {
        "s3://sagemaker-x/v1": "no object below s3://sagemaker-x/v1/",
        "s3://sagemaker-y": "no bucket 'sagemaker-y'",
        "s3://sagemaker-z/v1": "name it in jobInputs of the cluster's spec",
    }.items():
        spec["inputs"] = [{"source": source, "path": "data"}]
        refused = client.post("/v1/runs", spec, query=query)
        is_a_problem(refused, 400, "invalid-request")
        assert words in refused.text
        assert "inputs.0.source" in refused.text
    spec["inputs"] = [{"source": "s3://sagemaker-x/v2", "path": "data"}]
    assert client.post("/v1/runs", spec, query=query).status in (200, 202)
