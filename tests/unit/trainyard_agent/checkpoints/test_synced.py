"""What lies in S3 of a sync is read only where it is what an agent wrote."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from tests.support.agent import RUN
from tests.support.agent_s3 import AgentS3

from trainyard_agent.checkpoints.synced import BadSync, Synced, group_of, number_of
from trainyard_agent.host.locations import Location
from trainyard_contracts.sync_manifest import SyncedObject, SyncLatest, SyncManifest

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
OTHER = "run-01j0000000000000000000000b"


def synced() -> Synced:
    s3: Any = AgentS3()
    return Synced(s3, Location("data", f"sync/c/{RUN}"))


def manifest() -> SyncManifest:
    found = SyncedObject(key="output/a", bytes=1, sha256="ab" * 32, mode=0o755)
    return SyncManifest(run_id=RUN, attempt=1, created_at=NOW, objects=[found])


def in_force(found: Synced) -> SyncLatest:
    latest = SyncLatest(run_id=RUN, attempt=1, at=NOW, number=3, sha256=found.write(manifest(), 3))
    found.put_in_force(latest)
    return latest


def test_a_list_comes_back_as_it_was_written() -> None:
    found = synced()
    assert found.latest(RUN) is None
    latest = in_force(found)
    assert found.latest(RUN) == latest
    assert found.manifest(latest) == manifest()
    assert found.manifest(latest.changed(number=0)) is None


def test_a_list_that_was_changed_or_is_gone_is_refused() -> None:
    found = synced()
    latest = in_force(found)
    with pytest.raises(BadSync, match=r"manifest-4\.json is not there"):
        found.manifest(latest.changed(number=4))
    with pytest.raises(BadSync, match=r"manifest-3\.json was changed"):
        found.manifest(latest.changed(sha256="cd" * 32))
    with pytest.raises(BadSync, match="belongs to"):
        found.latest(OTHER)
    found.s3.put_bytes(found.at.under("latest.json"), b"{")
    with pytest.raises(BadSync, match="malformed"):
        found.latest(RUN)


def test_of_all_that_lies_there_only_lists_and_objects_are_ours() -> None:
    found = synced()
    in_force(found)
    for name in ("ab" * 32, "notes.txt", "manifest-x.json"):
        found.s3.put_bytes(found.at.under(name), b"")
    assert found.names() == {"ab" * 32, "manifest-3.json"}
    found.discard()
    objects: Any = found.s3
    left = {f"sync/c/{RUN}/{name}" for name in ("notes.txt", "manifest-x.json")}
    assert set(objects.objects) == left
    assert objects.deleted[0] == f"sync/c/{RUN}/latest.json", "no list may name what is gone"


def test_keys_say_which_checkpoint_they_belong_to() -> None:
    step = "step-000000000010-attempt-1"
    assert group_of(f"checkpoints/{step}/rank-0/model.pt") == f"checkpoints/{step}"
    assert group_of("watched/snapshot/save-1/a/b") == "watched/snapshot/save-1"
    assert [group_of(key) for key in ("output/a/b", "checkpoints/a", "working/x")] == ["", "", ""]
    assert (number_of("manifest-12.json"), number_of("ab" * 32)) == (12, 0)
