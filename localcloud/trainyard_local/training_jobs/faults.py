"""Breaks training jobs on purpose: their hosts, their processes, their capacity."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from trainyard_local.nodes import processes as node_processes
from trainyard_local.nodes.processes import Process
from trainyard_local.training_jobs.host import Host
from trainyard_local.training_jobs.job import TrainingJob
from trainyard_local.training_jobs.service import TrainingJobs

Request = Mapping[str, Any]
_TYPE = re.compile(r"(ml\.)?[a-z][a-z0-9-]*\.[a-z0-9-]+")


class NoSuchPart(LookupError):
    """The named job or host is not there; the message says what is."""


class NotAtThisTime(RuntimeError):
    """The job is there, but not in the state that the fault wants."""


class NotUnderstood(ValueError):
    """The request itself is wrong."""


def status(jobs: TrainingJobs) -> list[dict[str, Any]]:
    """Every job, with its hosts and their processes, for the admin call `status`."""
    return [
        {
            "name": job.name,
            "status": job.status,
            "secondaryStatus": job.secondary,
            "hosts": [
                {
                    "name": host.name,
                    "on": host.alive,
                    "pids": sorted(each.pid for each in _processes(host)),
                }
                for host in jobs.hosts(job)
            ],
        }
        for job in jobs.all()
    ]


def kill_host(jobs: TrainingJobs, request: Request) -> dict[str, Any]:
    """The instance is gone at once, with everything on it."""
    job, host = _host(jobs, request)
    host.kill()
    job.wishes.look()
    return {"job": job.name, "host": host.name}


def kill_host_process(jobs: TrainingJobs, request: Request) -> dict[str, Any]:
    """SIGKILL one process of a container: a rank if there is one, else an innermost one."""
    job, host = _host(jobs, request)
    found = _processes(host)
    if not found:
        raise NotAtThisTime(f"host: no program runs on {host.name} of {job.name} now; wait")
    victim = node_processes.worker_of(found)
    node_processes.kill_pids([victim.pid])
    return {"job": job.name, "host": host.name, "pid": victim.pid, "process": victim.name}


def interrupt_spot(jobs: TrainingJobs, request: Request) -> dict[str, Any]:
    """EC2 takes the spot instances of the job back, after the usual notice."""
    job = _job(jobs, request)
    if not job.spot:
        raise NotAtThisTime(
            f"job: {job.name} has no spot instances; create it with EnableManagedSpotTraining"
        )
    job.wishes.interrupt()
    return {"job": job.name}


def internal_error(jobs: TrainingJobs, request: Request) -> dict[str, Any]:
    """SageMaker fails the attempt by an error of its own."""
    job = _job(jobs, request)
    job.wishes.break_down()
    return {"job": job.name}


def no_capacity(jobs: TrainingJobs, request: Request) -> dict[str, Any]:
    """From now on there is no instance of the type; with `seconds` it passes by itself."""
    kind = _type(request)
    jobs.capacity.lack(kind, _seconds(request))
    return {"instanceType": kind}


def restore_capacity(jobs: TrainingJobs, request: Request) -> dict[str, Any]:
    """There is enough of the type again."""
    kind = _type(request)
    jobs.capacity.restore(kind)
    return {"instanceType": kind}


def _job(jobs: TrainingJobs, request: Request) -> TrainingJob:
    running = {job.name: job for job in jobs.all() if not job.ended}
    wanted = request.get("job")
    if not wanted and len(running) == 1:
        return next(iter(running.values()))
    if wanted not in running:
        known = ", ".join(running) or "none"
        raise NoSuchPart(f"job: '{wanted}' is no training job that runs; there is: {known}")
    return running[wanted]


def _host(jobs: TrainingJobs, request: Request) -> tuple[TrainingJob, Host]:
    """The named host, else the job's last one."""
    job = _job(jobs, request)
    hosts = {host.name: host for host in jobs.hosts(job) if host.alive}
    if not hosts:
        raise NotAtThisTime(f"host: {job.name} has no hosts now ({job.secondary}); wait")
    wanted = request.get("host") or list(hosts)[-1]
    if wanted not in hosts:
        known = ", ".join(hosts)
        raise NoSuchPart(f"host: '{wanted}' is no host of {job.name}; there is: {known}")
    return job, hosts[wanted]


def _processes(host: Host) -> list[Process]:
    """The programs of its container, without what keeps the container."""
    container = host.container
    if container is None:
        return []
    inside = set(node_processes.descendants(container.pid)[1:])
    return [process for process in node_processes.all_processes() if process.pid in inside]


def _type(request: Request) -> str:
    kind = request.get("instanceType")
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        raise NotUnderstood(
            f"instanceType: '{kind}' is no instance type; give one as ml.c5.xlarge, or c5.xlarge "
            "of clusters of EC2's instances"
        )
    return kind


def _seconds(request: Request) -> float | None:
    seconds = request.get("seconds")
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0:
        raise NotUnderstood(
            f"seconds: '{seconds}' is no number over 0; leave it out for a fault that stays"
        )
    return float(seconds)


KINDS: dict[str, Callable[[TrainingJobs, Request], dict[str, Any]]] = {
    "kill-host": kill_host,
    "kill-host-process": kill_host_process,
    "interrupt-spot": interrupt_spot,
    "internal-error": internal_error,
    "no-capacity": no_capacity,
    "restore-capacity": restore_capacity,
}
