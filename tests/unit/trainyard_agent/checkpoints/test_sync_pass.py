"""One pass of a sync: what is new is sent once, and the list in force is whole at any moment."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN, commit
from tests.support.agent_s3 import AgentS3
from tests.support.trees import packed
from tests.unit.trainyard_agent.jobs.test_work import bundle

from trainyard_agent.checkpoints import holding, own_files, sync_pass
from trainyard_agent.checkpoints.sync_brake import Brake, Rate, Stopped
from trainyard_agent.checkpoints.sync_memory import Done, Memory, Subject, Superseded
from trainyard_agent.checkpoints.sync_pass import SyncPass
from trainyard_agent.checkpoints.synced import Synced
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.locations import Location
from trainyard_agent.jobs import work
from trainyard_contracts.bundle_parts import BundleCode
from trainyard_contracts.sync_manifest import SyncManifest
from trainyard_contracts.trees import tree_id

PREFIX = f"sync/c/{RUN}"


class Sync:
    """A run's directory, an S3, and passes of an agent that goes on or is a new one."""

    def __init__(self, root: Path) -> None:
        self.root, self.s3, self.memory = root, AgentS3(), Memory()
        self.synced = Synced(self.s3, Location("data", PREFIX))  # type: ignore[arg-type]
        self.stop = threading.Event()
        self.attempt(1)

    def attempt(self, number: int) -> None:
        self.number = number
        directory = self.root / "attempts" / str(number)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "bundle.json").write_text("{}")
        (self.root / "fence").write_text(f"{number}\n")

    def run(self, **subject: Any) -> Done:
        given = Subject(RUN, self.number, self.root, "checkpoints", **subject)
        with ThreadPoolExecutor(4) as pool:
            brake = Brake(self.stop, Rate())
            return SyncPass(given, self.synced, self.memory, brake).run(pool)

    def restart(self) -> None:
        self.memory = Memory()

    def write(self, name: str, body: bytes, *, age: float = 60.0) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        when = path.stat().st_mtime - age
        os.utime(path, (when, when))
        return path

    def listed(self) -> SyncManifest:
        latest = self.synced.latest(RUN)
        assert latest is not None
        found = self.synced.manifest(latest)
        assert found is not None
        return found

    def restored(self) -> dict[str, bytes]:
        """What somebody would get who had the list and S3 only; every hash is compared."""
        found = {}
        for item in self.listed().objects:
            body = self.s3.objects[f"{PREFIX}/{item.sha256}"]
            assert hashlib.sha256(body).hexdigest() == item.sha256
            found[item.key] = body
        return found


@pytest.fixture
def sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sync:
    monkeypatch.setattr(sync_pass, "_FIRST_PAUSE", 0.0)
    return Sync(tmp_path)


def checkpoint(step: int, attempt: int = 1) -> str:
    return f"checkpoints/step-{step:012d}-attempt-{attempt}"


def test_the_newest_checkpoint_and_what_the_program_made_are_in_s3(sync: Sync) -> None:
    commit(sync.root, 10)
    commit(sync.root, 20, body=b"newer")
    sync.write("output/model.pt", b"a model")
    sync.write("work/snapshot.json", b"{}")
    sync.write("notes.txt", b"beside")
    done = sync.run()
    found = sync.restored()
    assert {key: body for key, body in found.items() if "manifest" not in key} == {
        f"{checkpoint(20)}/rank-0/model.pt": b"newer",
        "output/model.pt": b"a model",
        "working/snapshot.json": b"{}",
        "run/notes.txt": b"beside",
    }
    assert json.loads(found[f"{checkpoint(20)}/manifest.json"])["step"] == 20
    assert (done.latest.last_step, done.latest.objects, done.latest.left_out) == (20, 5, 0)
    assert not (sync.root / ".sync-held").exists()


