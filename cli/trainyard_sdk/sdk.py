"""`Trainyard`: one API, and the runs and clusters that are made and found by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

from .answers import (
    ApprovalView,
    ClusterSummary,
    ClusterView,
    DeliveryView,
    PlanView,
    RunSummary,
    RunView,
    WebhookSummary,
    WebhookView,
    WebhookWithSecret,
)
from .client import Client
from .connection import Connection
from .following import PATIENCE_SECONDS, POLL_SECONDS, Pace
from .handles import Cluster, Run
from .progress import unseen
from .submitting import Spec, plain_spec, prepared


class Trainyard:
    """Runs and clusters of one deployment. Safe to share among threads.

    Without arguments it is found as the command finds it: TRAINYARD_API_URL, the context in use
    (`trainyard context`), or the local cloud. `patience_seconds`: so long may the API be away while
    something is waited for. Raises SdkError, whose `next_step` says what to do.
    """

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
        #: Every call of the API, as plain data.
        self.client = client or Client(Connection.find(endpoint, state_dir, context=context))
        self._pace = Pace(poll_seconds, patience_seconds)

    def submit(self, spec: Spec, *, idempotency_key: str | None = None) -> Run:
        """Submit a run: of a file, of plain data, or of a RunSpec of trainyard_contracts.

        A directory that `job.workdir` names goes up first. The same key and spec give the same run,
        however often they are sent.
        """
        sent = prepared(self.client, plain_spec(spec, "run"), dryrun=False, shown=unseen)
        return self._run(self.client.submit_run(sent.spec, idempotency_key=idempotency_key))

    def plan(self, spec: Spec) -> PlanView:
        """What submitting would do: request, files, batch script, price. Nothing is done."""
        sent = prepared(self.client, plain_spec(spec, "run"), dryrun=True, shown=unseen)
        return PlanView.read(self.client.plan_run(sent.spec))

    def run(self, run_id: str) -> Run:
        return self._run(self.client.run(run_id))

    def runs(self, *, status: str | None = None, at_most: int = 1000) -> list[RunSummary]:
        """Newest first."""
        return [RunSummary.read(one) for one in self.client.runs(status=status, at_most=at_most)]

    def create_cluster(self, spec: Spec) -> Cluster:
        """A cluster that belongs to no run; the same spec again gives the same cluster."""
        return self._cluster(self.client.create_cluster(plain_spec(spec, "cluster")))

    def cluster(self, name: str) -> Cluster:
        return self._cluster(self.client.cluster(name))

    def clusters(self, *, at_most: int = 1000) -> list[ClusterSummary]:
        """Newest first."""
        return [ClusterSummary.read(one) for one in self.client.clusters(at_most=at_most)]

    def approvals(self, *, state: str | None = None, at_most: int = 1000) -> list[ApprovalView]:
        """What waits for people and what they decided, newest first; `state`: such as pending."""
        found = self.client.approvals(state=state, at_most=at_most)
        return [ApprovalView.read(one) for one in found]

    def approval(self, approval_id: str) -> ApprovalView:
        return ApprovalView.read(self.client.approval(approval_id))

    def approve(self, approval_id: str, *, reason: str | None = None) -> ApprovalView:
        """Your word for it. Once more by the same person changes nothing."""
        return ApprovalView.read(self.client.approve(approval_id, reason=reason))

    def deny(self, approval_id: str, *, reason: str | None = None) -> ApprovalView:
        """Your word against it: the run that waits ends."""
        return ApprovalView.read(self.client.deny(approval_id, reason=reason))

    def webhooks(self, *, at_most: int = 1000) -> list[WebhookSummary]:
        """Addresses that are sent events, newest first."""
        return [WebhookSummary.read(one) for one in self.client.webhooks(at_most=at_most)]

    def webhook(self, webhook_id: str) -> WebhookView:
        """One of them, with what became of the newest deliveries."""
        return WebhookView.read(self.client.webhook(webhook_id))

    def add_webhook(
        self,
        url: str,
        *,
        types: str | Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        description: str = "",
        idempotency_key: str | None = None,
    ) -> WebhookWithSecret:
        """Send events to an address. The answer's `secret` signs them, and no other answer has it.

        `types` such as run.failed, and `labels` that runs must carry: without them all are sent.
        With a key that was used before `secret` is None: rotate it.
        """
        spec = {
            "url": url,
            "types": [types] if isinstance(types, str) else list(types),
            "labels": dict(labels or {}),
            "description": description,
        }
        made = self.client.add_webhook(spec, idempotency_key=idempotency_key)
        return WebhookWithSecret.read(made)

    def rotate_webhook(self, webhook_id: str, *, reason: str | None = None) -> WebhookWithSecret:
        """With a new `secret`; the one before it signs for a day more."""
        return WebhookWithSecret.read(self.client.rotate_webhook(webhook_id, reason=reason))

    def redeliver(
        self, webhook_id: str, delivery_id: str, *, reason: str | None = None
    ) -> DeliveryView:
        """Have a delivery sent once more; a webhook that was disabled is active again."""
        return DeliveryView.read(self.client.redeliver(webhook_id, delivery_id, reason=reason))

    def remove_webhook(self, webhook_id: str, *, reason: str | None = None) -> WebhookSummary:
        """Nothing more is sent to it, and its secret is deleted."""
        return WebhookSummary.read(self.client.remove_webhook(webhook_id, reason=reason))

    def close(self) -> None:
        self.client.close()

    def __enter__(self) -> Trainyard:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, document: dict[str, object]) -> Run:
        return Run(self.client, self._pace, RunView.read(document))

    def _cluster(self, document: dict[str, object]) -> Cluster:
        return Cluster(self.client, self._pace, ClusterView.read(document))
