"""Arguments are written as AWS's toolkit writes them; that toolkit itself is asked elsewhere."""

from __future__ import annotations

from trainyard_trainers.launch.hyperparameters import arguments


def test_each_is_an_option_with_its_value_by_name() -> None:
    given = {"lr": 0.1, "b": True, "none": None, "d": {"y": [1, "x"], "x": 2}, "text": "a b; rm"}
    assert arguments(given) == [
        "-b", "True", "-d", "x=2,y=[1, 'x']", "--lr", "0.1", "--none", "", "--text", "a b; rm",
    ]  # fmt: skip
    assert arguments({}) == []
