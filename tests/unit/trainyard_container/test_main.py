"""What the container's program says where it cannot begin."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from tests.unit.trainyard_container.test_surroundings import surroundings

from trainyard_container import aws, events, main
from trainyard_container.surroundings import Unfit


class Told:
    """Events, kept."""

    def __init__(self, *_: Any) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []

    def of_attempt(self, kind: str, **fields: Any) -> None:
        self.told.append((kind, fields))

    def flush(self, seconds: float) -> bool:
        return True


@pytest.mark.parametrize(
    ("error", "words", "lasting"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "give cluster.spec.volumeSizeGib",
            False,
        ),
        (OSError(errno.EIO, "Input/output error"), "Input/output error", False),
        (Unfit("inputs.0.source: nothing is there", lasting=True), "inputs.0.source: ", True),
    ],
)
def test_the_attempt_s_end_says_what_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str, lasting: bool
) -> None:
    told = Told()

    class Aws:
        put_events = None

        def __init__(self, region: str) -> None:
            pass

        def key(self, where: Any) -> bytes:
            return b""

    def fail(*_: Any) -> int:
        raise error

    monkeypatch.setattr(aws, "Aws", Aws)
    monkeypatch.setattr(events, "Events", lambda *_: told)
    monkeypatch.setattr(main, "_do", fail)
    monkeypatch.setattr(main, "ML", tmp_path)

    assert main._as_host(surroundings(tmp_path)) == 1

    [(kind, said)] = told.told
    assert (kind, said["outcome"], said["lasting"]) == ("AttemptEnded", "failed", lasting)
    assert words in said["error"]
    assert words in (tmp_path / "output/failure").read_text()
