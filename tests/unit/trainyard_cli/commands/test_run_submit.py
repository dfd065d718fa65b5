"""What is said when a run is submitted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.fake_api import RUN, FakeApi, a_run

pytestmark = pytest.mark.real


def test_what_surprises_at_the_end_is_said_at_submission_and_why_a_cluster_stays_is_shown(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").write_text("name: x")
    api.answers["POST /v1/runs"] = (
        202,
        a_run("Pending", warnings=["job: results belong into TRAINYARD_OUTPUT_DIR"]),
    )
    code, out, err = trainyard("run", "submit", str(tmp_path / "run.yaml"))
    assert (code, out.strip(), "warning job: results belong" in err) == (0, RUN, True)
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run("Succeeded", teardownRefused="No result was found.")),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
    }
    assert "No result was found." in trainyard("run", "show", RUN)[1]
