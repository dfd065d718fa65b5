"""This host's part of an attempt, from an empty container to its exit code: files, launcher, keeper
and end. The first host decides for all: which checkpoint, when it is over, and what is reported.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from trainyard_contracts.diagnosis_verdict import Diagnosis
from trainyard_job.checkpoints import checkpoint
from trainyard_job.checkpoints.checkpoint import Saved
from trainyard_job.common.exits import STOPPED
from trainyard_trainers.launch.allocation import Job

from . import (
    beginning,
    ending,
    inputs,
    launching,
    links,
    putting_back,
    restoring,
    run_files,
    script_mode,
)
from .aws import Aws
from .ending import HostEnd
from .events import Events
from .git_code import Repository
from .heartbeats import Heartbeats
from .progress import Progress
from .publishing import Publisher
from .restoring import NotWhole
from .results import Results
from .store import Store, StoreFailed
from .surroundings import Surroundings, Unfit
from .syncing import Syncing
from .watching import Order, Watching

#: Words between hosts.
CHECKPOINT, CODE, FAILED, OVER, STOP = "checkpoint", "code", "failed", "over", "stop"
_POLL_SECONDS = 0.1
#: So long the first host waits for the others' ends, once one has failed: they have been asked.
OTHERS_SECONDS = 60.0
#: So long another host waits for the first one to keep what there is; uploads take their time.
OVER_SECONDS = 1800.0
FLUSH_SECONDS = 60.0
#: So long the first host stays for the others to hear that it is over.
LEAVE_SECONDS = 10.0
#: A launcher that does not end after it was asked is killed with the container by SageMaker; one
#: that is asked because another host failed, by us.
PATIENCE_SECONDS = 15.0
_CHOICE_SECONDS = 3600.0


@dataclass(frozen=True)
class Means:
    """What this host's part works with."""

    where: Surroundings
    store: Store
    stores: Callable[[str], Store]
    events: Events
    link: links.Link
    key_file: Path | None
    bundle: run_files.Bundle
    #: A secret by `name` or `name:key`, for a field. Raises Unfit.
    secret_of: Callable[[str, str], str]

    @property
    def checkpoints(self) -> Path:
        return run_files.checkpoints(self.where, self.bundle)

    @property
    def checkpoint_prefix(self) -> str:
        relative = self.checkpoints.relative_to(self.where.run_dir).as_posix()
        return f"{self.where.data.prefix}{relative}/"


class Program(Protocol):
    """What trains on this host: the launcher, or the ranks that AWS's own launcher started."""

    log: Path

    def ended(self) -> int | None: ...
    def failed(self) -> bool: ...
    def ask_to_stop(self) -> None: ...
    def kill(self) -> None: ...
    def finish(self) -> None: ...


Start = Callable[[Surroundings, Mapping[str, str]], Program]


