"""What keeps a cluster from being deleted."""

from __future__ import annotations

from datetime import timedelta

from tests.support.cluster_facts import creating, fact
from tests.support.records import NOW, run

from trainyard.domain.facts import Unreadable
from trainyard.domain.records import Attempt, Export
from trainyard.domain.teardown import blocker


def test_a_cluster_in_use_or_with_the_only_copy_is_not_deleted() -> None:
    ready = creating(status="Ready")
    assert blocker(ready, [], []) is None
    assert "used by run-1" in str(blocker(ready, [run()], []))
    trained = [Attempt(number=1, submitted_at=NOW)]
    assert "used by run-1" in str(blocker(ready, [run(outcome="succeeded", attempts=trained)], []))
    verified = Export(id="x", state="verified", final=True, requested_at=NOW)
    assert blocker(ready, [run(outcome="succeeded", attempts=trained, export=verified)], []) is None
    unsaved = fact("UnsavedRun", runId="run-9", generation=1)
    assert "holds results of run-9 that are in no verified export" in str(
        blocker(ready, [], [unsaved])
    )
    saved = fact("SavedRun", runId="run-9", generation=1).model_copy(
        update={"at": NOW + timedelta(seconds=1)}
    )
    assert blocker(ready, [], [unsaved, saved]) is None
    assert blocker(creating(status="Failed"), [run()], [unsaved]) is None


def test_checkpoints_of_an_earlier_cluster_of_the_same_name_block_nothing() -> None:
    assert (
        blocker(
            creating(status="Ready", generation=2),
            [],
            [fact("UnsavedRun", runId="run-9", generation=1)],
        )
        is None
    )


def test_a_cluster_of_which_something_cannot_be_read_is_kept_until_a_person_gives_it_up() -> None:
    unknown = Unreadable(id="of-a-newer-version", at=NOW)
    why = blocker(creating(status="Ready"), [], [unknown])
    assert why is not None
    assert "a run of which fact of-a-newer-version tells, which cannot be read" in why
    assert blocker(creating(status="Ready", delete_forced=True), [], [unknown]) is None
