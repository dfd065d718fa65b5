"""A trainer's configuration from a file and the command line."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from trainyard_trainers.common import config
from trainyard_trainers.common.config import ConfigError


@dataclass(frozen=True)
class Inner:
    layers: int = 2
    kind: Literal["mlp", "conv"] = "mlp"


@dataclass(frozen=True)
class Outer:
    data: str
    rate: float = 0.1
    limit: float | None = None
    fast: bool = False
    sizes: tuple[int, ...] = (1, 2)
    every: int | Literal["auto"] = 1
    model: Inner = field(default_factory=Inner)

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError(f"rate: {self.rate} is not above 0; use for example 0.1")


def read(*words: str) -> Outer:
    return config.build(Outer, config.read_words(Outer, words))


def test_a_configuration_comes_from_a_file_and_the_command_line_wins(tmp_path: Path) -> None:
    for name, text in (
        ("a.json", '{"data": "d", "rate": 0.5, "model": {"layers": 3}}'),
        ("a.toml", 'data = "d"\nrate = 0.5\n[model]\nlayers = 3\n'),
        ("a.yaml", "data: d\nrate: 0.5\nmodel:\n  layers: 3\n"),
    ):
        (tmp_path / name).write_text(text)
        found = read(
            "--rate",
            "0.7",
            "--config",
            str(tmp_path / name),
            "--model.kind=conv",
            "--fast",
            "--sizes",
            "4,5",
            "--every",
            "auto",
        )
        assert found == Outer("d", 0.7, None, True, (4, 5), "auto", Inner(3, "conv"))
    assert read("--data=x", "--limit", "none", "--fast", "false").limit is None
    assert read("--data=x", "--limit", "-1.5").limit == -1.5


def test_toml_on_python_3_10_takes_tomli_and_says_so_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tomllib

    (tmp_path / "a.toml").write_text("data = 'd'\n")
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", tomllib)
    assert read("--config", str(tmp_path / "a.toml")).data == "d"
    monkeypatch.setitem(sys.modules, "tomli", None)
    with pytest.raises(
        config.ConfigError,
        match=r"a\.toml needs Python 3\.11 or the package tomli, .* give a \.json file",
    ):
        read("--config", str(tmp_path / "a.toml"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--data", "d", "--ratte", "1"],
            "ratte: there is no such key; did you mean rate? Keys: data, every, fast",
        ),
        (
            ["--data", "d", "--model.layer", "1"],
            "model.layer: there is no such key; did you mean model.layers?",
        ),
        (["--data", "d", "--rate", "much"], "rate: 'much' is not a finite number"),
        (["--data", "d", "--model.layers", "1.5"], "model.layers: '1.5' is not a whole number"),
        (["--data", "d", "--model.kind", "cnn"], "model.kind: 'cnn' is not one of mlp, conv"),
        (["--data", "d", "--fast", "perhaps"], "fast: 'perhaps' is neither true nor false"),
        (["--data", "d", "--rate", "0"], "rate: 0.0 is not above 0; use for example 0.1"),
        (["--rate", "1"], "data: it is missing and has no default; give --data"),
        (["--data", "d", "--rate"], "rate: the value is missing; give --rate VALUE"),
        (["data"], "'data' is no option; options are --key value"),
        (["--config", "nowhere.json"], "No such file or directory: 'nowhere.json'"),
    ],
)
def test_a_key_or_value_that_does_not_fit_is_named_with_what_would(
    words: list[str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(*words)
    assert message in str(caught.value)
