"""first-light as a whole: what it shows and what stops it; nothing is left whatever happens."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.first_light import FirstLight, assert_nothing_left, light_spec, stage_of
from tests.support.system import System, eventually

STAGES = [
    "account",
    "price",
    "create",
    "ready",
    "command",
    "train",
    "resume",
    "export",
    "teardown",
    "nothing-left",
]
#: Attempt 1 trains until it is disturbed, the next one to the end.
HELD: dict[str, Any] = {"hold_at": 25, "steps": 40}


def test_a_first_light_shows_every_stage_and_leaves_nothing(system: System, tmp_path: Path) -> None:
    with FirstLight(system, tmp_path, "--yes", spec=light_spec(workers=2, **HELD)) as light:
        code, document = light.ended()
    assert (code, document["verdict"]) == (0, "held"), light.words
    assert [(stage["name"], stage["state"]) for stage in document["stages"]] == [
        (name, "passed") for name in STAGES
    ]
    assert all(stage["proved"] for stage in document["stages"])
    assert document["firstBroken"] is None
    assert document["assumptions"]["A-018"]["verdict"] == "held"
    assert {seen["verdict"] for seen in document["assumptions"].values()} <= {"held", "not-seen"}
    assert "the look itself failed" not in str(document)
    attempts = system.api.run(document["run"])["attempts"]
    first, last = attempts[0], attempts[-1]
    assert first["outcome"] != "succeeded"
    assert last["resumedFrom"] >= 10
    assert [one["outcome"] for one in document["attempts"]] == [one["outcome"] for one in attempts]
    assert system.value(document["run"]) == sum(range(41))
    assert any("objects" in kept for kept in document["kept"])
    assert_nothing_left(system, document)
    for secret in (
        system.local["accountId"],
        system.local["secretAccessKey"],
        system.local["accessKeyId"],
        *first["nodes"],
    ):
        assert secret not in light.output.read_text()


@pytest.mark.long
def test_without_resume_no_node_is_replaced(system: System, tmp_path: Path) -> None:
    with FirstLight(system, tmp_path, "--yes", "--without-resume", spec=light_spec()) as light:
        code, document = light.ended()
    assert code == 0, light.words
    assert [stage["name"] for stage in document["stages"]] == [
        name for name in STAGES if name != "resume"
    ]
    assert len(system.api.run(document["run"])["attempts"]) == 1
    assert_nothing_left(system, document)


def test_nobody_pays_without_having_been_asked(system: System, tmp_path: Path) -> None:
    with FirstLight(system, tmp_path, spec=light_spec()) as light:
        code, document = light.ended()
    assert code == 6
    assert document["verdict"] == "refused"
    assert "--yes: is missing" in light.words
    assert system.api.runs(at_most=100) == [
        run for run in system.api.runs(at_most=100) if run["clusterName"] != document["cluster"]
    ]
    assert_nothing_left(system, document)


def test_what_may_cost_more_than_max_usd_is_refused_before_anything_is_made(
    system: System, tmp_path: Path
) -> None:
    spec = light_spec()
    for group in spec["cluster"]["spec"]["instanceGroups"]:
        group["instanceType"] = (
            "ml.m5.2xlarge"  # of which no test before asked the price, which is remembered
        )
    system.quirk("nodes-cost-a-dollar")
    try:
        with FirstLight(system, tmp_path, "--yes", "--max-usd", "0.5", spec=spec) as light:
            code, document = light.ended()
    finally:
        system.quirk("nodes-cost-a-dollar", on=False)
    assert code == 6
    assert document["price"]["hourlyUsd"] == 2.0
    assert document["price"]["atMostUsd"] > 0.5
    assert "--max-usd: is 0.50" in light.words
    assert document["cluster"] not in [cluster["name"] for cluster in system.api.clusters()]


#: What a program of somebody's may write into its log.
PRINTED = [
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "me@mine.example",
    "ip-10-98-97-96",
    "db.mine.internal",
    "987654321098",
]


@pytest.mark.first_light
def test_a_stage_that_fails_says_why_keeps_the_evidence_and_leaves_nothing(
    system: System, tmp_path: Path
) -> None:
    with FirstLight(
        system, tmp_path, "--yes", spec=light_spec(fail_at=5, echo=" ".join(PRINTED))
    ) as light:
        code, document = light.ended()
    assert (code, document["verdict"]) == (1, "failed"), light.words
    assert "Stage train failed" in document["words"]
    assert "bad batch at step 5" in document["words"]
    assert stage_of(document, "train")["problem"]["nextStep"]
    evidence = document["evidence"]
    assert evidence["describeCluster"]["ClusterStatus"] == "InService"
    assert len(evidence["listClusterNodes"]) == 2
    assert all(evidence["lifecycleLogs"].values())
    assert any("bad batch" in line for line in evidence["jobLog"])
    assert evidence["timeline"]
    assert "from step 0 <access-key-" in "\n".join(evidence["jobLog"])
    assert [secret for secret in PRINTED if secret in light.output.read_text()] == []
    assert_nothing_left(system, document)


def asked_for(system: System, light: FirstLight) -> None:
    name = light.document()["cluster"]
    eventually(
        "the cluster is asked for",
        lambda: name in [cluster["name"] for cluster in system.api.clusters()],
    )


@pytest.mark.first_light
def test_a_signal_while_the_cluster_is_made_takes_it_down_and_no_later_one_stops_that(
    system: System, tmp_path: Path
) -> None:
    with FirstLight(system, tmp_path, "--yes", spec=light_spec()) as light:
        light.in_stage("create")
        asked_for(system, light)
        light.signal(signal.SIGINT)
        light.in_stage("teardown")
        light.signal(signal.SIGTERM)
        code, document = light.ended()
    assert (code, document["verdict"]) == (1, "interrupted"), light.words
    assert "stopped by SIGINT in stage create" in document["words"]
    assert stage_of(document, "create")["state"] == "interrupted"
    assert "which goes on" in light.words
    assert document["nothingLeft"]
    assert_nothing_left(system, document)


#: Where it stands still, so that the kill comes in that stage.
KILLED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "create": ({}, []),
    "ready": ({}, []),
    "command": ({}, []),
    "train": ({"hold_at": 2}, []),
    "resume": (HELD, []),
    "export": (HELD, ["--without-resume"]),
    "teardown": ({"steps": 10}, ["--without-resume"]),
    "nothing-left": ({"steps": 10}, ["--without-resume"]),
}


@pytest.mark.first_light
def test_after_a_kill_in_any_stage_another_one_cleans_up_by_the_file(
    system: System, tmp_path: Path
) -> None:
    def killed(stage: str) -> None:
        options, arguments = KILLED[stage]
        with FirstLight(
            system, tmp_path, "--yes", *arguments, spec=light_spec(**options), name=stage
        ) as light:
            light.in_stage(stage)
            if stage == "create":
                asked_for(system, light)
            light.kill()
            before = light.document()
            assert [one["name"] for one in before["stages"] if one["state"] == "passed"] == [
                one["name"] for one in before["stages"] if one["name"] != stage
            ]
            assert not before["nothingLeft"]
            assert light.clean() == 0, light.words
            document = light.document()
        assert document["verdict"] == (
            "interrupted" if stage != "nothing-left" else document["verdict"]
        )
        assert document["nothingLeft"], light.words
        assert document["stages"][: len(before["stages"]) - 1] == before["stages"][:-1]
        assert_nothing_left(system, document)

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(killed, stage) for stage in KILLED]:
            done.result()


@pytest.mark.long
def test_a_file_whose_cluster_may_be_there_is_not_written_over(
    system: System, tmp_path: Path
) -> None:
    with FirstLight(system, tmp_path, "--yes", spec=light_spec()) as light:
        light.in_stage("create")
        asked_for(system, light)
        light.kill()
        before = light.output.read_text()
        with FirstLight(system, tmp_path, "--yes", spec=light_spec()) as other:
            code, _ = other.ended()
            assert code == 6
            assert "--clean" in other.words
            assert light.output.read_text() == before
        assert light.document()["nothingLeft"], "the test's own end cleaned it up"


@pytest.mark.first_light
def test_a_cluster_that_the_product_cannot_delete_is_deleted_by_sagemaker_itself(
    system: System, tmp_path: Path
) -> None:
    limits = ["--stage-seconds", "train=3", "--stage-seconds", "teardown=3"]
    with FirstLight(system, tmp_path, "--yes", *limits, spec=light_spec(hold_at=2)) as light:
        light.in_stage("train")
        with system.denied("ApiRole", "dynamodb:*"):
            eventually(
                "SageMaker is asked itself",
                lambda: "SageMaker was asked itself" in light.words,
                300,
            )
            eventually(
                "AWS has it no more",
                lambda: light.document()["cluster"] not in system.backend_clusters(),
            )
        code, document = light.ended()
    assert (code, document["verdict"]) == (1, "failed"), light.words
    assert document["nothingLeft"], light.words
    assert_nothing_left(system, document)
