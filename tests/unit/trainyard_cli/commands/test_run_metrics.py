"""The numbers that a program reports, as the command shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_api import RUN, FakeApi

pytestmark = pytest.mark.real


def reported(name: str = "accuracy", *values: float, **more: Any) -> tuple[int, dict[str, Any]]:
    points = [
        {"attempt": 1 + n // 3, "step": 10 * n, "value": value, "at": f"2026-11-20T20:0{n}:00Z"}
        for n, value in enumerate(values)
    ]
    named = {"last": 0.5, "lowest": 0.25, "highest": 0.75, "reports": 40, "notFinite": 2}
    names = [{**named, "name": "loss"}, {**named, "name": "accuracy"}]
    return 200, {"nodes": {}, "run": [], "name": name, "points": points, "names": names} | more


def test_metrics_are_shown_as_a_curve_with_the_last_step_and_speed(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    samples = [
        {"attempt": 1, "step": 10 * n, "loss": 9.0 - n, "at": f"2026-11-20T20:0{n}:00Z"}
        for n in range(5)
    ]
    path = f"GET /v1/runs/{RUN}/metrics"
    api.answers[path] = (200, {"nodes": {}, "run": samples})
    code, out, _ = trainyard("run", "metrics", RUN, "--since", "600")
    assert code == 0
    assert "Loss, steps 0 to 40" in out
    assert "0.167 steps a second" in out
    assert "█" in out
    assert api.requests[-1]["query"] == {"sinceSeconds": "600"}
    api.answers[path] = (200, {"nodes": {}, "run": []})
    assert "No step was reported" in trainyard("run", "metrics", RUN)[1]


def test_another_number_is_shown_as_a_curve_long_after_the_run(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    path = f"GET /v1/runs/{RUN}/metrics"
    api.answers[path] = reported("accuracy", 0.25, 0.5, 0.625, 0.75)
    code, out, _ = trainyard("run", "metrics", RUN, "--name", "accuracy")
    assert code == 0
    assert api.requests[-1]["query"] == {"sinceSeconds": "86400", "name": "accuracy"}
    assert "accuracy, steps 0 to 30" in out
    assert ("0.25, 0.75" in out, "█" in out, "other names" in out) == (True, True, True)
    code, out, _ = trainyard("run", "metrics", RUN, "--name", "accuracy", "--since", "90s")
    assert "accuracy, steps 20 to 30" in out
    trainyard("run", "metrics", RUN, "--since", "90d")
    assert api.requests[-1]["query"] == {"sinceSeconds": "604800"}


def test_a_name_that_is_not_there_is_answered_with_those_that_are(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers[f"GET /v1/runs/{RUN}/metrics"] = reported("acuracy")
    code, out, _ = trainyard("run", "metrics", RUN, "--name", "acuracy")
    assert (code, "No acuracy was reported; there is: loss, accuracy." in out) == (0, True)


def test_names_are_listed_whatever_characters_a_program_gave_them(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    path = f"GET /v1/runs/{RUN}/metrics"
    api.answers[path] = reported(namesLeftOut=3)
    code, out, err = trainyard("run", "metrics", RUN, "--names")
    assert code == 0
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["loss", "0.5", "0.25", "0.75", "40", "2"],
        ["accuracy", "0.5", "0.25", "0.75", "40", "2"],
    ]
    assert "3 more names not kept" in err
    odd = [{"name": "a[red]b\n\x1b[2J\x07", "reports": 1}]
    api.answers[path] = reported("a[red]b\n\x1b[2J\x07", 0.5, 0.6, names=odd)
    for arguments in (("--names",), ()):
        out = trainyard("run", "metrics", RUN, *arguments)[1]
        assert "a[red]b\\n" in out
        assert not {"\x1b", "\x07"} & set(out)
    api.answers[path] = (200, {"nodes": {}, "run": []})
    assert "reported no numbers" in trainyard("run", "metrics", RUN, "--names")[2]
