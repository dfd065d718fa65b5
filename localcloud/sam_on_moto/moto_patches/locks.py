"""Makes moto's DynamoDB, SQS and log streams safe for concurrent callers.

Stock moto loses updates, and hands one message out twice.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

from sam_on_moto.moto_patches.pinned import replace, wrap

_DYNAMODB = (
    "create_table", "put_item", "get_item", "update_item", "delete_item", "query", "scan",
    "transact_write_items", "execute_statement", "update_time_to_live",
    "update_continuous_backups",
)  # fmt: skip
_SQS = (
    "send_message", "send_message_batch", "delete_message", "delete_message_batch",
    "change_message_visibility", "change_message_visibility_batch", "purge_queue",
)  # fmt: skip
_LOGS = (
    "create_log_group",
    "create_log_stream",
    "put_log_events",
    "ensure_log_group",
    "ensure_log_stream",
)


def install() -> None:
    """Hook moto's backends; once per process."""
    from moto.dynamodb.models import DynamoDBBackend
    from moto.logs.models import LogsBackend
    from moto.sqs.models import SQSBackend

    _serialize(DynamoDBBackend, _DYNAMODB, threading.RLock())
    _serialize(LogsBackend, _LOGS, threading.RLock())
    sqs_lock = threading.RLock()
    _serialize(SQSBackend, _SQS, sqs_lock)
    _short_receives(SQSBackend, sqs_lock)


def _serialize(backend: type, methods: tuple[str, ...], lock: Any) -> None:
    for name in methods:
        wrap(backend, name, functools.partial(_under, lock))


def _under(lock: Any, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def locked(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return method(*args, **kwargs)

    return locked


def _short_receives(backend: type, lock: Any) -> None:
    """A long poll becomes short polls, with the queue's own wake-up between them.

    So it does not hold the lock while it waits.
    """

    def receive(
        self: Any,
        queue_name: str,
        count: int,
        wait_seconds_timeout: int,
        visibility_timeout: int,
        message_attribute_names: Any = None,
    ) -> Any:
        queue = self.get_queue(queue_name)
        deadline = time.monotonic() + (wait_seconds_timeout or 0)
        while True:
            with lock:
                messages = original(
                    self, queue_name, count, 0, visibility_timeout, message_attribute_names
                )
            left = deadline - time.monotonic()
            if messages or left <= 0:
                return messages
            queue.wait_for_messages(min(left, 1.0))

    expected = (
        "self",
        "queue_name",
        "count",
        "wait_seconds_timeout",
        "visibility_timeout",
        "message_attribute_names",
    )
    original = replace(backend, "receive_message", receive, parameters=expected)
