"""first-light and its clean as commands: what they ask, refuse and say."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.first_light_world import (
    API_URL,
    Json,
)
from tests.support.recorded_account import NUMBER

from trainyard_cli.context import Context
from trainyard_cli.first_light import command
from trainyard_cli.first_light.record import Record, mark_of, read
from trainyard_cli.first_light.redaction import Redactor
from trainyard_cli.first_light.world import World
from trainyard_cli.main import run as trainyard
from trainyard_cli.problems import InvalidInput

#: The file of a local cloud that is down.
LOCAL: Json = {
    "endpoint": "http://127.0.0.1:9", "apiUrl": "http://127.0.0.1:9/x", "region": "us-east-1",
    "accessKeyId": "AKIA", "secretAccessKey": "s", "stack": "trainyard", "outputs": {},
    "resources": {}, "accountId": NUMBER,
}  # fmt: skip


def test_a_broken_spec_names_its_field_and_nothing_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    world: World,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = json.loads(json.dumps(world.spec))
    spec["cluster"]["spec"]["instanceGroups"][1]["count"] = -1
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    monkeypatch.chdir(tmp_path)
    assert trainyard(["first-light", "spec.yaml", "--yes", "--endpoint", API_URL]) == 6
    assert "cluster.spec.instanceGroups.1.count" in capsys.readouterr().err
    assert not (tmp_path / "first-light.json").exists()


@pytest.mark.real
def test_an_api_that_is_down_from_the_beginning_ends_it_with_that_and_nothing_was_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "local.json").write_text(json.dumps(LOCAL))
    output = tmp_path / "light.json"
    assert (
        trainyard(["first-light", "--yes", "--state-dir", str(tmp_path), "--output", str(output)])
        == 5
    )
    assert "The API cannot be reached" in capsys.readouterr().out
    assert read(output)["nothingLeft"]


@pytest.mark.parametrize(
    ("answer", "agreed"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_whoever_sits_at_the_terminal_is_shown_the_price_and_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, agreed: bool
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    asked = lambda: command._agree(Context(), 0.714, 2.915, yes=False, most=3.0)  # noqa: E731
    if agreed:
        asked()
    else:
        with pytest.raises(InvalidInput, match="nothing was made"):
            asked()
    told = capsys.readouterr().err
    assert "The nodes cost 0.71 USD an hour" in told
    assert "2.92 USD" in told or "2.91 USD" in told


def test_a_price_that_nobody_knows_is_not_within_any_limit() -> None:
    with pytest.raises(InvalidInput, match="nobody knows what it costs"):
        command._agree(Context(), None, None, yes=True, most=100.0)
    with pytest.raises(InvalidInput, match="--max-usd"):
        command._agree(Context(), 5.0, 50.0, yes=True, most=float("nan"))
    command._agree(Context(), None, None, yes=True, most=None)


def test_clean_without_a_file_says_which_one_to_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "local.json").write_text(json.dumps(LOCAL))
    assert (
        trainyard(
            ["first-light", "--state-dir", str(tmp_path), "--clean", str(tmp_path / "none.json")]
        )
        == 6
    )
    assert "--clean" in capsys.readouterr().err


@pytest.fixture
def left_behind(tmp_path: Path) -> Json:
    """What a first light on AWS that was killed has written."""
    made = Record.new(
        tmp_path / "light.json", Redactor(), cluster="first-light-abcdefgh", region="us-east-1",
        stack="trainyard", api=mark_of(API_URL), where="AWS", spec={},
    )  # fmt: skip
    made.write()
    return made.document


def test_clean_never_asks_another_api_whether_something_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], left_behind: Json
) -> None:
    (tmp_path / "local.json").write_text(json.dumps(LOCAL))
    before = (tmp_path / "light.json").read_text()
    assert (
        trainyard(
            ["first-light", "--state-dir", str(tmp_path), "--clean", str(tmp_path / "light.json")]
        )
        == 6
    )
    told = capsys.readouterr().err
    assert "another API" in told
    assert "--endpoint" in told
    assert (tmp_path / "light.json").read_text() == before


@pytest.mark.parametrize(
    "name", ["region", "stack", "api", "spec", "verdict", "stages", "assumptions"]
)
@pytest.mark.parametrize("damage", [None, 7])
def test_clean_by_a_damaged_file_says_what_is_to_be_deleted_by_hand(
    tmp_path: Path, left_behind: Json, name: str, damage: Any
) -> None:
    left_behind[name] = damage
    (tmp_path / "light.json").write_text(json.dumps(left_behind))
    with pytest.raises(InvalidInput, match=f"--clean: .*{name}") as told:
        Record.of(tmp_path / "light.json")
    assert "first-light-abcdefgh" in told.value.next_step
