"""A history comes in pages, either way round, as GetExecutionHistory gives it."""

from __future__ import annotations

from typing import Any

import pytest

from sam_on_moto.functions.histories import BadToken, page


def history(events: int) -> list[dict[str, Any]]:
    details = {"name": "Wait", "input": "{}", "inputDetails": {"truncated": False}}
    return [
        {"id": number, "type": "PassStateEntered", "stateEnteredEventDetails": details}
        for number in range(1, events + 1)
    ]


def ids(answer: dict[str, Any]) -> list[int]:
    return [event["id"] for event in answer["events"]]


def walked(events: list[dict[str, Any]], **options: Any) -> list[list[int]]:
    answer = page(events, **options)
    pages = [ids(answer)]
    while token := answer.get("nextToken"):
        answer = page(events, token=token, **options)
        pages.append(ids(answer))
    return pages


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("events", [0, 1, 99, 100, 101, 200, 2500])
@pytest.mark.parametrize("most", [0, 1, 7, 1000, 5000])
def test_pages_are_together_the_history(events: int, most: int, backwards: bool) -> None:
    pages = walked(history(events), most=most, backwards=backwards)
    numbers = list(range(1, events + 1))
    assert [event for found in pages for event in found] == (
        numbers[::-1] if backwards else numbers
    )
    whole = min(most or 100, 1000)
    assert all(len(found) == whole for found in pages[:-1])
    assert len(pages[-1]) <= whole


def test_a_history_that_grows_between_pages_repeats_and_loses_nothing() -> None:
    first = page(history(150), backwards=False)
    assert ids(page(history(180), token=first["nextToken"])) == list(range(101, 181))
    last = page(history(150), backwards=True)
    older = page(history(180), token=last["nextToken"], backwards=True)
    assert ids(older) == list(range(50, 0, -1))


@pytest.mark.parametrize("token", ["", "x", "W10=", "WzAsIGZhbHNlXQ==", "WzEsIHRydWVd", "é"])
def test_a_token_of_nothing_or_of_the_other_direction_is_refused(token: str) -> None:
    with pytest.raises(BadToken):
        page(history(300), token=token)


def test_data_are_left_out_where_nobody_wants_them() -> None:
    [event] = page(history(1), data=False)["events"]
    details = {"name": "Wait", "inputDetails": {"truncated": False}}
    assert event["stateEnteredEventDetails"] == details
