"""The file for node_exporter, read by Prometheus' own parsers."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain
from tests.support.agent import RUN, attempt, config
from tests.support.waiting import eventually_async

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.textfile import NAME, Textfile, text_of
from trainyard_contracts.progress_file import Progress

Parser = Callable[[str], Any]


def running(number: int = 1, **progress: Any) -> Any:
    ours = attempt()
    ours.number, ours.nodes = number, ("ip-127-0-0-2", "ip-127-0-0-3")
    ours.progress = Progress(**({"step": 40, "loss": 2.5, "at": 1_800_000_000.5} | progress))
    return ours


def samples(parse: Parser, text: str) -> dict[str, float]:
    return {one.name: one.value for family in parse(text) for one in family.samples}


@pytest.mark.parametrize("parse", [openmetrics, plain], ids=["OpenMetrics", "text format"])
def test_prometheus_reads_every_number_of_a_run(parse: Parser) -> None:
    ours = running(3)
    ours.step_seconds = 0.25
    assert samples(parse, text_of("c", [ours])) == {
        "trainyard_run_step": 40,
        "trainyard_run_loss": 2.5,
        "trainyard_run_progress_timestamp_seconds": 1_800_000_000.5,
        "trainyard_run_step_seconds": 0.25,
        "trainyard_run_nodes": 2,
        "trainyard_run_restarts_total": 2,
    }


@pytest.mark.parametrize("parse", [openmetrics, plain], ids=["OpenMetrics", "text format"])
def test_what_is_not_known_is_absent(parse: Parser) -> None:
    waiting = attempt()
    assert set(samples(parse, text_of("c", [waiting]))) == {
        "trainyard_run_nodes", "trainyard_run_restarts_total",
    }  # fmt: skip
    assert samples(parse, text_of("c", [])) == {}


@pytest.mark.parametrize("parse", [openmetrics, plain], ids=["OpenMetrics", "text format"])
@pytest.mark.parametrize("loss", [math.inf, -math.inf, math.nan, 1e-30, 3.0e38])
def test_every_loss_is_read_as_it_was(parse: Parser, loss: float) -> None:
    ours = attempt()
    ours.progress = Progress(step=1, at=1).model_copy(update={"loss": loss})
    found = samples(parse, text_of("c", [ours]))["trainyard_run_loss"]
    assert found == loss or (math.isnan(found) and math.isnan(loss))


def test_runs_are_told_apart_by_their_labels_and_no_name_breaks_the_file() -> None:
    other = running(step=7)
    other.run_id = 'run-"\\\nb'
    (steps,) = [
        family for family in openmetrics(text_of("c", [running(), other]))
        if family.name == "trainyard_run_step"
    ]  # fmt: skip
    assert {one.labels["run"]: one.value for one in steps.samples} == {RUN: 40, 'run-"\\\nb': 7}
    assert {one.labels["cluster"] for one in steps.samples} == {"c"}


@pytest.fixture
def textfile(tmp_path: Path) -> Textfile:
    given = config(tmp_path / "trainyard")
    (tmp_path / "trainyard").mkdir()
    store = Store(tmp_path / "outbox.sqlite")
    return Textfile(given, Attempts(given, Reporter(given, store)))


def test_the_file_is_there_while_the_agent_is_and_the_directory_is(
    tmp_path: Path, textfile: Textfile
) -> None:
    textfile.write("1\n")
    assert not (tmp_path / "node_exporter").exists(), "who wants the file makes the directory"
    directory = tmp_path / "node_exporter/textfile_collector"
    directory.mkdir(parents=True)

    async def serve() -> str:
        watch = asyncio.create_task(textfile.watch())
        await eventually_async("it writes", (directory / NAME).exists)
        watch.cancel()
        return (directory / NAME).read_text()

    assert list(openmetrics(asyncio.run(serve())))
    assert os.listdir(directory) == [NAME]
    textfile.close()
    assert os.listdir(directory) == []
    textfile.close()


def test_a_directory_that_takes_nothing_is_said_once(
    tmp_path: Path, textfile: Textfile, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "node_exporter/textfile_collector"
    (directory / NAME).mkdir(parents=True)
    textfile.write("1\n")
    textfile.write("2\n")
    assert len(caplog.records) == 1
    (directory / NAME).rmdir()
    textfile.write("3\n")
    assert (directory / NAME).read_text() == "3\n"
