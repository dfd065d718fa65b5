"""The same for asyncio: calls run in threads, and nobody holds a thread while waiting.

Signing, refreshing credentials and writing files block in any case, so there is no second client.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from . import downloads
from .answers import (
    ApprovalView,
    Checkpoint,
    ClusterNode,
    ClusterSummary,
    DeliveryView,
    Output,
    PlanView,
    RunCostView,
    RunSummary,
    TimelineEntry,
    WebhookSummary,
    WebhookView,
    WebhookWithSecret,
)
from .client import Client
from .flows import async_driven, async_finished
from .following import (
    PATIENCE_SECONDS,
    POLL_SECONDS,
    Which,
    back_to,
    cluster_settled,
    log_lines,
    run_ended,
    timeline,
)
from .handles import Cluster, ClusterState, Run, RunState
from .metrics import Metrics
from .sdk import Trainyard
from .submitting import Spec

P = ParamSpec("P")
R = TypeVar("R")


async def _apart(call: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
    """In a thread of its own: those of asyncio are few, and this may take hours."""
    own = ThreadPoolExecutor(1, thread_name_prefix="trainyard")
    try:
        asked = partial(call, *given, **named)
        return await asyncio.get_running_loop().run_in_executor(own, asked)
    finally:
        own.shutdown(wait=False)


class AsyncRun(RunState):
    """As `Run`. A task that is cancelled while it waits leaves the run alone."""

    def __init__(self, run: Run) -> None:
        super().__init__(run._client, run._pace, run.view)
        self._run = run

    async def _done(self, call: Any, *given: Any, **named: Any) -> AsyncRun:
        self.view = (await asyncio.to_thread(call, *given, **named)).view
        return self

    async def refresh(self) -> AsyncRun:
        return await self._done(self._run.refresh)

    async def wait(self, timeout: float | None = None, *, check: bool = True) -> AsyncRun:
        try:
            self.view = await async_finished(run_ended(self._client, self.id, self._pace, timeout))
        except asyncio.CancelledError as cancelled:  # at Ctrl-C asyncio shows it with its notes
            cancelled.add_note(back_to(self.id))
            raise
        if check:
            self.checked()
        return self

    async def events(
        self, *, follow: bool = True, after: str | None = None
    ) -> AsyncIterator[TimelineEntry]:
        flow = timeline(self._client, self.id, self._pace, after=after, follow=follow)
        async for entry in async_driven(flow):
            yield entry

    async def logs(self, *, follow: bool = False, **which: Any) -> AsyncIterator[str]:
        if not follow:
            for line in await asyncio.to_thread(lambda: list(self._run.logs(**which))):
                yield line
            return
        flow = log_lines(self._client, self.id, self._pace, Which(**which))
        async for line in async_driven(flow):
            yield line

    async def metrics(self, *, since_seconds: int = 86400, name: str | None = None) -> Metrics:
        return await asyncio.to_thread(self._run.metrics, since_seconds=since_seconds, name=name)

    async def cost(self) -> RunCostView:
        return await asyncio.to_thread(self._run.cost)

    async def checkpoints(self) -> list[Checkpoint]:
        return await asyncio.to_thread(self._run.checkpoints)

    async def outputs(self) -> list[Output]:
        return await asyncio.to_thread(lambda: list(self._run.outputs()))

    async def download(
        self, to: str | Path | None = None, *, pattern: str | None = None, force: bool = False
    ) -> downloads.Result:
        """Cancelled, it ends at once; the same again brings only the rest."""
        stop = threading.Event()
        try:
            return await _apart(
                downloads.download,
                self._client,
                self.id,
                pattern=pattern,
                to=self._place(to),
                force=force,
                told=lambda _done, _total: None,
                stop=stop,
            )
        finally:
            stop.set()

    async def cancel(self) -> AsyncRun:
        return await self._done(self._run.cancel)

    async def resume(self, *, filesystem: str | None = None) -> AsyncRun:
        return await self._done(self._run.resume, filesystem=filesystem)

    async def export(self) -> AsyncRun:
        return await self._done(self._run.export)


class AsyncCluster(ClusterState):
    """As `Cluster`."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster._client, cluster._pace, cluster.view)
        self._cluster = cluster

    async def _done(self, call: Any, **named: Any) -> AsyncCluster:
        self.view = (await asyncio.to_thread(call, **named)).view
        return self

    async def refresh(self) -> AsyncCluster:
        return await self._done(self._cluster.refresh)

    async def wait(self, timeout: float | None = None) -> AsyncCluster:
        flow = cluster_settled(self._client, self.name, self._pace, timeout)
        self.view = await async_finished(flow)
        return self

    async def nodes(self) -> list[ClusterNode]:
        return await asyncio.to_thread(self._cluster.nodes)

    async def stop(self, *, force: bool = False) -> AsyncCluster:
        return await self._done(self._cluster.stop, force=force)

    async def start(self) -> AsyncCluster:
        return await self._done(self._cluster.start)

    async def keep(self) -> AsyncCluster:
        return await self._done(self._cluster.keep)

    async def delete(self, *, force: bool = False) -> AsyncCluster:
        return await self._done(self._cluster.delete, force=force)


