"""An export that a person asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_api import RUN, FakeApi, a_run, exported

pytestmark = pytest.mark.real


def test_an_export_is_waited_for_and_its_end_is_the_exit_status(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    def ends(*answers: dict[str, Any]) -> tuple[int, str, str]:
        old = exported("Running", id="export-1")
        api.answers[f"POST /v1/runs/{RUN}:export"] = (202, old)
        api.answers[f"GET /v1/runs/{RUN}"] = [(200, found) for found in (old, old, *answers)]
        return trainyard("run", "export", RUN)

    code, out, _ = ends(exported("Running", state="running"), exported("Running"))
    assert (code, "Exported and verified: 3 objects, 2.0 KiB" in out) == (0, True)
    code, out, err = ends(exported("Running", state="failed", reason="the disk is full"))
    assert (code, out, "The export failed: the disk is full" in err, "Next:" in err) == (
        1,
        "",
        True,
        True,
    )
    code, _, _ = ends(
        exported("Running", state="failed", final=True),
        exported("Succeeded", id="export-3", final=True),
    )
    assert code == 0
    code, _, err = ends(exported("Running", leftBehind="2 files of the program's own"))
    assert (code, "not exported: 2 files" in err) == (0, True)
    code, _, err = ends(a_run("Failed"))
    assert (code, "the run is Failed: because" in err) == (1, True)


def test_an_export_can_be_asked_for_without_waiting(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run()),
        f"POST /v1/runs/{RUN}:export": (202, a_run("Running")),
    }
    code, out, _ = trainyard("run", "export", RUN, "--no-wait")
    assert (code, out.startswith("Exporting")) == (0, True)
