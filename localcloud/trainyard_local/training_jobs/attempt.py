"""One attempt at a training job: data to the hosts, a container on each, and how they end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from trainyard_local.local_cloud import LocalCloud
from trainyard_local.training_jobs import images, inputs, tree, words
from trainyard_local.training_jobs.checkpoints import Checkpoints
from trainyard_local.training_jobs.endings import ASKED, STOPPING, End, Kind, Limits
from trainyard_local.training_jobs.environment import variables
from trainyard_local.training_jobs.fleet import Fleet
from trainyard_local.training_jobs.host import Host
from trainyard_local.training_jobs.job import TrainingJob
from trainyard_local.training_jobs.objects import Objects
from trainyard_local.training_jobs.settings import JobSettings

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
#: A host that dies by itself is noticed within this; everything else is noticed at once.
LOOK_SECONDS = 0.5


@dataclass
class Attempt:
    """On a fleet that is there; it leaves the fleet's hosts, and nothing that runs on them."""

    cloud: LocalCloud
    settings: JobSettings
    job: TrainingJob
    fleet: Fleet
    objects: Objects
    limits: Limits
    #: In the names of its log streams: seconds since 1970.
    epoch: int

    def run(self) -> End:
        """How it ended, after all programs have."""
        self.job.begin()
        self.job.enter("Downloading", words.DOWNLOADING)
        try:
            checkpoints = self._prepared()
        except inputs.InputFailed as failed:
            return End(Kind.FAILED, str(failed))
        self.job.enter("Downloading", words.IMAGE)
        if end := self._wanted():
            return self._stopping(end)
        return self._trained(checkpoints)

    def _prepared(self) -> Checkpoints | None:
        """Everything below /opt/ml. Raises InputFailed."""
        request = self.job.request
        for host in self.fleet.hosts:
            tree.fresh(host.ml)
            tree.configure(host.ml, request, host.name, self.fleet.names)
        inputs.copy(request, self.objects, self.fleet.hosts)
        self._filesystems = inputs.filesystems(request, self.cloud.state_dir)
        for _, target, _ in self._filesystems:
            for host in self.fleet.hosts:
                tree.path_of(host.ml, target).mkdir(parents=True, exist_ok=True)
        config = request.get("CheckpointConfig")
        if not config:
            return None
        found = Checkpoints(
            config,
            self.objects,
            self.fleet.hosts,
            self.fleet.directory,
            self.settings.sync_seconds,
        )
        found.restore()
        return found

    def _trained(self, checkpoints: Checkpoints | None) -> End:
        self.job.enter("Training", words.TRAINING)
        self.limits.training()
        for host in self.fleet.hosts:
            self._start(host, f"{self.job.name}/{host.name}-{self.epoch}")
        if checkpoints:
            checkpoints.start()
        end = self._stopping(self._watch())
        in_time = self._bring_down(end)
        self.limits.pause()
        if checkpoints:
            # What a lost instance had not copied is lost.
            (checkpoints.finish if in_time else checkpoints.stop)()
        return end

    def _start(self, host: Host, stream: str) -> None:
        say = partial(self._say, stream)
        host.start(
            images.command(self.job.request["AlgorithmSpecification"]),
            variables(self.cloud, self.settings, self.job),
            self._filesystems,
            say,
            self.job.wishes.changed.set,
        )

    def _say(self, stream: str, lines: list[str]) -> None:
        # CloudWatch takes no empty messages.
        if said := [line for line in lines if line.strip()]:
            self.cloud.logs.write(LOG_GROUP, stream, said)

    def _watch(self) -> End:
        """The first thing that ends the attempt."""
        while not (end := self._wanted() or self._came_about()):
            self.job.wishes.wait(min(self.limits.left(), LOOK_SECONDS))
        return end

    def _wanted(self) -> End | None:
        wishes = self.job.wishes
        if wishes.wants_close:
            return End(Kind.CLOSED)
        if wishes.wants_stop:
            return End(Kind.STOPPED)
        if wishes.take_interrupt():
            return End(Kind.INTERRUPTED)
        return End(Kind.BROKEN) if wishes.take_break() else None

    def _came_about(self) -> End | None:
        if not self.fleet.whole:
            return End(Kind.BROKEN)
        for host in self.fleet.hosts:
            if host.exit_code:
                return End(Kind.FAILED, words.algorithm_error(_failure(host), host.exit_code))
        if self._all_ended():
            return End(Kind.COMPLETED)
        return self.limits.passed()

    def _all_ended(self) -> bool:
        return all(host.exit_code is not None for host in self.fleet.hosts)

    def _stopping(self, end: End) -> End:
        if end.kind in STOPPING:
            self.job.enter("Stopping", words.STOPPING)
        return end

    def _bring_down(self, end: End) -> bool:
        """End all programs; False if what they wrote last cannot be fetched any more."""
        in_time = end.kind not in (Kind.BROKEN, Kind.CLOSED)
        if end.kind in ASKED:
            self.fleet.terminate()
            interrupted = end.kind is Kind.INTERRUPTED
            seconds = (
                self.settings.spot_notice_seconds if interrupted else self.settings.stop_seconds
            )
            ended = self._wait(self._all_ended, seconds)
            in_time = ended or not interrupted
        self.fleet.stop()
        return in_time

    def _wait(self, condition: Callable[[], Any], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0 or self.job.wishes.wants_close:
                return False
            self.job.wishes.wait(min(left, LOOK_SECONDS))
        return True


def _failure(host: Host) -> str:
    """What the program wrote about its failure."""
    try:
        return tree.path_of(host.ml, "/opt/ml/output/failure").read_text(errors="replace")
    except OSError:
        return ""
