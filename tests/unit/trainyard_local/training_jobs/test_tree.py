"""/opt/ml is laid out anew for each job, but for the cache of a warm pool."""

from __future__ import annotations

import json
from pathlib import Path

from trainyard_local.training_jobs import tree


def test_only_the_cache_of_a_warm_pool_outlives_a_job(tmp_path: Path) -> None:
    tree.fresh(tmp_path)
    (tmp_path / "model" / "old").touch()
    (tmp_path / tree.CACHE / "kept").touch()
    (tmp_path / "a-file-of-the-program's").touch()
    (tmp_path / "a-link").symlink_to(tmp_path / "nowhere")
    tree.fresh(tmp_path)
    assert not (tmp_path / "model" / "old").exists()
    assert not {"a-file-of-the-program's", "a-link"} & {each.name for each in tmp_path.iterdir()}
    assert (tmp_path / tree.CACHE / "kept").exists()
    assert (tmp_path / "input" / "config").is_dir()


def test_hosts_are_in_the_order_of_their_letters() -> None:
    hosts = [f"algo-{number}" for number in range(1, 11)]
    found = tree.resources("ml.c5.xlarge", "algo-10", hosts)
    assert found["hosts"][:3] == ["algo-1", "algo-10", "algo-2"]
    assert found["current_host"] == "algo-10"


def test_the_programs_files_say_what_the_request_said(tmp_path: Path) -> None:
    tree.fresh(tmp_path)
    source = {"S3DataSource": {"S3Uri": "s3://b/k", "S3DataType": "S3Prefix"}}
    request = {
        "HyperParameters": {"lr": "0.1"},
        "ResourceConfig": {"InstanceType": "ml.c5.xlarge"},
        "InputDataConfig": [
            {"ChannelName": "train", "DataSource": source, "ContentType": "text/csv"}
        ],
    }
    tree.configure(tmp_path, request, "algo-1", ["algo-1"])
    config = tmp_path / "input" / "config"
    assert json.loads((config / "hyperparameters.json").read_text()) == {"lr": "0.1"}
    assert json.loads((config / "inputdataconfig.json").read_text()) == {
        "train": {
            "TrainingInputMode": "File",
            "RecordWrapperType": "None",
            "S3DistributionType": "FullyReplicated",
            "ContentType": "text/csv",
        }
    }


def test_a_path_of_the_container_is_one_on_this_machine(tmp_path: Path) -> None:
    assert tree.path_of(tmp_path, "/opt/ml/checkpoints/") == tmp_path / "checkpoints"
