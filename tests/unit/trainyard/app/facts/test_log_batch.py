"""What CloudWatch Logs hands over, taken apart; torn or foreign bytes are nothing."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from trainyard.app.facts.log_batch import envelopes
from trainyard.backends.parallelcluster import backend


def packed(batch: Any) -> dict[str, Any]:
    data = gzip.compress(json.dumps(batch).encode())
    return {"awslogs": {"data": base64.b64encode(data).decode()}}


BATCH = {
    "messageType": "DATA_MESSAGE",
    "owner": "111122223333",
    "logGroup": "/aws/parallelcluster/demo-1",
    "logStream": "x",
    "subscriptionFilters": ["trainyard/prod/1"],
    "logEvents": [
        {"id": "1", "timestamp": 1, "message": "one"},
        {"id": "2", "timestamp": 2, "message": "two"},
    ],
}


def test_each_line_is_an_envelope_that_says_whose_it_is() -> None:
    found = envelopes(packed(BATCH))
    assert [one["detail"]["message"] for one in found] == ["one", "two"]
    assert {one["detail"]["filters"][0] for one in found} == {"trainyard/prod/1"}
    assert {one["source"] for one in found} == {backend.LOG_SOURCE}


def test_another_event_is_itself() -> None:
    event = {"source": "trainyard.agent"}
    assert envelopes(event) == [event]


@pytest.mark.parametrize(
    "event",
    [
        packed({**BATCH, "messageType": "CONTROL_MESSAGE"}),
        packed(["no", "batch"]),
        {"awslogs": {"data": "AAAA"}},
        {"awslogs": {"data": "not base64!"}},
        {"awslogs": {}},
        {"awslogs": {"data": packed(BATCH)["awslogs"]["data"][:40]}},
        packed("x" * (65 * 1024 * 1024)),
    ],
    ids=["control", "no-batch", "no-gzip", "no-base64", "empty", "torn", "bomb"],
)
def test_what_cannot_be_read_is_nothing(event: dict[str, Any]) -> None:
    assert envelopes(event) == []
