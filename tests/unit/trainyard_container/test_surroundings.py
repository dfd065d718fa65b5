"""Where a container of a training job finds itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainyard_container.surroundings import Place, Surroundings, Unfit, read

VARIABLES = {
    "TRAINYARD_RUN_ID": "run-1",
    "TRAINYARD_ATTEMPT": "2",
    "TRAINYARD_BUNDLE": "s3://data/runs/1/job.json",
    "TRAINYARD_BUNDLE_SHA256": "ab",
    "TRAINYARD_DATA": "s3://data/directories/c/run-1",
    "TRAINYARD_EVENT_BUS": "facts",
    "TRAINYARD_CLUSTER": "c",
    "TRAINYARD_CLUSTER_ARN": "arn:c",
    "TRAINYARD_KEY_SECRET": "key",
    "AWS_REGION": "eu-west-1",
    "TRAINING_JOB_NAME": "job-1",
}


def surroundings(
    ml: Path, host: str = "algo-2", hosts: tuple[str, ...] = ("algo-1", "algo-2"), **changed: str
) -> Surroundings:
    file = ml / "input/config/resourceconfig.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    document = {"current_host": host, "hosts": list(hosts), "network_interface_name": "eth1"}
    file.write_text(json.dumps(document))
    return read({**VARIABLES, **changed}, ml)


def test_a_container_knows_its_run_its_host_and_where_things_go(tmp_path: Path) -> None:
    found = surroundings(tmp_path)
    assert (found.run_id, found.attempt, found.host, found.is_first) == (
        "run-1",
        2,
        "algo-2",
        False,
    )
    assert found.data == Place("data", "directories/c/run-1/")
    assert found.bundle == Place("data", "runs/1/job.json")
    assert found.attempt_dir == tmp_path / "trainyard/runs/run-1/attempts/2"
    assert found.interface == "eth1"


def test_hosts_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = tuple(f"algo-{number}" for number in range(1, 13))
    found = surroundings(tmp_path, "algo-1", tuple(sorted(names)))
    assert (found.hosts, found.is_first) == (names, True)


def test_each_attempt_has_a_port_of_its_own_below_the_ephemeral_ones(tmp_path: Path) -> None:
    ports = {
        surroundings(tmp_path, TRAINYARD_ATTEMPT=str(number)).courier_port
        for number in range(1, 20)
    }
    assert len(ports) > 15
    assert min(ports) >= 20000
    assert max(ports) < 30000


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("TRAINYARD_RUN_ID", "", "TRAINYARD_RUN_ID is not set"),
        ("TRAINYARD_ATTEMPT", "0", "TRAINYARD_ATTEMPT: '0' is no attempt"),
        ("TRAINYARD_DATA", "/data", "TRAINYARD_DATA: '/data' is no S3 URI; give s3://"),
    ],
)
def test_a_variable_that_does_not_fit_is_named(
    tmp_path: Path, name: str, value: str, words: str
) -> None:
    with pytest.raises(Unfit, match=words):
        surroundings(tmp_path, **{name: value})


def test_a_container_without_sagemakers_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unfit, match=r"resourceconfig.json cannot be read"):
        read(VARIABLES, tmp_path)
    with pytest.raises(Unfit, match="is none of its hosts"):
        surroundings(tmp_path, host="algo-7")
