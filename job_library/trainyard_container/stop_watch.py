"""Asks SageMaker whether the job is to end: its toolkit does not pass SIGTERM on to programs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: SIGKILL comes 120 seconds after SIGTERM. DescribeTrainingJob is throttled for the whole account.
EVERY_SECONDS = 10.0
#: A role without the right is not asked for ever.
MOST_FAILURES = 5


class StopWatch:
    """Of the first host; it asks in a thread."""

    def __init__(self, is_stopping: Callable[[], bool], every: float = EVERY_SECONDS) -> None:
        self._is_stopping, self._every = is_stopping, every
        self._word = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="stop watch").start()

    def __call__(self) -> bool:
        return self._word.is_set()

    def _run(self) -> None:
        failures = 0
        while failures < MOST_FAILURES and not self._word.is_set():
            time.sleep(self._every)
            try:
                if self._is_stopping():
                    self._word.set()
                failures = 0
            except Exception as error:  # noqa: BLE001 - boto3 raises many; none ends a training
                failures += 1
                if failures == MOST_FAILURES:
                    print(
                        f"trainyard: whether the job is to end cannot be asked: {error}", flush=True
                    )
