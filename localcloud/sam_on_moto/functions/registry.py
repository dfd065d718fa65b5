"""The deployed Lambda functions, invoked at once or asynchronously.

An asynchronous invocation has Lambda's retries and dead-letter queue.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from sam_on_moto.cloud import Cloud
from sam_on_moto.functions.runtime_api import Invocation
from sam_on_moto.functions.workers import FunctionConfig, Pool, worker_environment
from sam_on_moto.iam import policies
from sam_on_moto.inside.calls import send_to_queue

log = logging.getLogger(__name__)

#: Lambda waits 1 and 2 minutes between the attempts of an asynchronous invocation. Here nobody
#: wants to wait for that.
RETRY_SECONDS = (0.5, 2.0)
MOST_WORKERS = 8
#: Of one function, twice what its workers take at once: some wait between two attempts.
_MOST_EVENTS = 2 * MOST_WORKERS
#: As Lambda keeps an event where nothing else is said.
_MOST_AGE_SECONDS = 6 * 3600.0
KEEP_WORKERS = 4


class NotAllowed(Exception):
    """A service tried to invoke a function whose resource policy does not name it."""


class NoSuchFunction(Exception):
    """No function of that name or ARN is deployed."""


@dataclass
class Function:
    """One deployed function.

    `permissions` are its resource policy: (principal, source ARN pattern or None).
    """

    config: FunctionConfig
    pool: Pool
    retries: int = 2
    most_age: float = _MOST_AGE_SECONDS
    #: Its own events wait here for a worker, and nobody else's.
    later: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_MOST_EVENTS, thread_name_prefix="async-invoke")
    )
    dead_letters: str | None = None
    permissions: list[tuple[str, str | None]] = field(default_factory=list)


class Functions:
    """Registry and front door of all functions."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._functions: dict[str, Function] = {}
        self._retired: list[Pool] = []
        self.lost: list[dict[str, str]] = []
        self._lock = threading.Lock()

    def add(
        self, config: FunctionConfig, *, most: int = MOST_WORKERS, dead_letters: str | None = None
    ) -> None:
        pool = self._pool(config, most)
        self._functions[config.name] = Function(config, pool, dead_letters=dead_letters)

    def replace(self, config: FunctionConfig, *, most: int = MOST_WORKERS) -> None:
        """Give a function another configuration and code; what it does now it ends as it began."""
        function = self._functions[config.name]
        self._retired.append(function.pool)
        function.config, function.pool = config, self._pool(config, most)
        self._retired[-1].retire()

    def _pool(self, config: FunctionConfig, most: int) -> Pool:
        def environment() -> dict[str, str]:
            credentials = self._cloud.access.environment(config.role, config.name)
            return worker_environment(
                config,
                tag=self._cloud.naming.tag,
                state_dir=self._cloud.state_dir,
                endpoint=self._cloud.endpoint,
                region=self._cloud.region,
                credentials=credentials,
            )

        return Pool(
            config, environment, self._cloud.logs.write, most=most, keep=min(KEEP_WORKERS, most)
        )

    def get(self, name_or_arn: str) -> Function:
        """Raises NoSuchFunction."""
        name = name_or_arn.rsplit(":function:", maxsplit=1)[-1].split(":", maxsplit=1)[0]
        if name not in self._functions:
            raise NoSuchFunction(
                f"Function not found: arn:aws:lambda:{self._cloud.region}:{self._cloud.account_id}"
                f":function:{name}"
            )
        return self._functions[name]

    def invoke(self, name_or_arn: str, payload: bytes) -> Invocation:
        return self.get(name_or_arn).pool.invoke(payload)

    def check_permission(self, name_or_arn: str, principal: str, source_arn: str) -> None:
        """Raises NotAllowed unless the service may invoke the function for this source.

        An AWS::Lambda::Permission gives that right.
        """
        for allowed, pattern in self.get(name_or_arn).permissions:
            if allowed == principal and (pattern is None or policies.matches(pattern, source_arn)):
                return
        raise NotAllowed(
            f"{principal} may not invoke {name_or_arn} for {source_arn}: "
            "the template has no matching AWS::Lambda::Permission"
        )

    def invoke_later(self, name_or_arn: str, payload: bytes) -> None:
        """Lambda's `Event` invocation: accepted now, retried on errors.

        When every attempt failed, or it is too old, the dead-letter queue gets it.
        """
        function = self.get(name_or_arn)
        function.later.submit(self._run_later, function, payload, monotonic())

    def _run_later(self, function: Function, payload: bytes, accepted: float) -> None:
        for attempt in range(1 + function.retries):
            if monotonic() - accepted > function.most_age:
                words = f"the event is older than {function.most_age:g} s"
                outcome = Invocation(payload, 0.0, function.config.arn, result=words.encode())
                break
            outcome = function.pool.invoke(payload)
            if not outcome.failed:
                return
            log.warning(
                "%s failed (attempt %d): %s",
                function.config.name,
                attempt + 1,
                outcome.result.decode(errors="replace")[:2000],
            )
            if attempt < function.retries:
                time.sleep(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)])
        self._give_up(function, payload, outcome)

    def _give_up(self, function: Function, payload: bytes, outcome: Invocation) -> None:
        error = outcome.result.decode(errors="replace")
        if function.dead_letters:
            self._cloud.access.require_role(
                function.config.role, function.config.name, "sqs:SendMessage", function.dead_letters
            )
            send_to_queue(
                function.dead_letters,
                payload,
                {"RequestID": outcome.request_id, "ErrorCode": "200", "ErrorMessage": error[:1024]},
            )
            return
        log.error(
            "an event for %s is lost: it has no dead-letter queue (%s)",
            function.config.name,
            error[:500],
        )
        with self._lock:
            self.lost = [*self.lost[-19:], {"function": function.config.name, "error": error[:500]}]

    def warm(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            self._functions[name].pool.warm(count)

    def names(self) -> list[str]:
        return sorted(self._functions)

    def close(self) -> None:
        for function in self._functions.values():
            function.later.shutdown(wait=False, cancel_futures=True)
        for pool in [*self._retired, *(function.pool for function in self._functions.values())]:
            pool.close()

    def report(self) -> dict[str, Any]:
        return {
            "deployed": {name: f.pool.report() for name, f in self._functions.items()},
            "lostEvents": self.lost,
        }
