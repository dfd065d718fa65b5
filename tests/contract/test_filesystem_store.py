"""Filesystems in DynamoDB (on moto) and in memory pass the same tests."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.filesystem_parts import AT, filesystem, filesystem_spec
from tests.support.memory import MemoryFilesystems
from tests.support.store_table import new_table

from trainyard.aws.clock import SystemClock
from trainyard.aws.filesystems import TableFilesystems
from trainyard.domain import errors
from trainyard.domain.filesystem_records import Filesystem, Use
from trainyard.outside.filesystems import Filesystems


@pytest.fixture(params=["dynamodb", "memory"])
def store(request: pytest.FixtureRequest, dynamodb: Any) -> Filesystems:
    if request.param == "memory":
        return MemoryFilesystems(SystemClock())
    return TableFilesystems(new_table(dynamodb), SystemClock())


def named(name: str, **more: Any) -> Filesystem:
    return filesystem(filesystem_spec(name=name), **more)


def test_a_filesystem_comes_back_exactly_as_it_was_written(store: Filesystems) -> None:
    uses = [Use(cluster="one", at=AT)]
    made = store.create(named("lab", uses=uses).told(AT, "Said", "ünïcode"))
    assert store.get("lab") == made


def test_an_unknown_one_is_not_found(store: Filesystems) -> None:
    with pytest.raises(errors.FilesystemNotFound):
        store.get("none")


def test_a_name_is_taken_until_its_filesystem_is_deleted(store: Filesystems) -> None:
    first = store.create(named("lab"))
    with pytest.raises(errors.FilesystemExists):
        store.create(named("lab"))
    gone = store.put(first.changed(status="Deleted"))
    again = store.create(named("lab"))
    assert (again.generation, again.version > gone.version) == (2, True)
    with pytest.raises(errors.ConflictError):
        store.put(gone)


def test_who_writes_second_learns_that_it_was_changed(store: Filesystems) -> None:
    made = store.create(named("lab"))
    after = store.put(made.changed(status="Creating"))
    assert after.version == made.version + 1
    with pytest.raises(errors.ConflictError):
        store.put(made.changed(status="Failed"))
    assert store.get("lab").status == "Creating"


def test_a_list_has_all_and_the_active_ones_are_those_not_deleted(store: Filesystems) -> None:
    for number, name in enumerate(("a", "b", "c")):
        made = named(name).changed(created_at=AT.replace(hour=number))
        kept = store.create(made)
    store.put(kept.changed(status="Deleted"))
    assert {one.name for one in store.active()} == {"a", "b"}
    first = store.list(limit=2, token=None)
    second = store.list(limit=2, token=first.next_token)
    assert [one.name for one in [*first.items, *second.items]] == ["c", "b", "a"]
    assert second.next_token is None
    with pytest.raises(errors.BadPageToken):
        store.list(limit=2, token="nonsense")
