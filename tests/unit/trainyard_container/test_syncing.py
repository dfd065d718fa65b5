"""While a job trains, what its program makes goes to S3 once an interval, from every host."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.s3_client import S3Client, refusal
from tests.support.waiting import eventually
from tests.unit.trainyard_container.test_results import write
from tests.unit.trainyard_container.test_surroundings import surroundings

from trainyard_container.courier_server import CourierServer
from trainyard_container.links import First
from trainyard_container.results import Results
from trainyard_container.store import Store
from trainyard_container.surroundings import Surroundings
from trainyard_container.syncing import Syncing

HOSTS = ("algo-1", "algo-2")


class Job:
    """Two hosts, which hear each other, and one bucket."""

    def __init__(self, tmp_path: Path) -> None:
        self.client, self.told = S3Client(), list[tuple[str, dict[str, Any]]]()
        link = First(CourierServer(tmp_path, b""))
        self.hosts: list[Syncing] = []
        self.wheres: list[Surroundings] = []
        for host in HOSTS:
            where = replace(surroundings(tmp_path / host), host=host, hosts=HOSTS)
            store = Store(self.client, "b", patience_seconds=0)
            results = Results(store, "runs/1/", where.run_dir)
            self.wheres.append(where)
            self.hosts.append(Syncing(results, store, where, link, 0.01, self._report))

    def _report(self, kind: str, **fields: Any) -> None:
        self.told.append((kind, fields))

    def write(self, host: int, name: str, text: str) -> None:
        write(self.wheres[host].run_dir, name, text)

    def look(self) -> None:
        for host in self.hosts:
            host.look()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_each_pass_brings_what_is_new_of_all_hosts_and_is_told_once(job: Job) -> None:
    job.look()
    assert (job.told, job.client.objects) == ([], {})
    job.write(0, "output/log.txt", "1")
    job.write(1, "output/of-the-other", "2")
    job.look()
    job.write(0, "output/log.txt", "1 and more")
    job.look()
    assert job.client.objects == {
        "runs/1/output/log.txt": b"1 and more",
        "runs/1/output/of-the-other": b"2",
    }
    [(kind, fields)] = job.told
    assert (kind, fields["everySeconds"], fields["objects"]) == ("ResultsSynced", 0.01, 1)


def test_of_one_name_the_first_host_that_has_it_sends_its_own(job: Job) -> None:
    for host in range(2):
        job.write(host, "output/same", f"of {host}")
    job.look()
    job.write(1, "output/same", "of 1, later")
    job.look()
    assert job.client.objects == {"runs/1/output/same": b"of 0"}


def test_a_copy_that_s3_refuses_is_told_once_and_so_is_the_next_good_one(job: Job) -> None:
    def deny(name: str, key: str) -> None:
        if name == "put":
            raise refusal("AccessDenied")

    job.client.before = deny
    job.write(0, "output/a", "1")
    job.look()
    job.look()
    job.client.before = lambda _name, _key: None
    job.look()
    assert [kind for kind, _ in job.told] == ["SyncFailed", "ResultsSynced"]
    assert "AccessDenied" in job.told[0][1]["reason"]


def test_nothing_is_begun_once_the_program_has_ended(job: Job) -> None:
    sending, host = threading.Event(), job.hosts[0]

    def wait(name: str, key: str) -> None:
        if name == "put":
            sending.set()
            assert host._over.wait(10)

    job.client.before = wait
    for number in range(40):
        job.write(0, f"output/{number:02d}", "x")
    host.start()
    eventually("a file is on its way", sending.is_set, 10)
    host.stop()
    assert 0 < len(job.client.objects) < 40