class AsyncTrainyard:
    """As `Trainyard`."""

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        context: str | None = None,
        state_dir: str | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        poll_seconds: float = POLL_SECONDS,
        client: Client | None = None,
    ) -> None:
        self._trainyard = Trainyard(
            endpoint,
            context=context,
            state_dir=state_dir,
            patience_seconds=patience_seconds,
            poll_seconds=poll_seconds,
            client=client,
        )

    async def submit(self, spec: Spec, *, idempotency_key: str | None = None) -> AsyncRun:
        """Cancelled meanwhile, it may have submitted: with a key the same call finds the run."""
        submit = self._trainyard.submit
        return AsyncRun(await _apart(submit, spec, idempotency_key=idempotency_key))

    async def plan(self, spec: Spec) -> PlanView:
        return await _apart(self._trainyard.plan, spec)

    async def run(self, run_id: str) -> AsyncRun:
        return AsyncRun(await asyncio.to_thread(self._trainyard.run, run_id))

    async def runs(self, *, status: str | None = None, at_most: int = 1000) -> list[RunSummary]:
        return await asyncio.to_thread(self._trainyard.runs, status=status, at_most=at_most)

    async def create_cluster(self, spec: Spec) -> AsyncCluster:
        return AsyncCluster(await asyncio.to_thread(self._trainyard.create_cluster, spec))

    async def cluster(self, name: str) -> AsyncCluster:
        return AsyncCluster(await asyncio.to_thread(self._trainyard.cluster, name))

    async def clusters(self, *, at_most: int = 1000) -> list[ClusterSummary]:
        return await asyncio.to_thread(self._trainyard.clusters, at_most=at_most)

    async def approvals(
        self, *, state: str | None = None, at_most: int = 1000
    ) -> list[ApprovalView]:
        return await asyncio.to_thread(self._trainyard.approvals, state=state, at_most=at_most)

    async def approval(self, approval_id: str) -> ApprovalView:
        return await asyncio.to_thread(self._trainyard.approval, approval_id)

    async def approve(self, approval_id: str, *, reason: str | None = None) -> ApprovalView:
        return await asyncio.to_thread(self._trainyard.approve, approval_id, reason=reason)

    async def deny(self, approval_id: str, *, reason: str | None = None) -> ApprovalView:
        return await asyncio.to_thread(self._trainyard.deny, approval_id, reason=reason)

    async def webhooks(self, *, at_most: int = 1000) -> list[WebhookSummary]:
        return await asyncio.to_thread(self._trainyard.webhooks, at_most=at_most)

    async def webhook(self, webhook_id: str) -> WebhookView:
        return await asyncio.to_thread(self._trainyard.webhook, webhook_id)

    async def add_webhook(
        self,
        url: str,
        *,
        types: str | Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        description: str = "",
        idempotency_key: str | None = None,
    ) -> WebhookWithSecret:
        return await asyncio.to_thread(
            self._trainyard.add_webhook,
            url,
            types=types,
            labels=labels,
            description=description,
            idempotency_key=idempotency_key,
        )

    async def rotate_webhook(
        self, webhook_id: str, *, reason: str | None = None
    ) -> WebhookWithSecret:
        return await asyncio.to_thread(self._trainyard.rotate_webhook, webhook_id, reason=reason)

    async def redeliver(
        self, webhook_id: str, delivery_id: str, *, reason: str | None = None
    ) -> DeliveryView:
        redeliver = self._trainyard.redeliver
        return await asyncio.to_thread(redeliver, webhook_id, delivery_id, reason=reason)

    async def remove_webhook(self, webhook_id: str, *, reason: str | None = None) -> WebhookSummary:
        return await asyncio.to_thread(self._trainyard.remove_webhook, webhook_id, reason=reason)

    async def ask(
        self, call: Callable[Concatenate[Client, P], R], *given: P.args, **named: P.kwargs
    ) -> R:
        """Any call of the client, as plain data: `await yard.ask(Client.costs, by="owner")`."""
        return await asyncio.to_thread(call, self._trainyard.client, *given, **named)

    async def close(self) -> None:
        await asyncio.to_thread(self._trainyard.close)

    async def __aenter__(self) -> AsyncTrainyard:
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._trainyard.close()
