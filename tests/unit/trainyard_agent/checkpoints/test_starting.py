"""A run begins with another run's checkpoint: whole, its own from then on, and brought once."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import time
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest
from tests.support.agent import RUN
from tests.support.checkpoints import save
from tests.support.dying import dies
from tests.support.foreign import archive, hugging_face, step_of_archive
from tests.unit.trainyard_agent.jobs.test_work import bundle

from trainyard_agent.checkpoints import starting
from trainyard_agent.checkpoints.keeping import take
from trainyard_agent.checkpoints.kept import Save
from trainyard_agent.checkpoints.patterns import look
from trainyard_agent.checkpoints.starting import Starts
from trainyard_agent.checkpoints.starting import start_from as start_from_there
from trainyard_agent.checkpoints.verifying import verify
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Unreachable
from trainyard_agent.host.locations import Location
from trainyard_contracts.bundle_parts import BundleStart
from trainyard_contracts.job_bundle import JobBundle
from trainyard_job.checkpoints import checkpoint
from trainyard_job.common.attempt import Attempt

OTHER = "run-01j0000000000000000000000b"
NAME = "step-000000000007-attempt-2"


class Bucket:
    """S3 with an export below x/."""

    def __init__(self, exported: Path | None = None) -> None:
        found = [] if exported is None else [path for path in exported.rglob("*") if path.is_file()]
        self.objects = {f"x/{path.relative_to(exported)}": path.read_bytes() for path in found}  # type: ignore[arg-type]
        self.fetched: list[str] = []
        self.down = False

    def get_file(self, at: Location, into: IO[bytes]) -> bool:
        if self.down:
            raise Unreachable("S3 is away")
        self.fetched.append(at.key)
        into.write(self.objects.get(at.key, b""))
        return at.key in self.objects


def start_from(root: Path, bundle: JobBundle, s3: Any = None) -> None:
    start_from_there(root, bundle, s3 or Bucket(), "data")


def other(tmp_path: Path) -> Path:
    """The other run, with a checkpoint of step 7 of its second attempt."""
    root = tmp_path / OTHER
    attempt = Attempt(
        run_id=OTHER,
        number=2,
        run_dir=root,
        checkpoint_dir=root / "checkpoints",
        attempt_dir=root / "attempts/2",
    )
    root.mkdir(exist_ok=True)
    files = {"model.pt": lambda into: into.write(b"w" * 500), "a/b": lambda into: into.write(b"b")}
    save(attempt, 7, files)
    return root


def asked(path: str = f"checkpoints/{NAME}", step: int = 7) -> JobBundle:
    return bundle(start_from=BundleStart(run_id=OTHER, path=path, step=step))


def test_it_is_the_runs_own_from_then_on_for_the_agent_and_for_the_program(tmp_path: Path) -> None:
    there, root = other(tmp_path), tmp_path / RUN
    start_from(root, asked())
    (found,) = (root / "checkpoints").iterdir()
    assert found.name == "step-000000000007-attempt-1"
    assert verify(found, RUN)[0].step == 7
    newest, rejected = checkpoint.find_newest(root / "checkpoints", run_id=RUN)
    assert newest is not None
    assert (newest.step, newest.attempt, rejected) == (7, 1, {})
    assert (found / "model.pt").samefile(there / "checkpoints" / NAME / "model.pt"), "shared"
    shutil.rmtree(there)
    assert verify(found, RUN)[0].step == 7, "the other run may prune its own"


def test_what_the_program_removed_later_does_not_come_back(tmp_path: Path) -> None:
    other(tmp_path)
    root = tmp_path / RUN
    assert not Starts.brought(root, asked())
    start_from(root, asked())
    shutil.rmtree(root / "checkpoints")
    assert Starts.brought(root, asked())


def test_a_file_system_without_links_has_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other(tmp_path)

    def refused(*_: Any, **__: Any) -> None:
        raise OSError(errno.EXDEV, "no links here")

    monkeypatch.setattr(os, "link", refused)
    start_from(tmp_path / RUN, asked())
    assert verify(tmp_path / RUN / "checkpoints/step-000000000007-attempt-1", RUN)


@pytest.mark.parametrize("name", ["work/snapshot.pt", "output/checkpoint-5"])
def test_a_programs_own_checkpoint_goes_to_the_place_that_it_had(tmp_path: Path, name: str) -> None:
    there, root = tmp_path / OTHER, tmp_path / RUN
    if name.endswith(".pt"):
        (there / "work").mkdir(parents=True)
        (there / name).write_bytes(archive(5))
    else:
        hugging_face(there / name, 5)
    match = look(there, name)
    assert match is not None
    copy = take(there, match, Save(OTHER, 1, 5, False, 2, False, lambda: None))
    start_from(root, asked(str(copy.path.relative_to(there)), 5))
    now = look(root, name)
    assert now is not None
    if name.endswith(".pt"):
        assert step_of_archive(root / name) == 5
    else:
        assert {file.name for file in (root / name).iterdir()} == {
            file.name for file in (there / name).iterdir()
        }


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("checkpoints/step-000000000008-attempt-1", "no manifest"),
        ("../elsewhere", "stays inside its root"),
    ],
)
def test_one_that_is_gone_is_refused_by_its_field(tmp_path: Path, path: str, words: str) -> None:
    other(tmp_path)
    with pytest.raises(CommandRefused, match=words) as refused:
        start_from(tmp_path / RUN, asked(path))
    assert refused.value.code == "bundle-refused"
    assert "checkpoint.startFrom: step 7 of" in str(refused.value)


def test_a_torn_one_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    path = other(tmp_path) / "checkpoints" / NAME / "model.pt"
    path.write_bytes(b"x" * 500)
    with pytest.raises(CommandRefused, match="does not have the hash"):
        start_from(tmp_path / RUN, asked())
    assert not (tmp_path / RUN).exists()


@pytest.mark.parametrize("own", [True, False])
def test_what_only_the_export_has_is_brought_from_there(tmp_path: Path, own: bool) -> None:
    there, root = tmp_path / OTHER, tmp_path / RUN
    if own:
        source = other(tmp_path) / "checkpoints" / NAME
    else:
        (there / "work").mkdir(parents=True)
        (there / "work/snapshot.pt").write_bytes(archive(7))
        match = look(there, "work/snapshot.pt")
        assert match is not None
        source = take(there, match, Save(OTHER, 1, 7, False, 2, False, lambda: None)).path
    bucket = Bucket(source)
    start = BundleStart(run_id=OTHER, path=str(source.relative_to(there)), step=7, export="x")
    shutil.rmtree(there)
    bucket.down = True
    with pytest.raises(CommandRefused, match="S3 is away"):
        start_from(root, bundle(start_from=start), bucket)
    bucket.down = False
    start_from(root, bundle(start_from=start), bucket)
    if own:
        assert verify(root / "checkpoints/step-000000000007-attempt-1", RUN)
    else:
        assert step_of_archive(root / "work/snapshot.pt") == 7
    assert not list(root.glob(".work-*"))


def test_an_export_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    bucket = Bucket(other(tmp_path) / "checkpoints" / NAME)
    shutil.rmtree(tmp_path / OTHER)
    del bucket.objects["x/model.pt"]
    start = BundleStart(run_id=OTHER, path=f"checkpoints/{NAME}", step=7, export="x")
    with pytest.raises(CommandRefused, match=r"s3://data/x/model\.pt is not there"):
        start_from(tmp_path / RUN, bundle(start_from=start), bucket)
    assert not Starts.brought(tmp_path / RUN, bundle(start_from=start))


@pytest.mark.real
def test_after_a_kill_at_any_line_the_next_one_finishes_it(tmp_path: Path) -> None:
    other(tmp_path)
    for line in range(1, 200):
        root = tmp_path / f"{RUN[:-2]}{line:02d}"[:30]
        shutil.rmtree(root, ignore_errors=True)
        if not dies(starting.__file__, line, partial(start_from, root, asked())):
            break
        start_from(root, asked())
        (found,) = (root / "checkpoints").iterdir()
        assert verify(found, RUN)
    else:
        raise AssertionError("it never ended")
    assert line > 15


def test_a_submit_that_comes_meanwhile_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other(tmp_path)

    async def story() -> None:
        starts: Any = Starts(Bucket())  # type: ignore[arg-type]
        with pytest.raises(CommandRefused, match="still being read"):
            await starts.bring(tmp_path / RUN, asked(), "data", time.monotonic())
        await starts.bring(tmp_path / RUN, asked(), "data", time.monotonic() + 60)
        assert Starts.brought(tmp_path / RUN, asked())

    asyncio.run(asyncio.wait_for(story(), 60))
