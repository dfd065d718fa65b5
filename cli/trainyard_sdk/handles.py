"""A run and a cluster to work with: what is known of them, and all that can be asked of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from trainyard_contracts.base import read_stored
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.specs import RunSpec

from . import downloads
from .answers import (
    Checkpoint,
    ClusterNode,
    ClusterView,
    Output,
    Problem,
    RunCostView,
    RunView,
    TimelineEntry,
)
from .client import Client, Json
from .flows import driven, finished
from .following import (
    TERMINAL,
    Pace,
    Which,
    back_to,
    cluster_settled,
    log_lines,
    run_ended,
    timeline,
)
from .metrics import Metrics
from .problems import Interrupted, SdkError


class RunFailed(SdkError):
    """The run ended, and not with success. `run` has what became of it."""

    def __init__(self, run: RunView) -> None:
        problem = run.problem
        super().__init__(
            problem.title if problem else f"The run ended as {run.status}",
            problem.detail if problem else run.reason,
            problem.next_step if problem else f"trainyard run events {run.id}",
            code=problem.code if problem else "",
        )
        self.run = run


class RunState:
    """What is known of a run; `view` has every field."""

    def __init__(self, client: Client, pace: Pace, view: RunView) -> None:
        self._client, self._pace, self.view = client, pace, view

    @property
    def id(self) -> str:
        return self.view.id

    @property
    def status(self) -> str:
        return self.view.status

    @property
    def ended(self) -> bool:
        return self.status in TERMINAL

    @property
    def problem(self) -> Problem | None:
        return self.view.problem

    @property
    def spec(self) -> RunSpec:
        """As it was accepted; what a newer stack added is left out."""
        return read_stored(RunSpec, json.dumps(self.view.spec))

    def checked(self) -> None:
        """Raises RunFailed if it ended otherwise than with success."""
        if self.ended and self.status != "Succeeded":
            raise RunFailed(self.view)

    def _read(self, document: Json) -> None:
        self.view = RunView.read(document)

    def _place(self, to: str | Path | None) -> Path:
        return Path(to if to is not None else self.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status}>"


class Run(RunState):
    """A run. Methods that read ask the API; properties say what was known last."""

    def refresh(self) -> Run:
        self._read(self._client.run(self.id))
        return self

    def wait(self, timeout: float | None = None, *, check: bool = True) -> Run:
        """Until it has ended. With `check` another end than success raises RunFailed.

        Raises NotInTime after `timeout` seconds and Interrupted at Ctrl-C. The run goes on then.
        """
        try:
            self.view = finished(run_ended(self._client, self.id, self._pace, timeout))
        except KeyboardInterrupt:
            raise Interrupted(back_to(self.id)) from None
        if check:
            self.checked()
        return self

    def events(self, *, follow: bool = True, after: str | None = None) -> Iterator[TimelineEntry]:
        """The timeline, oldest first; with `follow` until the run has ended.

        It goes on where it was when the connection was lost. `after` is the id of an entry: another
        process begins behind it.
        """
        flow = timeline(self._client, self.id, self._pace, after=after, follow=follow)
        yield from driven(flow)

    def logs(self, *, follow: bool = False, **which: Any) -> Iterator[str]:
        """Lines of the log: its tail, with `follow` also what comes until the run ends.

        `which`: lines, kind ("job" or "lifecycle"), attempt, contains, since_seconds, rank, node.
        """
        wanted = Which(**which)
        if follow:
            yield from driven(log_lines(self._client, self.id, self._pace, wanted))
        else:
            yield from self._client.logs(self.id, **vars(wanted))["text"].splitlines()

    def metrics(self, *, since_seconds: int = 86400, name: str | None = None) -> Metrics:
        """The loss, or what the program reported as `name`, of all the run's time, and the names
        that there are; samples of nodes and steps of the last seconds, of an ended run before its
        end.
        """
        return Metrics.read(self._client.metrics(self.id, since_seconds=since_seconds, name=name))

    def cost(self) -> RunCostView:
        """What it has cost so far, and what for; `usd` is None where a price is not known."""
        return RunCostView.read(self._client.run_cost(self.id))

    def checkpoints(self) -> list[Checkpoint]:
        """Newest step first."""
        return [Checkpoint.read(found) for found in self._client.checkpoints(self.id)]

    def outputs(self) -> Iterator[Output]:
        """What the verified export holds, or what was copied while it trained."""
        for page in self._client.outputs(self.id):
            yield from (Output.read(found) for found in page["outputs"])

    def download(
        self, to: str | Path | None = None, *, pattern: str | None = None, force: bool = False
    ) -> downloads.Result:
        """Bring the results into a directory, by default one of the run's id.

        Every file's SHA-256 is checked. The same again brings only the rest. A file that is there
        and differs is kept, unless `force`; the result's `kept` names it.
        """
        return downloads.download(
            self._client,
            self.id,
            pattern=pattern,
            to=self._place(to),
            force=force,
            told=lambda _done, _total: None,
        )

    def cancel(self) -> Run:
        """Ask the job to end, export what is whole, delete the run's own cluster."""
        self._read(self._client.cancel_run(self.id))
        return self

    def resume(self, *, filesystem: str | None = None) -> Run:
        """From its newest whole checkpoint, after it failed or was cancelled."""
        self._read(self._client.resume_run(self.id, filesystem=filesystem))
        return self

    def export(self) -> Run:
        """Export to S3 now."""
        self._read(self._client.export_run(self.id))
        return self


class ClusterState:
    """What is known of a cluster; `view` has every field."""

    def __init__(self, client: Client, pace: Pace, view: ClusterView) -> None:
        self._client, self._pace, self.view = client, pace, view

    @property
    def name(self) -> str:
        return self.view.name

    @property
    def status(self) -> str:
        return self.view.status

    @property
    def spec(self) -> ClusterSpec:
        """As it was accepted."""
        adapter: TypeAdapter[ClusterSpec] = TypeAdapter(ClusterSpec)
        return adapter.validate_json(json.dumps(self.view.spec), extra="ignore", context=_ACCEPTED)

    def _read(self, document: Json) -> None:
        self.view = ClusterView.read(document)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.status}>"


#: The context of `read_stored`, for a union, which is no class.
_ACCEPTED = MappingProxyType({"accepted": True})


class Cluster(ClusterState):
    """A cluster. Methods that read ask the API; properties say what was known last."""

    def refresh(self) -> Cluster:
        self._read(self._client.cluster(self.name))
        return self

    def wait(self, timeout: float | None = None) -> Cluster:
        """Until it is Ready, Stopped, Failed or Deleted. Raises NotInTime."""
        self.view = finished(cluster_settled(self._client, self.name, self._pace, timeout))
        return self

    def nodes(self) -> list[ClusterNode]:
        return [ClusterNode.read(found) for found in self._client.nodes(self.name)]

    def stop(self, *, force: bool = False) -> Cluster:
        self._read(self._client.stop_cluster(self.name, force=force))
        return self

    def start(self) -> Cluster:
        self._read(self._client.start_cluster(self.name))
        return self

    def keep(self) -> Cluster:
        """Let its idle time begin anew."""
        self._read(self._client.keep_cluster(self.name))
        return self

    def delete(self, *, force: bool = False) -> Cluster:
        """Delete a cluster that nobody uses; `force` also with people's jobs on it."""
        self._read(self._client.delete_cluster(self.name, force=force))
        return self
