"""The order of a chain's runs, and what no order helps."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard_cli.chains import alone, ordered, with_ids
from trainyard_cli.problems import InvalidInput


def run(name: str, *after: str, **extra: Any) -> dict[str, Any]:
    return {"name": name, "after": list(after), **extra}


def test_each_run_comes_after_those_that_it_names() -> None:
    given = [run("convert", "train"), run("evaluate", "train"), run("train", "preprocess"),
             run("preprocess")]  # fmt: skip
    names = [one["name"] for one in ordered(given, "chain.yaml")]
    assert names == ["preprocess", "train", "convert", "evaluate"]


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([run("a", "b"), run("b", "c"), run("c", "a")], "wait for each other: a -> b -> c -> a"),
        ([run("a", "a")], "wait for each other: a -> a"),
        ([run("a"), run("a")], "runs.1.name: 'a' is the name of two runs"),
        ([run("a", "train")], "a: after: there is no run 'train' in it; it has a"),
        ([{"after": []}], "runs.0: has no name"),
        ([{"name": "a", "after": "b"}], "runs.0.after: must be a list"),
        ([], "names no run"),
    ],
)
def test_what_no_order_helps_is_refused(runs: list[Any], words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        ordered(runs, "chain.yaml")
    assert words in str(refused.value)


def test_a_run_of_another_submission_may_be_named_by_its_id() -> None:
    assert ordered([run("a", "run-" + "0" * 26)], "chain.yaml")


def test_ids_take_the_place_of_names() -> None:
    source = {"source": "run:train/outputs/final", "path": "model"}
    other = {"source": "s3://data/x/", "path": "x"}
    spec = run("evaluate", "train", inputs=[source, other])
    made = with_ids(spec, {"train": "run-1"})
    assert made["after"] == ["run-1"]
    assert made["inputs"] == [{"source": "run:run-1/outputs/final", "path": "model"}, other]
    assert alone(spec) == {"name": "evaluate", "inputs": [other]}
