"""A cold function is a process of Lambda's runtime client, and its first answer must be 200."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest
from bench import cold, slack_ack

pytestmark = pytest.mark.real


@pytest.fixture
def aws() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), slack_ack.Aws)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_init_comes_before_the_answer_and_both_take_time(aws: str) -> None:
    found = slack_ack.acknowledged(aws)
    assert 0 < found["init"] < found["acknowledgement"]
    assert found["cpu"] > 0


def test_an_answer_that_is_not_200_is_no_measurement(aws: str) -> None:
    variables = {"SLACK_SIGNING_SECRET": "arn", "EVENT_BUS_NAME": "bus", "AWS_ENDPOINT_URL": aws}
    late = slack_ack.event(time.time() - 3600)
    with pytest.raises(RuntimeError, match=r"the first answer of slack is not 200: .*401"):
        cold.started(sys.executable, "slack", [cold.ROOT / "layers/core"], variables, late)
