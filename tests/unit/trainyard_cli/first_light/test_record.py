"""The file that first-light writes: redacted, whole, and never over another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.first_light_world import (
    API_URL,
    a_stage,
)
from tests.support.recorded_account import NUMBER

from trainyard_cli.first_light.engine import FirstLight
from trainyard_cli.first_light.record import Record, mark_of, read
from trainyard_cli.first_light.redaction import Redactor
from trainyard_cli.first_light.world import World
from trainyard_cli.problems import InvalidInput


def test_what_is_written_is_redacted_and_has_no_part_of_another_file_beside_it(
    record: Record,
) -> None:
    record.document["words"] = f"arn:aws:iam::{NUMBER}:role/x"
    record.write()
    assert read(record.path)["words"] == "arn:aws:iam::<account-1>:role/x"
    assert [path.name for path in record.path.parent.iterdir()] == ["light.json"]


def test_what_clean_needs_is_never_redacted(tmp_path: Path) -> None:
    """A machine may be called like the stack, and a run's id may hold twelve digits."""
    facts = {
        "cluster": "first-light-abcdefgh",
        "stack": "trainyard",
        "region": "us-west-2",
        "run": "run-01k123456789012abcdefghjkm",
    }
    record = Record.new(
        tmp_path / "light.json", Redactor([("host", "trainyard")]), **facts, words="on trainyard"
    )
    record.write()
    assert read(record.path) | facts == read(record.path)


def test_a_file_that_cannot_be_written_names_the_option_before_anything_is_done(
    world: World, tmp_path: Path
) -> None:
    record = Record.new(
        tmp_path / "missing" / "light.json", Redactor(), cluster="first-light-abcdefgh"
    )
    acted: list[str] = []
    code = FirstLight(world, record, [], lambda _words: None).run(
        [a_stage(lambda *_: acted.append("") or "")]
    )
    assert code == 6
    assert acted == []
    assert "--output" in record.document["words"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 9, "cluster": "x"}', "\x00", "[" * 100_000]
)
def test_a_file_of_something_else_is_neither_written_over_nor_cleaned_by(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "light.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match="--output"):
        Record.new(path, Redactor(), cluster="c")
    with pytest.raises(InvalidInput, match="first-light"):
        Record.of(path)
    assert path.read_text() == text


def test_a_finished_file_may_be_written_over_and_an_unfinished_one_may_not(record: Record) -> None:
    record.write()
    with pytest.raises(InvalidInput, match="something may be left"):
        Record.new(record.path, Redactor(), cluster="first-light-other")
    record.document["nothingLeft"] = True
    record.write()
    assert Record.new(record.path, Redactor(), cluster="first-light-other").document["stages"] == []


def test_the_mark_of_an_api_goes_through_redaction_and_is_another_ones_no_more() -> None:
    mark = mark_of(API_URL)
    assert Redactor([("account", NUMBER)]).document({"api": mark}) == {"api": mark}
    assert mark != mark_of(API_URL + "/v2")
