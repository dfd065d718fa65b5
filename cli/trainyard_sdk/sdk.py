"""`Trainyard`: one API, and the runs and clusters that are made and found by it."""

from __future__ import annotations

from types import TracebackType

from .answers import ClusterSummary, ClusterView, PlanView, RunSummary, RunView
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
