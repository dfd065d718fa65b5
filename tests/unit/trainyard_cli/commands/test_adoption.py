"""The commands that adopt and release a cluster of others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.fake_api import CLUSTER, FakeApi

pytestmark = pytest.mark.real
Trainyard = Callable[..., tuple[int, str, str]]
NODE = {
    "group": "gpu",
    "state": "installed",
    "at": "2026-11-20T00:00:00Z",
    "tries": 0,
    "reason": "",
}
ADOPTED = {
    **CLUSTER,
    "name": "theirs",
    "adoption": {"replaceNodes": False, "nodes": {"i-1": NODE}, "lacking": 0, "left": []},
}


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainyard_cli.commands.cluster_waiting.POLL_SECONDS", 0.01)


def test_what_aws_does_not_say_is_given_as_options(api: FakeApi, trainyard: Trainyard) -> None:
    api.answers["POST /v1/clusters:adopt"] = (202, {**ADOPTED, "status": "Pending"})
    code, _, err = trainyard(
        "cluster", "adopt", "theirs", "--shared-dir", "/shared", "--controller-group", "head",
        "--partition", "gpu=batch", "--replace-nodes",
    )  # fmt: skip
    assert (code, "cluster show theirs" in err) == (0, True)
    [call] = api.calls("POST /v1/clusters:adopt")
    assert json.loads(call["body"]) == {
        "name": "theirs",
        "sharedDir": "/shared",
        "controllerGroup": "head",
        "partitions": {"gpu": "batch"},
        "allow": {"replaceNodes": True},
    }


def test_a_file_says_more_and_an_arn_is_known_as_one(
    api: FakeApi, trainyard: Trainyard, tmp_path: Path
) -> None:
    api.answers["POST /v1/clusters:adopt"] = (202, ADOPTED)
    file = tmp_path / "adopt.yaml"
    file.write_text("jobSecrets: [trainyard-jobs/hf]\n")
    arn = "arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefghijkl"
    assert trainyard("cluster", "adopt", arn, "--file", str(file))[0] == 0
    [call] = api.calls("POST /v1/clusters:adopt")
    assert json.loads(call["body"]) == {"arn": arn, "jobSecrets": ["trainyard-jobs/hf"]}


def test_a_dry_run_prints_the_policy_and_whose_it_is(api: FakeApi, trainyard: Trainyard) -> None:
    plan = {
        "spec": {"name": "theirs", "sharedFilesystem": {"mountPath": "/fsx"}},
        "roles": ["arn:aws:iam::123456789012:role/Theirs"],
        "policy": {"Version": "2012-10-17", "Statement": [{"Sid": "ReadBundles"}]},
    }
    api.answers["POST /v1/clusters:adopt"] = (200, plan)
    code, out, _ = trainyard("cluster", "adopt", "theirs", "--dryrun")
    assert code == 0
    assert "role/Theirs" in out
    assert '"Sid": "ReadBundles"' in out


def test_waiting_ends_with_a_failure_where_the_adoption_is_given_up(
    api: FakeApi, trainyard: Trainyard
) -> None:
    problem = {"code": "adoption-failed", "title": "t", "detail": "no right", "nextStep": "grant"}
    api.answers |= {
        "POST /v1/clusters:adopt": (202, {**ADOPTED, "status": "Pending"}),
        "GET /v1/clusters/theirs": (200, {**ADOPTED, "status": "Released", "problem": problem}),
    }
    code, out, _ = trainyard("cluster", "adopt", "theirs", "--wait")
    assert (code, "no right" in out, "grant" in out) == (1, True, True)


def test_a_release_is_waited_for_and_says_what_stays(api: FakeApi, trainyard: Trainyard) -> None:
    left = {**ADOPTED["adoption"], "nodes": {}, "left": ["ip-10-0-0-1: a file stays"]}
    api.answers |= {
        "POST /v1/clusters/theirs:release": (202, {**ADOPTED, "status": "Releasing"}),
        "GET /v1/clusters/theirs": (200, {**ADOPTED, "status": "Released", "adoption": left}),
    }
    code, out, _ = trainyard("cluster", "release", "theirs", "--yes", "--wait", "--force")
    assert (code, "a file stays" in out) == (0, True)


def test_a_release_without_waiting_says_how_to_follow_it(
    api: FakeApi, trainyard: Trainyard
) -> None:
    api.answers["POST /v1/clusters/theirs:release"] = (202, {**ADOPTED, "status": "Ready"})
    code, out, err = trainyard("cluster", "release", "theirs", "--yes")
    assert (code, "Releasing theirs" in out, "cluster show theirs" in err) == (0, True, True)


def test_a_pair_that_is_none_is_wrong_usage(api: FakeApi, trainyard: Trainyard) -> None:
    assert trainyard("cluster", "adopt", "theirs", "--partition", "gpu")[0] == 2
