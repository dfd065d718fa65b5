"""A script of SageMaker's script mode goes on by its own checkpoint, to the same weights."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.support import job_ranks
from tests.support.job_examples import PROGRAMS
from tests.support.repository import ROOT
from tests.support.waiting import eventually

from trainyard_contracts.specs import RunSpec
from trainyard_sdk.spec_files import read_spec

NAME = "script_mode.py"
EPOCHS = 6


def hosts(tmp_path: Path, run: str, seconds: float = 0.0) -> list[subprocess.Popen[str]]:
    """One process on each of two hosts, with SageMaker's variables and no launcher's."""
    where, data = tmp_path / run, tmp_path / "data"
    data.mkdir(exist_ok=True)
    rows = [f"{row / 10},{row % 3},{row / 5 - row % 3}" for row in range(16)]
    (data / "points.csv").write_text("\n".join(rows))
    (where / "model").mkdir(parents=True, exist_ok=True)
    names, meet = ["algo-1", "algo-2"], job_ranks.rendezvous()
    given = [
        "--epochs", str(EPOCHS), "--epoch-seconds", str(seconds),
        "--checkpoint-path", str(where / "checkpoints"),
    ]  # fmt: skip
    return [
        subprocess.Popen(
            [sys.executable, str(PROGRAMS / NAME), *given],
            env={
                **{
                    name: value
                    for name, value in job_ranks.environment(where, 0, 1).items()
                    if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")
                },
                **meet,
                "SM_HOSTS": json.dumps(names),
                "SM_CURRENT_HOST": name,
                "SM_MODEL_DIR": str(where / "model"),
                "SM_CHANNEL_TRAIN": str(data),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]


def model(tmp_path: Path, run: str) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(tmp_path / run / "model/model.pt")
    return found


@pytest.mark.real
def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    whole = job_ranks.ends(hosts(tmp_path, "whole"))
    assert [one.code for one in whole] == [0, 0], whole
    broken = hosts(tmp_path, "broken", 0.3)
    second = tmp_path / "broken/checkpoints/epoch-000002.pt"
    eventually("the second checkpoint", second.exists)
    broken[1].kill()
    assert job_ranks.ends(broken)[0].code != 0
    assert not (tmp_path / "broken/model/model.pt").exists()
    resumed = job_ranks.ends(hosts(tmp_path, "broken"))
    assert [one.code for one in resumed] == [0, 0], resumed
    assert "goes on after epoch" in resumed[0].out
    expected, found = model(tmp_path, "whole"), model(tmp_path, "broken")
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_the_examples_spec_has_the_script_as_it_is() -> None:
    run = RunSpec.model_validate(read_spec(str(ROOT / "examples/script-mode.yaml")))
    assert run.job.files == {NAME: (PROGRAMS / NAME).read_text()}
    assert "trainyard" not in run.job.files[NAME].partition('"""')[2].partition('"""')[2]
