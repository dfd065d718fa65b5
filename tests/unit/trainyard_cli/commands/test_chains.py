"""The command of chains."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.fake_api import RUN, FakeApi, a_run

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]
FILE = """\
runs:
  - name: evaluate
    after: [train]
    cluster: {name: shared}
    job: {nodes: 1, script: t.py, files: {t.py: ""}, arguments: [010]}
    inputs: [{source: "run:train/outputs/final", path: model}]
  - name: train
    cluster: {name: shared}
    job: {nodes: 1, script: t.py, files: {t.py: ""}}
"""


def test_a_chain_is_looked_at_whole_and_then_submitted_in_order(
    api: FakeApi, trainyard: Command, tmp_path: Path
) -> None:
    (tmp_path / "chain.yaml").write_text(FILE)
    api.answers["POST /v1/runs"] = (202, a_run())
    code, out, _ = trainyard("chain", "submit", str(tmp_path / "chain.yaml"))
    assert code == 0
    assert out.split() == [RUN, "train", RUN, "evaluate"]
    sent = [(one["query"].get("dryrun"), json.loads(one["body"])) for one in api.requests]
    assert [(dryrun, spec["name"]) for dryrun, spec in sent] == [
        ("true", "train"), ("true", "evaluate"), (None, "train"), (None, "evaluate")
    ]  # fmt: skip
    assert "after" not in sent[1][1]
    assert sent[3][1]["after"] == [RUN]
    assert sent[3][1]["inputs"] == [{"source": f"run:{RUN}/outputs/final", "path": "model"}]
    assert sent[3][1]["job"]["arguments"] == ["010"]


def test_a_circle_is_refused_before_anything_is_sent(
    api: FakeApi, trainyard: Command, tmp_path: Path
) -> None:
    circle = FILE.replace("  - name: train\n", "  - name: train\n    after: [evaluate]\n")
    (tmp_path / "chain.yaml").write_text(circle)
    code, _, err = trainyard("chain", "submit", str(tmp_path / "chain.yaml"))
    assert code == 6
    assert "wait for each other" in err
    assert api.requests == []