class HostPart:
    """Run it in the main thread: SIGTERM asks it to stop."""

    def __init__(
        self,
        means: Means,
        secrets: Mapping[str, str],
        start: Start = launching.Launcher,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """`stopping`: whether SageMaker says that the job is to end, where no signal comes."""
        self._means, self._secrets = means, secrets
        self._start, self._stopping = start, stopping
        self._where, self._events, self._link = means.where, means.events, means.link
        # A store of its own: it gives up sooner while the program trains than at the end.
        self._results_store = means.stores(self._where.data.bucket)
        self._results = Results(
            self._results_store,
            self._where.data.prefix,
            self._where.run_dir,
            script_mode.exported(self._where),
        )
        self._progress = Progress(self._where.attempt_dir, self._events.of_attempt)
        self._watch = Order.of(means.bundle)
        self._launcher: Program | None = None
        self._asked = False
        self._passed_on = False
        #: Whether this attempt begins with the checkpoint of another run.
        self._begun = False

    # -- the way ----------------------------------------------------------------------------------
    def run(self) -> int:
        """The exit code of this container's program. Raises Unfit, StoreFailed, OSError."""
        signal.signal(signal.SIGTERM, self._on_signal)
        fetch = self._fetch_code if self._means.bundle.get("git") else None
        run_files.lay_out(self._where, self._means.bundle, self._means.store, fetch)
        inputs.bring(self._where, self._means.bundle, self._means.stores)
        self._results.restore()
        if (order := self._watch) is not None:
            report = self._events.of_attempt if self._where.is_first else _nobody
            putting_back.put_back(self._means.store, self._where, order.patterns, report)
        saved = self._restored()
        publisher = self._publisher()
        if self._where.is_first:
            # What another run saved is not in this run's directory in S3 yet.
            publisher.start(saved.path.name if saved and not self._begun else None)
            nodes = list(self._where.hosts)
            self._events.of_attempt("AttemptStarted", jobId=self._where.job_name, nodes=nodes)
        watching = self._watching()
        syncing = self._syncing()
        code = self._train()
        if syncing is not None:
            syncing.stop()
        end = self._own_end(code)
        if not self._where.is_first:
            return self._leave(end)
        return self._close(end, publisher, watching)

    def _fetch_code(self, work: Path) -> None:
        """The first host fetches, and all have the same files."""
        means, git = self._means, self._means.bundle["git"]
        repository = Repository(self._where, means.store, git, means.secret_of)
        if self._where.is_first:
            record, new = repository.recorded()
            self._link.note(CODE, dict(record))
            if new:
                told = {name: record[name] for name in ("commit", "files", "submodules")}
                self._events.of_attempt("CodeFetched", url=git["url"], ref=git["ref"], **told)
        elif (record := self._await(CODE, _CHOICE_SECONDS)) is None:
            raise Unfit(f"job.git: {self._where.hosts[0]} fetched no code")
        repository.unpack(record, work)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True

    def _watching(self) -> Watching | None:
        if self._watch is None or not self._where.is_first:
            return None
        about = (self._where, self._means.stores(self._where.data.bucket), self._watch)
        return Watching(*about, lambda: self._progress.step, self._events.of_attempt).start()

    def _syncing(self) -> Syncing | None:
        order = self._means.bundle.get("sync")
        if not order:
            return None
        about = (self._results, self._results_store, self._where, self._link)
        return Syncing(*about, float(order["everySeconds"]), self._events.of_attempt).start()

    def _publisher(self) -> Publisher:
        return Publisher(
            self._means.store,
            self._where.data.prefix,
            self._where.run_dir,
            self._where.attempt_dir,
            self._means.checkpoints,
            keep=int(self._means.bundle.get("checkpointKeep") or 3),
            report=self._events.of_attempt,
        )

    # -- the checkpoint to begin with -------------------------------------------------------------
    def _restored(self) -> Saved | None:
        """The same on all hosts: the first one chooses."""
        about = (self._means.store, self._means.checkpoint_prefix)
        here = (self._where.run_dir, self._means.checkpoints)
        if self._where.is_first:
            saved = restoring.newest(*about, *here, self._where.run_id, self._reject)
            self._begun = saved is None and bool(self._means.bundle.get("startFrom"))
            saved = self._begin() if self._begun else saved
            name = saved.path.name if saved else None
            self._link.note(CHECKPOINT, {"name": name, "begins": self._begun})
            return saved
        chosen = self._await(CHECKPOINT, _CHOICE_SECONDS)
        if chosen is None:
            raise Unfit(f"{self._where.hosts[0]} chose no checkpoint to begin with")
        if chosen["name"] is None:
            return None
        if chosen["begins"]:
            return self._begin()
        try:
            run_id = self._where.run_id
            return restoring.bring(*about, str(chosen["name"]), *here, run_id)
        except NotWhole as torn:
            raise StoreFailed(f"checkpoint {chosen['name']}: {torn}") from None

    def _begin(self) -> Saved:
        start, target = self._means.bundle["startFrom"], self._means.checkpoints
        return beginning.bring(self._means.store, self._where, target, start)

    def _reject(self, step: int, name: str, reason: str) -> None:
        path = (self._means.checkpoints / name).relative_to(self._where.run_dir).as_posix()
        print(f"trainyard: checkpoint {name} is not whole and is skipped: {reason}", flush=True)
        about = {"step": step, "path": path, "reason": reason}
        if found := checkpoint.parse_name(name):
            about["attempt"] = found[1]  # it is that of the checkpoint, as in the run's list
        self._events.of_attempt("CheckpointRejected", **about)

    def _await(self, name: str, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        while (said := self._link.read(name, wait=1.0)) is None and time.monotonic() < deadline:
            if self._link.lost() or self._asked:
                return None
        return said

    # -- training ---------------------------------------------------------------------------------
    def _train(self) -> int:
        """Until the launcher has ended; its exit code."""
        found = script_mode.variables(self._where, Job.read(self._where.attempt_dir))
        variables = {**os.environ, **found, **self._secrets}
        self._launcher = self._start(
            self._where, launching.environment(self._where, variables, self._means.key_file)
        )
        progress = self._progress
        beats = Heartbeats(self._where, self._link, self._events)
        failed, stop = links.Watch(self._link, FAILED), links.Watch(self._link, STOP)
        kill_at: float | None = None
        while (code := self._launcher.ended()) is None:
            stepped = self._where.is_first and progress.look()
            beats.beat(progress, now=stepped)
            self._asked = self._asked or stop.word.is_set() or self._stopping()
            if self._asked and not self._passed_on:
                self._pass_on()
            if not failed.word.is_set() and self._launcher.failed():
                self._say(FAILED, self._where.host)
            if kill_at is None and (failed.word.is_set() or self._link.lost()):
                self._end_with_the_others()
                kill_at = time.monotonic() + PATIENCE_SECONDS
            if kill_at is not None and time.monotonic() > kill_at:
                self._launcher.kill()
            time.sleep(_POLL_SECONDS)
        self._launcher.finish()
        progress.look()
        beats.beat(progress, now=True)  # the run's page shows its last step
        return code

    def _pass_on(self) -> None:
        """SageMaker asks every host; where it does not, this one tells the others."""
        self._passed_on = True
        print("trainyard: asked to stop: the program saves and ends", flush=True)
        self._ask_launcher()
        self._say(STOP, True)

    def _end_with_the_others(self) -> None:
        """The mark by which the launcher sees that another part failed, as on other clusters."""
        (self._where.attempt_dir / "part-failed").touch()
        self._ask_launcher()

    def _ask_launcher(self) -> None:
        assert self._launcher is not None
        self._launcher.ask_to_stop()

    def _say(self, name: str, value: Any) -> None:
        try:
            self._link.note(name, value)
        except OSError as error:
            print(f"trainyard: {error}", file=sys.stderr, flush=True)

    def _own_end(self, code: int) -> HostEnd:
        assert self._launcher is not None
        report = ending.read_report(self._where.attempt_dir, self._where.host)
        end = HostEnd(self._where.host, code, report, ending.read_tail(self._launcher.log))
        if code not in (0, STOPPED):
            self._say(FAILED, self._where.host)
        return end

    # -- the end, on another host -----------------------------------------------------------------
    def _leave(self, end: HostEnd) -> int:
        """Wait until the first host has kept what there is: this one's end may end the job."""
        self._say(f"end/{end.host}", {**end.as_json(), "results": self._results.changed()})
        try:
            self._send_results(end.host)
            said = self._await_word(OVER)
        except OSError:
            said = None
        self._say(f"left/{end.host}", True)
        if end.exit_code:
            self._write_failure(str((said or {}).get("reason") or "the program failed"))
        return end.exit_code or int((said or {}).get("code") or 0)

    def _send_results(self, host: str) -> None:
        """Those that the first host chose: of one name, the first host that has it sends its own.
        Raises OSError.
        """
        wanted = self._await_word(f"take/{host}")
        if wanted is not None:
            self._link.note(f"taken/{host}", self._results.send(map(str, wanted)))

    def _await_word(self, name: str) -> Any:
        deadline = time.monotonic() + OVER_SECONDS
        while (said := self._link.read(name, wait=1.0)) is None and time.monotonic() < deadline:
            if self._link.lost():
                return None
        return said

    # -- the end, on the first host ---------------------------------------------------------------
    def _close(self, own: HostEnd, publisher: Publisher, watching: Watching | None) -> int:
        ends, lost = self._gathered(own)
        problems = [  # each part is kept, whatever becomes of another
            publisher.finish(),
            watching.finish() if watching is not None else "",
            self._kept_results(ends),
        ]
        problem = next(filter(None, problems), "")
        diagnosis = ending.judge(self._where.hosts, ends, lost)
        if problem and diagnosis.outcome == "succeeded":
            error = f"what the run made cannot be kept: {problem}"
            diagnosis = Diagnosis("failed", error=error, error_kind="checkpoint")
        elif problem:
            print(f"trainyard: not all is in S3: {problem}", file=sys.stderr, flush=True)
        stopped = self._asked and diagnosis.outcome != "succeeded"
        if not stopped:
            self._report_end(diagnosis, ends)
        if not self._events.flush(FLUSH_SECONDS):
            print("trainyard: not all events could be sent", file=sys.stderr, flush=True)
        code = self._code(own, diagnosis, stopped)
        reason = "asked to stop" if stopped else ending.sentence(diagnosis)
        self._let_go({"code": code, "reason": reason}, ends)
        if code:
            self._write_failure(reason)
        return code

    def _let_go(self, said: dict[str, Any], ends: list[HostEnd]) -> None:
        """The others hear it from this process: it stays until they have."""
        self._say(OVER, said)
        deadline = time.monotonic() + LEAVE_SECONDS
        for end in ends:
            if end.host == self._where.host:
                continue
            while self._link.read(f"left/{end.host}", wait=0.5) is None:
                if end.host in self._link.lost() or time.monotonic() > deadline:
                    break

    def _kept_results(self, ends: list[HostEnd]) -> str:
        """All hosts' files beside the checkpoints; '' or why one is not in S3."""
        own = self._results.changed()
        taken = set(own)
        others = [end.host for end in ends if end.host != self._where.host]
        for host in others:
            offered = self._link.read(f"end/{host}")["results"]
            self._link.note(f"take/{host}", [name for name in offered if name not in taken])
            taken.update(offered)
        if self._results.left_out:
            print(f"trainyard: {self._results.left_out} files are left out of S3", flush=True)
        problems = [self._results.send(own)]
        deadline = time.monotonic() + OVER_SECONDS
        for host in others:
            while (said := self._link.read(f"taken/{host}", wait=1.0)) is None:
                if host in self._link.lost() or time.monotonic() > deadline:
                    said = f"{host} is gone"
                    break
            problems.append(said)
        return next((problem for problem in problems if problem), "")

    def _code(self, own: HostEnd, diagnosis: Diagnosis, stopped: bool) -> int:
        if diagnosis.outcome == "succeeded":
            return 0
        code = own.exit_code or (STOPPED if stopped else diagnosis.exit_code) or 1
        return code if code > 0 else 128 - code

    def _gathered(self, own: HostEnd) -> tuple[list[HostEnd], list[str]]:
        """All hosts' ends, and the hosts that are gone. One that trains on is waited for as long as
        it does, if nothing has failed.
        """
        ends = {own.host: own}
        deadline = time.monotonic() + OTHERS_SECONDS if own.exit_code else None
        while True:
            for host in self._where.hosts:
                said = self._link.read(f"end/{host}") if host not in ends else None
                if said is not None:
                    ends[host] = HostEnd.of(host, said)
            lost = [host for host in self._link.lost() if host not in ends]
            left = [host for host in self._where.hosts if host not in ends and host not in lost]
            failed = lost or any(end.exit_code for end in ends.values())
            if failed and deadline is None:
                deadline = time.monotonic() + OTHERS_SECONDS
            if not left or (deadline is not None and time.monotonic() > deadline):
                return [ends[host] for host in self._where.hosts if host in ends], lost
            time.sleep(_POLL_SECONDS)

    def _report_end(self, diagnosis: Diagnosis, ends: list[HostEnd]) -> None:
        tail = ending.tail_of(ends, diagnosis.failed_node)
        self._events.of_attempt(
            "AttemptEnded",
            jobId=self._where.job_name,
            lastStep=self._progress.step,
            lastLoss=self._progress.loss,
            **ending.fields(diagnosis, tail),
        )

    def _write_failure(self, reason: str) -> None:
        write_failure(self._where.ml, reason)


def _nobody(_kind: str, **_fields: Any) -> None:
    """The first host tells for all."""


def write_failure(ml: Path, reason: str) -> None:
    """One sentence for the job's FailureReason; the toolkit shows what comes last on stderr."""
    line = " ".join(reason.split())[:1000]
    print(f"trainyard: {line}", file=sys.stderr, flush=True)
    try:
        (ml / "output").mkdir(parents=True, exist_ok=True)
        (ml / "output" / "failure").write_text(line)
    except OSError as error:
        print(f"trainyard: {error}", file=sys.stderr, flush=True)


def prepared(
    where: Surroundings, aws: Aws, key: bytes, make_events: Callable[[], Events]
) -> tuple[Means, dict[str, str]]:
    """Everything before the run's files. Raises Unfit, StoreFailed, OSError."""
    stores = partial(Store, aws.s3)
    bundle = run_files.read_bundle(where, Store(aws.s3, where.bundle.bucket))
    run_files.fresh(where)
    where.attempt_dir.mkdir(parents=True, exist_ok=True)
    own_key = links.courier_key(key, where)
    several = len(where.hosts) > 1
    key_file = links.write_key(own_key, where.attempt_dir / "courier.key") if several else None
    secrets = aws.secrets_of(bundle.get("secrets") or {})
    link = links.connect(where, own_key)
    store, told = stores(where.data.bucket), make_events()
    means = Means(where, store, stores, told, link, key_file, bundle, aws.secret_of)
    return means, taken(secrets)


def taken(secrets: Mapping[str, str]) -> dict[str, str]:
    """The job's secrets as the launcher's own reader leaves them in the environment."""
    if not secrets:
        return {}
    marks = {"TRAINYARD_JOB_SECRETS_TAKEN": "1", "TRAINYARD_JOB_SECRETS": ",".join(secrets)}
    return {**secrets, **marks}
