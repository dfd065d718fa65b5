"""The life of a training job: hosts, attempts on them, results, and what becomes of the hosts."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from trainyard_local.local_cloud import LocalCloud
from trainyard_local.sagemaker.capacity import Capacity
from trainyard_local.training_jobs import artifacts, words
from trainyard_local.training_jobs.attempt import LOOK_SECONDS, Attempt
from trainyard_local.training_jobs.endings import SOUND, STOPPING, End, Kind, Limits
from trainyard_local.training_jobs.fleet import Fleet
from trainyard_local.training_jobs.job import TrainingJob, WarmPool
from trainyard_local.training_jobs.objects import Objects
from trainyard_local.training_jobs.pools import WarmPools
from trainyard_local.training_jobs.requests import retries
from trainyard_local.training_jobs.settings import JobSettings

log = logging.getLogger(__name__)


@dataclass
class Life:
    """Runs in a thread of its own."""

    cloud: LocalCloud
    settings: JobSettings
    job: TrainingJob
    pools: WarmPools
    capacity: Capacity

    def __post_init__(self) -> None:
        self.fleet: Fleet | None = None
        self._epoch = 0
        self._limits = Limits.of(self.job.request)
        self._objects = Objects(self.cloud, self.job.request["RoleArn"])

    def run(self) -> None:
        """From Starting to the last status; afterwards nothing of it runs."""
        try:
            self._finish(self._attempts())
        except Exception as error:
            log.warning("training job %s could not be run", self.job.name, exc_info=error)
            self._release()
            self.job.end("Failed", words.INTERNAL_ERROR)

    def _attempts(self) -> End:
        left = retries(self.job.request)
        while True:
            if self.job.secondary != "Starting":
                self.job.enter("Starting", words.STARTING)
            end = self._acquired() or self._attempt()
            if end.kind is Kind.INTERRUPTED:
                self._release()
                self.job.enter("Interrupted", words.INTERRUPTED)
            elif end.kind is Kind.BROKEN and left > 0:
                self._release()
                left -= 1
            else:
                return end

    def _attempt(self) -> End:
        assert self.fleet
        began = time.monotonic()
        # Two attempts within a second have streams of their own, as on AWS, where none is so short.
        self._epoch = max(int(time.time()), self._epoch + 1)
        parts = (self.cloud, self.settings, self.job, self.fleet, self._objects, self._limits)
        try:
            return Attempt(*parts, self._epoch).run()
        finally:
            self.job.bill(time.monotonic() - began)

    def _acquired(self) -> End | None:
        """Hosts for the job; else how it ended without them."""
        if self.job.keep_alive_seconds:
            self.job.pool(WarmPool())
        self.fleet = self.pools.take(self.job)
        if self.fleet:
            return None
        self.job.enter("Pending", words.WAITING)
        if end := self._without_capacity():
            return end
        self.job.enter("Pending", words.PREPARING)
        if end := self._until_started():
            return end
        count = self.job.request["ResourceConfig"]["InstanceCount"]
        isolated = bool(self.job.request.get("EnableNetworkIsolation"))
        self.fleet = Fleet(self.cloud, count, isolated=isolated)
        return None

    def _without_capacity(self) -> End | None:
        """Wait for instances; how the job ended if there were none."""
        deadline = time.monotonic() + self.settings.capacity_seconds
        while not self.capacity.there(self.job.request["ResourceConfig"]["InstanceType"]):
            if end := self._wished():
                return end
            if not self.job.spot and time.monotonic() >= deadline:
                return End(Kind.FAILED, words.CAPACITY_ERROR)
            if self.job.transitions[-1].message != words.NO_CAPACITY:
                self.job.enter("Pending", words.NO_CAPACITY)
            self.job.wishes.wait(min(self._limits.left(), LOOK_SECONDS))
        return None

    def _until_started(self) -> End | None:
        """Instances that come from no warm pool take their time; how the job ended meanwhile."""
        deadline = time.monotonic() + self.settings.start_seconds
        while (left := deadline - time.monotonic()) > 0:
            if end := self._wished():
                return end
            self.job.wishes.wait(min(self._limits.left(), LOOK_SECONDS, left))
        return None

    def _wished(self) -> End | None:
        """The end that somebody or a limit wants of a job that has no hosts yet."""
        if self.job.wishes.wants_close:
            return End(Kind.CLOSED)
        if self.job.wishes.wants_stop:
            return End(Kind.STOPPED)
        return self._limits.passed()

    def _finish(self, end: End) -> None:
        if end.kind is Kind.CLOSED:
            self._release()
            return
        if end.kind in STOPPING and self.job.status != "Stopping":
            self.job.enter("Stopping", words.STOPPING)
        end = self._uploaded(end)
        self._hand_on(end)
        if end.kind is Kind.BROKEN:
            end = End(Kind.FAILED, words.INTERNAL_ERROR)
        self.job.end(end.kind.value, end.reason)

    def _uploaded(self, end: End) -> End:
        """Put the results into S3; a failed job leaves no model."""
        if self.fleet is None or self.job.secondary == "Downloading" or end.kind not in SOUND:
            return end
        self.job.enter("Uploading", words.UPLOADING)
        parts = [artifacts.OUTPUT]
        if end.kind is not Kind.FAILED:
            parts.insert(0, artifacts.MODEL)
        try:
            for part in parts:
                self._upload(self.fleet, part)
        except artifacts.UploadFailed as failed:
            return end if end.kind is Kind.FAILED else End(Kind.FAILED, str(failed))
        return end

    def _upload(self, fleet: Fleet, part: str) -> None:
        request, hosts = self.job.request, fleet.hosts
        there = artifacts.upload(request, self._objects, hosts, fleet.directory, part)
        if there and part == artifacts.MODEL:
            self.job.keep_artifacts()

    def _hand_on(self, end: End) -> None:
        """The hosts go to the job's warm pool, or they go.

        AWS keeps a pool while its cluster passes a health check: one that lost a host does not.
        """
        fleet = self.fleet
        if fleet and fleet.whole and end.kind in SOUND and self.job.keep_alive_seconds:
            self.fleet = None
            self.pools.keep(self.job, fleet)
        self._release()

    def _release(self) -> None:
        if self.fleet is not None:
            self.fleet.close()
            self.fleet = None
        if self.job.warm_pool and self.job.warm_pool.status == "InUse":
            self.job.pool(WarmPool("Terminated"))
