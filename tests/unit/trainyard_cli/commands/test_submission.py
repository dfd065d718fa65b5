"""A spec with a directory: it goes up first, and a dry run says what would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_api import RUN, FakeApi, a_run, serve_a_whole_run
from tests.support.fake_bucket import FakeBucket

pytestmark = pytest.mark.real
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def runs(api: FakeApi) -> None:
    api.answers |= {"POST /v1/runs": (202, a_run("Pending"))}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "train.py").write_text("print()\n")
    (root / "spec.yaml").write_text(
        "name: mine\ncluster: {name: shared}\njob: {nodes: 1, workdir: ., script: train.py}\n"
    )
    return root


def submitted(api: FakeApi) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(api.calls("POST /v1/runs")[-1]["body"])
    return found


def test_the_directory_goes_up_and_its_id_is_submitted(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path
) -> None:
    code, out, err = trainyard("run", "submit", str(project / "spec.yaml"))
    assert (code, out) == (0, f"{RUN}\n")
    assert f"Uploaded {project}: 2 files, " in err
    assert "2 new parts sent" in err
    workdir = submitted(api)["job"]["workdir"]
    tree = json.loads(bucket.objects[f"uploads/{workdir}"])
    assert [file["path"] for file in tree["files"]] == ["spec.yaml", "train.py"]
    puts = len(bucket.puts)
    trainyard("run", "submit", str(project / "spec.yaml"))
    assert len(bucket.puts) == puts


def test_a_spec_that_is_refused_is_refused_before_its_directory_goes_up(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path
) -> None:
    refusal = {"title": "Bad", "detail": "job.nodes: must be 1", "code": "invalid-request"}
    api.answers["POST /v1/runs"] = (422, refusal)
    code, _, err = trainyard("run", "submit", str(project / "spec.yaml"))
    assert (code, bucket.puts, "must be 1" in err) == (6, [], True), err
    assert [call["query"] for call in api.calls("POST /v1/runs")] == [{"dryrun": "true"}]


def test_a_script_outside_of_the_directory_is_said_to_be_that(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path
) -> None:
    (project.parent / "other.py").write_text("")
    code, _, err = trainyard(
        "run", "submit", str(project / "spec.yaml"), "--set", "job.script=../other.py"
    )
    assert (code, "lies outside of the directory" in err) == (6, True), err


def test_json_stays_clean(api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path) -> None:
    code, out, err = trainyard("--json", "run", "submit", str(project / "spec.yaml"))
    assert (code, err, json.loads(out)["id"]) == (0, "", RUN)


def test_a_dry_run_sends_nothing_and_says_what_it_would(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path
) -> None:
    api.answers["POST /v1/runs"] = (200, {"operation": "CreateCluster", "request": {}})
    code, _, err = trainyard("run", "submit", str(project / "spec.yaml"), "--dryrun")
    assert (code, bucket.puts, api.calls("POST /v1/uploads")) == (0, [], [])
    assert f"Would upload {project}: 2 files" in err
    assert "Largest: spec.yaml " in err
    code, out, _ = trainyard("--json", "run", "submit", str(project / "spec.yaml"), "--dryrun")
    assert (code, json.loads(out)["upload"]["files"]) == (0, 2)
    api.answers["POST /v1/runs"] = (409, {"code": "upload-incomplete", "title": "Not there"})
    code, out, _ = trainyard("run", "submit", str(project / "spec.yaml"), "--dryrun")
    assert (code, "once the directory is uploaded" in out) == (0, True)


def test_a_dry_run_of_a_new_directory_shows_price_and_script_and_does_not_call_it_broken(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path
) -> None:
    warnings = ["job.workdir: it is not complete; upload the directory again.", "job: beware"]
    plan = {"hourlyUsd": 1.5, "batchScript": "#!/bin/bash", "warnings": warnings}
    api.answers["POST /v1/runs"] = (200, plan)
    _, out, err = trainyard("run", "submit", str(project / "spec.yaml"), "--dryrun")
    assert "1.50 USD an hour" in out
    assert "#!/bin/bash" in out
    assert "job: beware" in out
    assert "not complete" not in out + err


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("snapshot*.pt", "snapshot.pt fits"),
        ("[x, 'out/checkpoint-*']", "out/checkpoint-5 fits"),
        ("'**/checkpoint-*'", "out/checkpoint-5 fits"),
        ("last.ckpt", ""),
    ],
)
def test_an_old_checkpoint_that_goes_along_is_told_because_the_run_begins_with_it(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path, pattern: str, named: str
) -> None:
    (project / "snapshot.pt").write_text("old")
    (project / "out/checkpoint-5").mkdir(parents=True)
    (project / "out/checkpoint-5/model.bin").write_text("old")
    change = f"checkpoint.watch={{pattern: {pattern}}}"
    code, _, err = trainyard("run", "submit", str(project / "spec.yaml"), "--set", change)
    assert (code, "begins with it" in err) == (0, bool(named))
    assert named in err
    (project / ".trainyardignore").write_text("*.pt\ncheckpoint-*\n")
    _, _, err = trainyard("run", "submit", str(project / "spec.yaml"), "--set", change)
    assert "begins with it" not in err


def test_warnings_are_told_once_though_the_run_is_watched(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path
) -> None:
    serve_a_whole_run(api, "Succeeded")
    api.answers["POST /v1/runs"] = (202, a_run("Pending", warnings=["job: beware"]))
    _, out, err = trainyard("run", "submit", str(project / "spec.yaml"), "--watch")
    assert "beware" not in out + err, "the timeline has it"
    _, out, err = trainyard("run", "submit", str(project / "spec.yaml"))
    assert err.count("job: beware") == 1


def test_changes_on_the_command_line_are_sent(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/train.py").write_text("other")
    code, _, _ = trainyard(
        "run", "submit", str(project / "spec.yaml"), "--set", "job.nodes=4", "--env", "SEED=7",
        "--name", "n", "--set", f"job.workdir={tmp_path / 'other'}", "--", "--lr", "1", "--json",
    )  # fmt: skip
    sent = submitted(api)
    assert (code, sent["name"], sent["job"]["nodes"]) == (0, "n", 4)
    assert sent["job"]["environment"] == {"SEED": "7"}
    assert sent["job"]["arguments"] == ["--lr", "1", "--json"]
    tree = json.loads(bucket.objects[f"uploads/{sent['job']['workdir']}"])
    assert [file["path"] for file in tree["files"]] == ["train.py"]


def test_an_argument_too_many_is_no_argument_of_the_program(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path
) -> None:
    code, _, err = trainyard("run", "submit", str(project / "spec.yaml"), "other.yaml")
    assert (code, "stand behind --" in err, api.requests) == (2, True, [])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("job.workdir=/nowhere", "job.workdir: '/nowhere' is not a directory"),
        ("job.script=trian.py", "Did you mean 'train.py'?"),
        ("job.script=left.py", "'left.py' is left out by .gitignore or .trainyardignore"),
        ("job.script=to/deep.py", "Write 'sub/deep.py'"),
        ("job.node=3", "Did you mean job.nodes?"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_sent(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path, change: str, words: str
) -> None:
    (project / "left.py").write_text("")
    (project / "sub").mkdir()
    (project / "sub/deep.py").write_text("")
    (project / "to").symlink_to("sub")
    (project / ".gitignore").write_text("left.py\n")
    code, _, err = trainyard("run", "submit", str(project / "spec.yaml"), "--set", change)
    assert (code, words in err.replace("\n", " "), api.requests) == (6, True, [])


def test_a_file_that_changes_during_the_upload_goes_up_as_it_is_then(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path
) -> None:
    answer, changes = api.answers["POST /v1/uploads"], ["changed\n"]

    def changing(query: Any) -> Any:
        if changes:
            (project / "train.py").write_text(changes.pop())
        return answer(query)

    api.answers["POST /v1/uploads"] = changing
    code, _, err = trainyard("run", "submit", str(project / "spec.yaml"))
    assert code == 0, err
    assert b"changed\n" in b"".join(bucket.objects.values())


def test_a_file_that_changes_all_the_time_is_refused_by_name(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path
) -> None:
    answer, count = api.answers["POST /v1/uploads"], iter(range(100))

    def changing(query: Any) -> Any:
        (project / "train.py").write_text(f"{next(count)}" * 9)
        return answer(query)

    api.answers["POST /v1/uploads"] = changing
    code, _, err = trainyard("run", "submit", str(project / "spec.yaml"))
    assert (code, "'train.py' changed in each of 3 tries" in err) == (6, True)
    assert [call["query"] for call in api.calls("POST /v1/runs")] == [{"dryrun": "true"}]


def test_a_run_is_submitted_anew_with_changes_that_are_shown(
    api: FakeApi, bucket: FakeBucket, trainyard: Call
) -> None:
    spec = {"name": "old", "cluster": {"name": "c"}, "job": {"nodes": 2, "workdir": "a" * 64}}
    api.answers[f"GET /v1/runs/{RUN}"] = (200, a_run(spec=spec))
    code, out, err = trainyard("run", "rerun", RUN, "--set", "job.nodes=4", "--", "x")
    assert (code, out) == (0, f"{RUN}\n")
    assert "job.nodes: 2 -> 4\n" in err
    assert 'job.arguments: - -> ["x"]\n' in err
    assert submitted(api)["job"] == {"nodes": 4, "workdir": "a" * 64, "arguments": ["x"]}
    _, _, err = trainyard("run", "rerun", RUN)
    assert "The spec is the same." in err
    assert "Its files are those of that run; --set job.workdir=. uploads" in err
    assert bucket.puts == []


def test_code_from_two_places_is_refused_before_anything_goes_up(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path
) -> None:
    git = "job.git={url: 'https://h/a.git'}"
    code, _, err = trainyard("run", "submit", str(project / "spec.yaml"), "--set", git)
    assert (code, "job.git and job.workdir are both given" in err) == (6, True)
    assert bucket.puts == []


def test_a_rerun_has_the_same_commit_and_begins_with_a_checkpoint_where_that_is_asked_for(
    api: FakeApi, trainyard: Call
) -> None:
    git = {"url": "https://h/a.git", "ref": "main"}
    spec = {"name": "old", "cluster": {"name": "c"}, "job": {"nodes": 2, "git": git}}
    code = {"commit": "c0ffee" + "0" * 34, "url": git["url"], "ref": "main"}
    api.answers[f"GET /v1/runs/{RUN}"] = (200, a_run(spec=spec, code=code))
    _, _, err = trainyard("run", "rerun", RUN, "--from-checkpoint", "30")
    assert f"job.git.ref: main -> {code['commit']}\n" in err
    assert f'checkpoint: - -> {{"startFrom": {{"run": "{RUN}"'[:57] in err
    assert submitted(api)["job"]["git"]["ref"] == code["commit"]
    assert submitted(api)["checkpoint"] == {"startFrom": {"run": RUN, "step": 30}}


def test_a_directory_with_a_first_spec_runs(
    api: FakeApi,
    bucket: FakeBucket,
    trainyard: Call,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(project)
    code, out, err = trainyard("init")
    assert (code, out) == (0, "trainyard.yaml\n")
    assert "Next: trainyard run submit trainyard.yaml --watch" in err
    code, _, err = trainyard("init")
    assert (code, "is there already" in err) == (4, True)
    code, _, err = trainyard("run", "submit", "trainyard.yaml")
    assert code == 0, err
    assert submitted(api)["job"]["script"] == "train.py"


def test_a_first_spec_on_a_cluster_that_exists_says_so(
    api: FakeApi, trainyard: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [{"name": "w", "role": "worker", "count": 2}]
    there = {"name": "mine", "status": "Ready", "spec": {"instanceGroups": groups}}
    api.answers["GET /v1/clusters"] = (200, {"clusters": [there]})
    (project / "train.py").write_text("torch.save(state, 'snapshot.pt')\n")
    monkeypatch.chdir(project)
    _, _, err = trainyard("init")
    assert "It uses cluster 'mine', which exists; " in err
    assert "It seems to save snapshot.pt: see checkpoint.watch in trainyard.yaml." in err
    assert "# It is there already." in (project / "trainyard.yaml").read_text()


@pytest.mark.parametrize("dryrun", [[], ["--dryrun"]])
def test_an_image_is_refused_by_the_local_cloud_before_anything_goes_up(
    api: FakeApi, bucket: FakeBucket, trainyard: Call, project: Path, dryrun: list[str]
) -> None:
    spec = str(project / "spec.yaml")
    code, _, err = trainyard("run", "submit", spec, *dryrun, "--set", "job.image=python:3.12")
    assert (code, "The local cloud runs no containers" in err) == (6, True), err
    assert "--set job.image=null" in err
    assert api.calls("POST /v1/uploads") == api.calls("POST /v1/runs") == []
