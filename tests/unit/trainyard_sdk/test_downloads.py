"""What comes down is what was exported; what is there already is never lost."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_api import RUN, FakeApi, a_run
from tests.support.fake_bucket import FakeBucket

from trainyard_sdk import AsyncTrainyard, downloads
from trainyard_sdk.client import Client
from trainyard_sdk.downloads import Result, download, selected
from trainyard_sdk.problems import InvalidInput, SdkError, Unreachable

OBJECTS = {
    "final/model.pt": b"m" * 300_000,
    "output/a.txt": b"a",
    "output/empty": b"",
    "logs/attempt-1.log": b"log\n" * 1000,
}


class Served:
    """A run's export: pages of two objects, whose URLs can expire."""

    def __init__(self, api: FakeApi, bucket: FakeBucket) -> None:
        self.api, self.bucket, self.objects = api, bucket, dict(OBJECTS)
        self.expire_first = False
        self.pages: list[str] = []
        api.answers[f"GET /v1/runs/{RUN}/outputs"] = self.page

    def page(self, query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        start = int(query.get("nextToken", 0))
        self.pages.append(str(start))
        keys = list(self.objects)
        found = []
        for key in keys[start : start + 2]:
            body = self.objects[key]
            self.bucket.objects.setdefault(f"export/{key}", body)
            found.append(
                {
                    "key": key,
                    "bytes": len(body),
                    "sha256": hashlib.sha256(body).hexdigest(),
                    "url": self.bucket.url(f"export/{key}") if "urls" in query else None,
                }
            )
        if self.expire_first:
            self.expire_first = False
            self.bucket.expire()
        more = str(start + 2) if start + 2 < len(keys) else None
        return 200, {"uri": "s3://bucket/export/", "outputs": found, "nextToken": more}


@pytest.fixture
def served(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(downloads, "PAUSE_SECONDS", 0.0)
    bucket = FakeBucket()
    yield Served(api, bucket)
    bucket.close()


def bring(to: Path, pattern: str | None = None, *, force: bool = False) -> Result:
    with Client.connect() as client:
        return download(
            client, RUN, pattern=pattern, to=to, force=force, told=lambda done, total: None
        )


def there(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("key", "pattern", "yes"),
    [
        ("final/model.pt", None, True),
        ("final/model.pt", "final", True),
        ("final/model.pt", "final/", True),
        ("final/model.pt", "*.pt", True),
        ("final/model.pt", "fin", False),
        ("final/model.pt", "*.txt", False),
        ("working/model.pt", "model.pt", True),
        ("working/model.pt", "*.pt", True),
        ("working/model.pt", "a/model.pt", False),
    ],
)
def test_a_pattern_names_files_or_directories(key: str, pattern: str | None, yes: bool) -> None:
    assert selected(key, pattern) is yes


@pytest.mark.real
def test_everything_comes_down_once(served: Served, tmp_path: Path) -> None:
    to = tmp_path / "to"
    first = bring(to)
    assert there(to) == OBJECTS
    assert (sorted(first.fetched), first.bytes) == (
        sorted(OBJECTS),
        sum(map(len, OBJECTS.values())),
    )
    asked = len(served.bucket.gets)
    again = bring(to)
    assert (again.fetched, sorted(again.there)) == ([], sorted(OBJECTS))
    assert len(served.bucket.gets) == asked


@pytest.mark.real
def test_only_what_is_asked_for_comes_down(served: Served, tmp_path: Path) -> None:
    assert bring(tmp_path / "to", "output").fetched
    assert set(there(tmp_path / "to")) == {"output/a.txt", "output/empty"}


@pytest.mark.real
def test_how_much_of_it_are_copies_of_checkpoints_is_counted(
    served: Served, tmp_path: Path
) -> None:
    served.objects = {"working/a.pt": b"12345", "watched/work+a.pt-0/save-1/a.pt": b"12345"}
    found = bring(tmp_path / "to")
    assert (found.bytes, found.watched_bytes) == (10, 5)
    assert bring(tmp_path / "other", "working").watched_bytes == 0


@pytest.mark.real
def test_what_was_cut_goes_on_where_it_was(served: Served, tmp_path: Path) -> None:
    served.objects = {"final/model.pt": OBJECTS["final/model.pt"]}
    served.bucket.misbehave["GET"] = ["cut", 500, "cut"]
    bring(tmp_path / "to")
    assert there(tmp_path / "to") == served.objects
    ranges = [wanted for _, wanted in served.bucket.gets]
    assert ranges == [None, "bytes=150000-", "bytes=150000-", "bytes=225000-"]


@pytest.mark.real
def test_a_later_call_goes_on_where_an_earlier_one_stopped(served: Served, tmp_path: Path) -> None:
    served.objects = {"final/model.pt": OBJECTS["final/model.pt"]}
    served.bucket.misbehave["GET"] = ["cut", *[500] * 4]
    with pytest.raises(Unreachable, match="500"):
        bring(tmp_path / "to")
    assert "final/model.pt" not in there(tmp_path / "to")
    bring(tmp_path / "to")
    assert there(tmp_path / "to") == served.objects
    assert served.bucket.gets[-1][1] == "bytes=150000-"


@pytest.mark.real
def test_a_task_that_is_cancelled_ends_its_download_and_the_next_one_brings_the_rest(
    served: Served, tmp_path: Path
) -> None:
    """Else asyncio waits at its end for a thread that brings terabytes."""
    asked, cancelled = threading.Event(), threading.Event()

    def held(query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if query.get("nextToken") == "4":
            asked.set()
            cancelled.wait(30)
        return served.page(query)

    async def cut(yard: AsyncTrainyard) -> None:
        run = await yard.run(RUN)
        bringing = asyncio.create_task(run.download(tmp_path / "to"))
        await asyncio.to_thread(asked.wait, 30)
        bringing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await bringing
        cancelled.set()

    served.objects = {f"output/{number:02}": b"x" * 1000 for number in range(60)}
    run = a_run(generation=1, life=1, priority=0, attempts=[])
    served.api.answers[f"GET /v1/runs/{RUN}"] = (200, run)
    served.api.answers[f"GET /v1/runs/{RUN}/outputs"] = held
    with Client.connect() as client:
        asyncio.run(cut(AsyncTrainyard(client=client)))
    assert len(served.pages) <= 4
    bring(tmp_path / "to")
    assert there(tmp_path / "to") == served.objects


@pytest.mark.real
def test_many_downloads_at_once_keep_no_other_call_waiting(served: Served, tmp_path: Path) -> None:
    """asyncio has a few threads for all, and a download takes hours."""
    many = (os.cpu_count() or 1) + 8
    asked, looked = threading.Semaphore(0), threading.Event()

    def held(query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked.release()
        looked.wait(60)
        return served.page(query)

    async def bring_all(yard: AsyncTrainyard) -> None:
        run = await yard.run(RUN)
        downloads = [
            asyncio.create_task(run.download(tmp_path / str(number))) for number in range(many)
        ]
        while not asked.acquire(blocking=False):  # the first of them is on its way
            await asyncio.sleep(0)
        try:
            await asyncio.wait_for(run.refresh(), 20)
        finally:
            looked.set()
        await asyncio.gather(*downloads)

    run = a_run(generation=1, life=1, priority=0, attempts=[])
    served.api.answers[f"GET /v1/runs/{RUN}"] = (200, run)
    served.api.answers[f"GET /v1/runs/{RUN}/outputs"] = held
    with Client.connect() as client:
        asyncio.run(bring_all(AsyncTrainyard(client=client)))
    assert all(there(tmp_path / str(number)) == served.objects for number in range(many))


@pytest.mark.real
def test_urls_that_expired_are_asked_for_again(served: Served, tmp_path: Path) -> None:
    served.expire_first = True
    bring(tmp_path / "to")
    assert there(tmp_path / "to") == OBJECTS


@pytest.mark.real
def test_an_object_that_is_not_what_the_list_says_is_never_put_in_its_place(
    served: Served, tmp_path: Path
) -> None:
    served.bucket.objects["export/output/a.txt"] = b"b"
    with pytest.raises(Unreachable, match="its SHA-256 is not that of the list"):
        bring(tmp_path / "to", "output/a.txt")
    assert "output/a.txt" not in there(tmp_path / "to")


@pytest.mark.real
def test_a_file_that_differs_stays_unless_it_is_forced(served: Served, tmp_path: Path) -> None:
    to = tmp_path / "to"
    (to / "output").mkdir(parents=True)
    (to / "output/a.txt").write_text("mine")
    found = bring(to, "output")
    assert (found.kept, found.fetched) == (["output/a.txt"], ["output/empty"])
    assert (to / "output/a.txt").read_text() == "mine"
    bring(to, "output", force=True)
    assert (to / "output/a.txt").read_bytes() == b"a"


@pytest.mark.real
@pytest.mark.parametrize("key", ["../x", "/etc/x", "a/../../x", "a//x", "link/x", "."])
def test_nothing_is_written_outside_of_the_directory(
    served: Served, tmp_path: Path, key: str
) -> None:
    to = tmp_path / "to"
    to.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (to / "link").symlink_to("../elsewhere")
    served.objects = {key: b"x"}
    with pytest.raises(InvalidInput, match="leads out of"):
        bring(to)
    assert there(tmp_path) == {"local.json": (tmp_path / "local.json").read_bytes()}


@pytest.mark.real
def test_a_link_in_the_place_of_a_file_is_not_written_through(
    served: Served, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    (to / "output").mkdir(parents=True)
    (tmp_path / "mine").write_text("mine")
    (to / "output/a.txt").symlink_to(tmp_path / "mine")
    assert bring(to, "output/a.txt").kept == ["output/a.txt"]
    bring(to, "output/a.txt", force=True)
    assert (tmp_path / "mine").read_text() == "mine"
    assert (to / "output/a.txt").read_bytes() == b"a"
    assert not (to / "output/a.txt").is_symlink()


@pytest.mark.real
def test_a_directory_in_the_place_of_a_file_is_told(served: Served, tmp_path: Path) -> None:
    (tmp_path / "to/output/a.txt").mkdir(parents=True)
    with pytest.raises(SdkError, match=r"a\.txt: Is a directory"):
        bring(tmp_path / "to", "output/a.txt", force=True)


@pytest.mark.real
def test_the_commands_list_and_fetch_and_say_what_they_kept(
    served: Served,
    trainyard: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = trainyard("run", "outputs", RUN)
    sha256 = hashlib.sha256(OBJECTS["output/a.txt"]).hexdigest()
    assert code == 0
    assert f"       1 B  {sha256}  output/a.txt\n" in out
    assert "4 objects, 296.9 KiB, below s3://bucket/export/" in err
    code, out, _ = trainyard("run", "download", RUN)
    assert (code, out) == (0, f"4 files, 296.9 KiB, to {RUN}\n")
    assert there(tmp_path / RUN) == {**OBJECTS, ".gitignore": b"*\n"}
    (tmp_path / RUN / "output/a.txt").write_text("mine")
    code, out, err = trainyard("run", "download", RUN, "output")
    assert (code, "kept output/a.txt" in err) == (4, True)
    assert trainyard("run", "download", RUN, "nothing")[0] == 3
    code, out, err = trainyard("--json", "run", "download", RUN, "logs", "--to", "x")
    assert (code, err, '"downloaded": [\n    "logs/attempt-1.log"' in out) == (0, "", True)


@pytest.mark.real
def test_what_was_synced_is_listed_and_fetched_and_not_taken_for_the_export(
    served: Served,
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def page(*asked: Any) -> Any:
        status, found = served.page(*asked)
        return status, {**found, "source": "sync", "syncedAt": "2026-01-01T00:00:00Z"}

    monkeypatch.chdir(tmp_path)
    api.answers[f"GET /v1/runs/{RUN}/outputs"] = page
    code, out, err = trainyard("run", "outputs", RUN)
    assert (code, "output/a.txt" in out) == (0, True)
    assert "Synced 20" in err
    assert "not the verified export" in err
    assert '"source": "sync"' in trainyard("--json", "run", "outputs", RUN)[1]
    code, _, err = trainyard("run", "download", RUN)
    assert (code, "not the verified export" in err) == (0, True)
    assert there(tmp_path / RUN) == {**OBJECTS, ".gitignore": b"*\n"}
