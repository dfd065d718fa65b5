"""What of a run's directory in S3 is exported."""

from __future__ import annotations

from datetime import datetime, timezone

from trainyard.backends.training_job.chosen import choose, groups
from trainyard_contracts.files import CheckpointManifest, ManifestFile, WatchedSource

SHA = "a" * 64


def checkpoint(step: int, attempt: int = 1) -> str:
    return f"checkpoints/step-{step:012d}-attempt-{attempt}"


def manifest(step: int) -> CheckpointManifest:
    return CheckpointManifest(
        run_id="run-1",
        attempt=1,
        step=step,
        world_size=1,
        created_at=datetime(2026, 11, 24, tzinfo=timezone.utc),
        files=[ManifestFile(path="w.pt", bytes=7, sha256=SHA)],
    )


FILES = {
    f"{checkpoint(10)}/w.pt": 7,
    f"{checkpoint(10)}/manifest.json": 100,
    f"{checkpoint(20)}/w.pt": 7,
    f"{checkpoint(20)}/manifest.json": 100,
    f"{checkpoint(20, 2)}/w.pt": 7,
    f"{checkpoint(20, 2)}/manifest.json": 100,
    "final/w.pt": 7,
    "final/manifest.json": 100,
    "output/result.txt": 2,
    "work/new.txt": 3,
    "attempts/job/output/model.tar.gz": 9,
}
MANIFESTS = {
    group: manifest(int(group[17:29]) if group[0] == "c" else 0) for group in groups(FILES)
}


def test_the_newest_comes_first_and_the_model_last() -> None:
    assert groups(FILES) == [checkpoint(20, 2), checkpoint(20), checkpoint(10), "final"]


def test_all_that_is_whole_goes_with_its_manifest_after_it() -> None:
    chosen = choose(FILES, MANIFESTS, "all")
    paths = list(chosen.files)
    assert set(FILES) - set(paths) == {"attempts/job/output/model.tar.gz"}
    manifests = [path for path in paths if path.endswith("manifest.json")]
    assert paths[-len(manifests) :] == manifests
    assert (chosen.last_step, chosen.final_model) == (20, True)
    assert (chosen.count("output"), chosen.count("work")) == (1, 1)
    assert chosen.hashes["final/w.pt"] == SHA


def test_last_is_the_newest_whole_one_and_none_is_none() -> None:
    last = choose(FILES, MANIFESTS, "last")
    assert list(last.steps) == [checkpoint(20, 2)]
    none = choose(FILES, MANIFESTS, "none")
    assert (none.last_step, none.final_model) == (None, True)


def test_a_torn_checkpoint_is_none() -> None:
    torn = {**FILES, f"{checkpoint(20, 2)}/w.pt": 6}
    del torn[f"{checkpoint(20)}/w.pt"]
    assert list(choose(torn, MANIFESTS, "last").steps) == [checkpoint(10)]


def test_a_directory_whose_manifest_cannot_be_read_is_none() -> None:
    assert choose(FILES, {}, "all").files == {"output/result.txt": 2, "work/new.txt": 3}


def test_an_empty_directory_gives_an_empty_export() -> None:
    assert choose({}, {}, "all").files == {}


def test_copies_of_a_program_s_own_are_exported_as_checkpoints_of_their_series() -> None:
    def copy(number: int, step: int) -> str:
        return f"watched/work+snap.pt-1/save-{number:012d}-step-{step:012d}-attempt-1"

    groups_ = [copy(1, 10), copy(2, 30), copy(3, 3)]
    files = {f"{group}/{name}": 7 for group in groups_ for name in ("w.pt", "manifest.json")}
    source = WatchedSource(path="work/snap.pt", signature="s", modified_ns=1)
    counted = source.changed(counted=True)
    manifests = {
        group: manifest(step).changed(watched=about)
        for group, step, about in zip(groups_, (10, 30, 3), (source, source, counted), strict=True)
    }
    chosen = choose(files | FILES, manifests | MANIFESTS, "all")
    assert set(files) <= set(chosen.files)
    assert chosen.last_step == 30
    last = choose(files | FILES, manifests | MANIFESTS, "last")
    # The last copy is the newest, whatever step it says.
    assert {path for path in last.files if path.startswith("watched/")} == {
        f"{copy(3, 3)}/w.pt",
        f"{copy(3, 3)}/manifest.json",
    }
    assert last.last_step == 20
    # The copies of a program that says no step are counted, by us and in the run's list alike.
    alone = {path: size for path, size in files.items() if path.startswith(copy(3, 3))}
    assert choose(alone, {copy(3, 3): manifests[copy(3, 3)]}, "all").last_step == 3
