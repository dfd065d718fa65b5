"""The commands that break training jobs of the local cloud."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.support.fake_api import FakeApi

Command = Callable[..., tuple[int, str, str]]


@pytest.mark.real
@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (["kill-host", "job-1", "--host", "algo-2"], {"job": "job-1", "host": "algo-2"}),
        (["kill-host-process", "job-1"], {"job": "job-1"}),
        (["interrupt-spot", "job-1"], {"job": "job-1"}),
        (["internal-error", "job-1"], {"job": "job-1"}),
        (
            ["no-capacity", "ml.c5.xlarge", "--seconds", "5"],
            {"instanceType": "ml.c5.xlarge", "seconds": 5.0},
        ),
        (["restore-capacity", "ml.c5.xlarge"], {"instanceType": "ml.c5.xlarge"}),
    ],
)
def test_a_fault_of_a_training_job_goes_to_the_local_cloud(
    words: list[str], sent: dict[str, object], api: FakeApi, trainyard: Command
) -> None:
    api.answers["POST /_trainyard/fault"] = (200, {"kind": words[0], "job": "job-1"})
    code, out, _ = trainyard("fault", *words)
    assert (code, out.strip()) == (0, f"{words[0]}: job job-1")
    assert json.loads(api.requests[-1]["body"]) == {"kind": words[0], **sent}


@pytest.mark.real
def test_a_job_that_is_not_there_ends_the_command_with_what_is(
    api: FakeApi, trainyard: Command
) -> None:
    words = "job: 'x' is no training job that runs; there is: none"
    api.answers["POST /_trainyard/fault"] = (404, {"code": "not-found", "message": words})
    code, _, err = trainyard("fault", "kill-host", "x")
    assert code != 0
    assert "there is: none" in err
