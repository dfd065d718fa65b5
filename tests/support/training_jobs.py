"""Intents of training jobs, as the recorded requests of AWS's SDK were made from."""

from __future__ import annotations

import json
from typing import Any

from tests.support.repository import ROOT

from trainyard.backends.training_job.intent import Intent, Program
from trainyard_contracts.base import read_stored
from trainyard_contracts.training_job import TrainingJobClusterSpec

RECORDED = ROOT / "tests/data/training_jobs"
PYTORCH = {"name": "pytorch", "version": "2.1.0", "pythonVersion": "py310"}
TRAIN = {"name": "train", "s3": {"uri": "s3://sm-bucket/data/train"}}
PROGRAM = Program("train.py", "s3://sm-bucket/job/source/sourcedir.tar.gz")
HYPERPARAMETERS = {"epochs": 3, "lr": 0.1, "model": "resnet"}


def spec_fields(**fields: Any) -> dict[str, Any]:
    """A spec as JSON: two ml.p4d.24xlarge with PyTorch, unless `fields` say more.

    A field that is None is left out.
    """
    usual: dict[str, Any] = {
        "backend": "training-job",
        "name": "demo",
        "instanceType": "ml.p4d.24xlarge",
        "instanceCount": 2,
        "framework": PYTORCH,
        "channels": [TRAIN],
    }
    return {name: value for name, value in {**usual, **fields}.items() if value is not None}


def spec(**fields: Any) -> TrainingJobClusterSpec:
    return TrainingJobClusterSpec.model_validate(spec_fields(**fields))


def stored_spec(**fields: Any) -> TrainingJobClusterSpec:
    """One that was accepted once, so that no rule judges it again."""
    return read_stored(TrainingJobClusterSpec, json.dumps(spec_fields(**fields)))


def intent(of: TrainingJobClusterSpec | None = None, **changes: Any) -> Intent:
    usual: dict[str, Any] = {
        "spec": of or spec(),
        "program": PROGRAM,
        "job_name": "demo-job",
        "region": "us-east-1",
        "role_arn": "arn:aws:iam::123456789012:role/SMRole",
        "output_uri": "s3://sm-bucket/",
        "hyperparameters": HYPERPARAMETERS,
    }
    return Intent(**{**usual, **changes})


def recorded(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return content