def test_a_second_pass_sends_and_reads_only_what_changed(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(sync.root, 10)
    sync.write("output/a", b"same")
    sync.write("output/b", b"before")
    sync.run()
    sync.s3.puts.clear()
    read: list[str] = []
    real = sync_pass.digest
    monkeypatch.setattr(
        sync_pass, "digest", lambda path, **how: (read.append(path.name), real(path, **how))[1]
    )
    assert sync.run().sent == 0
    assert (read, sync.s3.puts) == ([], [f"{PREFIX}/latest.json"])
    sync.write("output/b", b"after!")
    done = sync.run()
    assert (read, done.sent, done.latest.number) == (["b"], 6, 2)
    assert sync.restored()["output/b"] == b"after!"


def test_an_agent_that_was_restarted_sends_nothing_twice(sync: Sync) -> None:
    commit(sync.root, 10)
    sync.write("output/a", b"same")
    sync.run()
    sync.restart()
    sync.s3.puts.clear()
    assert sync.run().sent == 0
    assert sync.s3.puts == [f"{PREFIX}/latest.json"]


def test_a_copy_is_whole_after_a_kill_at_any_request(sync: Sync) -> None:
    commit(sync.root, 10)
    sync.write("output/a", b"first")
    sync.run()
    before = sync.restored()
    shutil.rmtree(sync.root / checkpoint(10))
    commit(sync.root, 20, body=b"newer")
    sync.write("output/a", b"second")
    after = None
    for dies_at in range(1, 100):
        requests = 0

        def count(verb: str, key: str) -> None:
            nonlocal requests
            requests += verb == "put"
            if requests == dies_at:  # noqa: B023
                raise KeyboardInterrupt

        sync.restart()
        sync.s3.before = count
        try:
            sync.run()
        except KeyboardInterrupt:
            sync.s3.before = lambda verb, key: None
            assert sync.restored() in (before, after)
            continue
        sync.s3.before = lambda verb, key: None
        after = sync.restored()
        break
    assert after is not None
    assert after["output/a"] == b"second"
    assert f"{checkpoint(20)}/manifest.json" in after


def test_an_older_checkpoint_leaves_the_list_only_for_a_newer_one_of_its_kind(sync: Sync) -> None:
    path = commit(sync.root, 10)
    sync.run()
    shutil.rmtree(path)
    commit(sync.root, 20).joinpath("rank-0/model.pt").write_bytes(b"torn")
    assert sync.run().latest.last_step == 10
    assert f"{checkpoint(10)}/manifest.json" in sync.restored()
    commit(sync.root, 30, body=b"whole")
    assert sync.run().latest.last_step == 30
    keys = sync.restored()
    assert not any(key.startswith(checkpoint(10)) for key in keys)
    assert not any(key.startswith(checkpoint(20)) for key in keys)


def test_a_checkpoint_that_is_kept_here_is_kept_there(sync: Sync) -> None:
    commit(sync.root, 10)
    sync.run()
    commit(sync.root, 20, body=b"newer")
    sync.run()
    assert {key.split("/")[1] for key in sync.restored()} == {
        checkpoint(step).partition("/")[2] for step in (10, 20)
    }


def test_a_checkpoint_that_is_pruned_while_it_is_sent_is_sent_whole(sync: Sync) -> None:
    path = commit(sync.root, 10, body=b"x" * 5000)
    sync.s3.before = lambda verb, key: verb == "put" and shutil.rmtree(path, ignore_errors=True)
    assert sync.run().latest.last_step == 10
    assert sync.restored()[f"{checkpoint(10)}/rank-0/model.pt"] == b"x" * 5000


def test_without_links_a_checkpoint_that_is_pruned_is_no_half_copy(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    commit(sync.root, 10)
    sync.run()
    path = commit(sync.root, 20, body=b"newer")
    sync.s3.before = lambda verb, key: verb == "put" and shutil.rmtree(path, ignore_errors=True)
    assert sync.run().latest.last_step == 10


def test_without_room_for_the_next_save_no_names_hold_a_checkpoint(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "room_for", lambda root, size: False)
    commit(sync.root, 10)
    held = []
    sync.s3.before = lambda verb, key: held.append((sync.root / ".sync-held").exists())
    assert sync.run().latest.last_step == 10
    assert not any(held)


def test_a_file_that_grows_for_ever_is_copied_as_it_was_at_one_moment(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sync.write("output/train.log", b"line 1\n")
    real = sync_pass.digest

    def grows(file: Path, **how: Any) -> Any:
        with open(path, "ab") as stream:
            stream.write(b"one more line\n")
        return real(file, **how)

    monkeypatch.setattr(sync_pass, "digest", grows)
    assert sync.run().latest.left_out == 0
    assert sync.restored()["output/train.log"] == b"line 1\n"
    sync.run()
    assert sync.restored()["output/train.log"].startswith(b"line 1\none more line\n")


def test_a_file_that_never_keeps_still_keeps_its_last_copy_and_holds_up_no_other(
    sync: Sync,
) -> None:
    path = sync.write("output/state", b"first")
    sync.run()
    sync.write("output/state", b"later")
    sync.write("output/other", b"other")
    numbers = iter(range(100))

    def rewrite(verb: str, key: str) -> None:
        if verb == "put" and not key.endswith(".json"):
            path.write_bytes(b"%05d" % next(numbers))

    sync.s3.before = rewrite
    sync.run()
    assert next(numbers) <= 1 + sync_pass.TRIES_OF_A_FILE, "it is not tried for ever"
    assert sync.restored() == {"output/state": b"first", "output/other": b"other"}


def test_a_file_that_is_being_written_does_not_replace_its_last_whole_copy(sync: Sync) -> None:
    torch_file = b"PK\x03\x04" + b"\0" * 100
    sync.write("work/snapshot.pt", b"whole, in a format that says nothing")
    sync.run()
    sync.write("work/snapshot.pt", torch_file)
    sync.run()
    assert sync.restored()["working/snapshot.pt"].startswith(b"whole")
    sync.write("work/first.pt", torch_file)
    sync.run()
    assert sync.restored()["working/first.pt"] == torch_file, "better than nothing"


def test_a_torn_save_is_not_listed_beside_a_whole_one_of_its_series(sync: Sync) -> None:
    sync.write("work/epoch-1.pt", b"whole, in a format that says nothing")
    sync.run()
    sync.write("work/epoch-2.pt", b"PK\x03\x04" + b"\0" * 100)
    sync.run()
    assert "working/epoch-2.pt" not in sync.restored()
    assert "working/epoch-1.pt" in sync.restored()


def test_a_log_of_json_lines_is_copied_as_it_grows(sync: Sync) -> None:
    sync.write("work/scalars.json", b'{"step": 1}\n{"step": 2}\n')
    sync.run()
    sync.write("work/scalars.json", b'{"step": 1}\n{"step": 2}\n{"step": 3}\n')
    sync.run()
    assert sync.restored()["working/scalars.json"].endswith(b'{"step": 3}\n')


def test_a_file_that_changes_again_within_a_tick_is_read_again(sync: Sync) -> None:
    path = sync.write("output/a", b"one", age=0.0)
    sync.run()
    about = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    sync.run()
    assert sync.restored()["output/a"] == b"two"


def test_what_the_program_removed_leaves_the_list_and_later_s3(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = sync.write("output/gone", b"gone")
    sync.write("output/stays", b"stays")
    sync.run()
    key = f"{PREFIX}/{hashlib.sha256(b'gone').hexdigest()}"
    gone.unlink()
    sync.run()
    assert set(sync.restored()) == {"output/stays"}
    assert key in sync.s3.objects, "who reads the older list can end that"
    monkeypatch.setattr(sync_pass, "GRACE_SECONDS", 0.0)
    sync.restart()
    sync.run()
    assert key not in sync.s3.objects
    assert sorted(sync.s3.objects) == sorted(
        f"{PREFIX}/{name}"
        for name in ("latest.json", "manifest-2.json", hashlib.sha256(b"stays").hexdigest())
    )


def test_an_older_list_and_what_a_dead_pass_sent_are_deleted(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_pass, "GRACE_SECONDS", 0.0)
    left = hashlib.sha256(b"of a dead pass").hexdigest()
    sync.s3.objects[f"{PREFIX}/{left}"] = b"of a dead pass"
    sync.s3.objects[f"{PREFIX}/manifest-7.json"] = b"{}"
    sync.write("output/a", b"a")
    assert sync.run().latest.number == 8
    assert f"{PREFIX}/{left}" not in sync.s3.objects
    assert f"{PREFIX}/manifest-7.json" not in sync.s3.objects


def test_what_cannot_be_deleted_is_told_and_the_copy_counts(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_pass, "GRACE_SECONDS", 0.0)
    sync.s3.objects[f"{PREFIX}/manifest-1.json"] = b"{}"

    def denied(verb: str, key: str) -> None:
        if verb == "delete":
            raise Refused(403, "AccessDenied")

    sync.s3.before = denied
    sync.write("output/a", b"a")
    assert "AccessDenied" in sync.run().undeleted
    assert sync.restored() == {"output/a": b"a"}


@pytest.mark.parametrize("error", [Unreachable("no answer"), Refused(200, "<Error> of one key")])
def test_what_may_have_been_deleted_is_sent_again_when_it_is_needed_again(
    sync: Sync, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(sync_pass, "GRACE_SECONDS", 0.0)
    flag = sync.write("output/flag", b"saving")
    sync.write("output/other", b"old")
    sync.run()
    flag.unlink()
    sync.write("output/other", b"new")
    real, key = sync.s3.delete, f"{PREFIX}/{hashlib.sha256(b'old').hexdigest()}"

    def half(bucket: str, keys: Sequence[str]) -> None:
        real(bucket, [one for one in keys if one != key])
        if keys:
            raise error

    monkeypatch.setattr(sync.s3, "delete", half)
    sync.run()
    monkeypatch.setattr(sync.s3, "delete", real)
    sync.write("output/flag", b"saving")
    sync.run()
    assert sync.restored() == {"output/flag": b"saving", "output/other": b"new"}
    assert key not in sync.s3.objects, "what is still there is deleted by the next pass"


def test_a_filesystem_that_went_away_removes_nothing(sync: Sync) -> None:
    commit(sync.root, 10)
    sync.write("output/a", b"a")
    sync.run()
    before = sync.restored()
    for path in sync.root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(OSError, match="not there"):
        sync.run()
    assert sync.restored() == before


def test_an_older_attempt_writes_nothing_any_more(sync: Sync) -> None:
    sync.write("output/a", b"a")
    sync.run()
    (sync.root / "fence").write_text("2\n")
    sync.write("output/a", b"of the old attempt")
    with pytest.raises(Superseded):
        sync.run()
    assert sync.restored() == {"output/a": b"a"}


def test_an_agent_whose_run_goes_on_elsewhere_stops(sync: Sync) -> None:
    sync.write("output/a", b"a")
    sync.run()
    latest = sync.synced.latest(RUN)
    assert latest is not None
    sync.synced.put_in_force(latest.changed(attempt=2))
    with pytest.raises(Superseded, match="attempt 2"):
        sync.run()


def test_a_pass_stops_between_two_blocks(sync: Sync) -> None:
    sync.write("output/a", b"a")
    sync.s3.before = lambda verb, key: sync.stop.set() if verb == "put" else None
    with pytest.raises(Stopped):
        sync.run()
    assert sync.synced.latest(RUN) is None


def test_s3_that_does_not_answer_for_a_moment_is_asked_again(sync: Sync) -> None:
    answers: Iterator[Callable[[], None]] = iter([_silent, _silent])
    sync.write("output/a", b"a")
    sync.s3.before = lambda verb, key: next(answers, _fine)() if verb == "put" else None
    sync.run()
    assert sync.restored() == {"output/a": b"a"}


def test_a_list_that_somebody_changed_is_written_anew(sync: Sync) -> None:
    sync.write("output/a", b"a")
    sync.run()
    sync.s3.objects[f"{PREFIX}/manifest-1.json"] += b" "
    sync.restart()
    assert sync.run().latest.number == 2
    assert sync.restored() == {"output/a": b"a"}


def test_a_checkpoint_that_cannot_be_read_holds_up_nothing_else(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(sync.root, 10)
    bad = commit(sync.root, 20)
    sync.write("output/a", b"a")
    real = sync_pass.read_manifest

    def bad_sector(path: Path, run_id: str) -> Any:
        if path == bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, run_id)

    monkeypatch.setattr(sync_pass, "read_manifest", bad_sector)
    assert sync.run().latest.last_step == 10
    assert "output/a" in sync.restored()


def test_what_the_submission_brought_is_read_once_and_copied_only_when_it_changed(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = bundle(files={"train.py": "print()", "conf.yaml": "a: 1"})
    mark = sync.root / "attempts/1/bundle.json"
    mark.write_text(given.model_dump_json(by_alias=True))
    sync.write("work/train.py", b"print()")
    sync.write("work/conf.yaml", b"a: 2")
    looked: list[str] = []
    real = work.is_as_brought
    monkeypatch.setattr(
        work,
        "is_as_brought",
        lambda top, path, known: (looked.append(path.name), real(top, path, known))[1],
    )
    for _ in range(3):
        sync.run()
    assert sync.restored() == {"working/conf.yaml": b"a: 2"}
    assert sorted(looked) == ["conf.yaml", "train.py"]
    sync.write("work/train.py", b"print(1)")
    sync.run()
    assert set(sync.restored()) == {"working/conf.yaml", "working/train.py"}


def test_the_end_of_the_newest_attempts_log_is_there(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_pass, "LOG_BYTES", 7)
    sync.write("attempts/1/job.log", b"step 1\nstep 2\n")
    sync.run()
    assert sync.restored() == {"logs/attempt-1.log": b"step 2\n"}
    assert sync.run().sent == 0


def test_what_all_attempts_reported_is_there_and_a_large_file_waits_for_the_export(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_pass, "CURVES_BYTES", 50)
    sync.write("attempts/1/metrics.jsonl", b"{}\n")
    sync.attempt(2)
    sync.write("attempts/2/steps.jsonl", b"x" * 51)
    sync.write("attempts/2/curves.json", b"[]")
    done = sync.run()
    assert sync.restored() == {
        "curves/attempt-1.metrics.jsonl": b"{}\n",
        "curves/attempt-2.curves.json": b"[]",
    }
    assert done.latest.left_out == 0


def test_checkpoints_that_nobody_wants_exported_are_not_sent(sync: Sync) -> None:
    commit(sync.root, 10)
    sync.write("output/a", b"a")
    assert sync.run(checkpoints=False).latest.last_step is None
    assert set(sync.restored()) == {"output/a"}


def test_of_very_many_files_the_first_are_copied_and_the_others_counted(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_files, "OUTPUT_FILES", 300)
    for number in range(320):
        sync.write(f"output/{number:06}", b"%d" % number)
    done = sync.run()
    assert (done.latest.objects, done.latest.left_out) == (300, 20)
    assert sync.run().sent == 0


def links(sync: Sync) -> dict[str, str]:
    return {link.key: link.target for link in sync.listed().links}


def test_links_that_stay_in_their_directory_are_on_the_list(sync: Sync, tmp_path: Path) -> None:
    sync.write("work/runs/7/model.pt", b"m")
    (sync.root / "work/latest").symlink_to("runs/7")
    (sync.root / "work/runs/best").symlink_to(sync.root / "work/runs/7/model.pt")
    (sync.root / "work/later").symlink_to("runs/8")
    sync.write("output/a", b"a")
    (sync.root / "output/b").symlink_to("a")
    done = sync.run()
    assert links(sync) == {
        "output/b": "a",
        "working/later": "runs/8",
        "working/latest": "runs/7",
        "working/runs/best": "7/model.pt",
    }
    assert (done.latest.left_out, done.latest.objects) == (0, 2)


def test_a_link_that_leads_elsewhere_is_counted_and_not_listed(
    sync: Sync, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    sync.write("work/a", b"a")
    sync.write("output/a", b"a")
    (sync.root / "work/away").symlink_to(elsewhere)
    (sync.root / "work/other").symlink_to("../output/a")
    (sync.root / "work/gone").symlink_to(elsewhere / "nothing")
    assert sync.run().latest.left_out == 2
    assert links(sync) == {}


def test_a_link_that_moved_makes_a_new_list_and_one_that_stays_makes_none(sync: Sync) -> None:
    sync.write("work/a", b"a")
    link = sync.root / "work/latest"
    link.symlink_to("a")
    assert sync.run().latest.number == 1
    assert sync.run().latest.number == 1
    link.unlink()
    link.symlink_to("b")
    assert sync.run().latest.number == 2
    assert links(sync) == {"working/latest": "b"}


def test_of_very_many_links_the_first_are_listed_and_the_others_counted(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_files, "LINKS", 3)
    sync.write("output/a", b"a")
    for number in range(5):
        (sync.root / f"output/link-{number}").symlink_to("a")
    assert sync.run().latest.left_out == 2
    assert sorted(links(sync)) == [f"output/link-{number}" for number in range(3)]


def test_a_link_of_the_submission_is_listed_only_when_the_program_changed_it(sync: Sync) -> None:
    tree = packed({}, links={"same": "a", "moved": "a"})[0]
    given = bundle(code=BundleCode(tree=tree_id(tree.document()), prefix="packs"))
    (sync.root / "attempts/1/bundle.json").write_text(given.model_dump_json(by_alias=True))
    (sync.root / "tree.json").write_bytes(tree.document())
    sync.write("work/a", b"a")
    (sync.root / "work/same").symlink_to("a")
    (sync.root / "work/moved").symlink_to("b")
    sync.run()
    assert links(sync) == {"working/moved": "b"}


def _silent() -> None:
    raise Unreachable("no route")


def _fine() -> None: ...


def test_all_passes_together_keep_to_their_share() -> None:
    rate = Rate(1000.0)
    assert rate.wait_for(500) <= 0.5
    assert 0.5 < rate.wait_for(500) <= 1.0
