"""The audit list in DynamoDB (on moto) and in memory: once by id, newest first, page by page."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.memory import MemoryAudit, MemoryClock
from tests.support.store_table import new_table

from trainyard.aws.audit import TableAudit
from trainyard.domain import errors
from trainyard.domain.audit import AuditEntry, AuditQuery
from trainyard.outside.audit import Audit
from trainyard_contracts.people import named

NOW = datetime(2026, 11, 24, 12, 0, tzinfo=timezone.utc)
ALICE = named("arn:aws:iam::111122223333:user/alice")
KEEP = timedelta(days=400)
LONG_AGO = NOW - timedelta(days=5000)


@pytest.fixture(params=["dynamodb", "memory"])
def store(request: pytest.FixtureRequest) -> Audit:
    if request.param == "memory":
        return MemoryAudit()
    dynamodb: Any = request.getfixturevalue("dynamodb")
    return TableAudit(new_table(dynamodb), MemoryClock(NOW), KEEP)


def entry(number: int, *, at: datetime = NOW, **more: Any) -> AuditEntry:
    fields = {"id": f"r-{number}", "at": at, "who": ALICE, "what": "run.cancel"}
    return AuditEntry.model_validate({**fields, "subject": f"run/{number}", **more})


def listed(store: Audit, limit: int = 100, **query: Any) -> list[str]:
    """The ids of all pages, each with at most `limit` entries."""
    asked, found, token = AuditQuery(**{"since": LONG_AGO, **query}), [], None
    while True:
        page = store.list(asked, limit=limit, token=token)
        assert len(page.items) <= limit
        found += [one.id for one in page.items]
        token = page.next_token
        if token is None:
            return found


def test_an_entry_is_kept_once_by_its_id(store: Audit) -> None:
    assert store.add(entry(1))
    assert not store.add(entry(1, at=NOW + timedelta(seconds=1), reason="again"))
    (found,) = store.list(AuditQuery(LONG_AGO), limit=10, token=None).items
    assert found == entry(1)


def test_its_end_replaces_the_entry_and_one_that_was_never_there_has_none(store: Audit) -> None:
    store.add(entry(1))
    assert store.list(AuditQuery(LONG_AGO), limit=1, token=None).items[0].outcome == "asked"
    store.settle(entry(1, outcome="done", subject="run/x"))
    (found,) = store.list(AuditQuery(LONG_AGO), limit=10, token=None).items
    assert (found.outcome, found.subject) == ("done", "run/x")


def test_the_newest_comes_first_over_months_and_years(store: Audit) -> None:
    for number, days in enumerate((0, 20, 40, 330, 399)):
        store.add(entry(number, at=NOW - timedelta(days=days)))
    assert listed(store) == ["r-0", "r-1", "r-2", "r-3", "r-4"]
    assert listed(store, limit=1) == ["r-0", "r-1", "r-2", "r-3", "r-4"]
    assert listed(store, since=NOW - timedelta(days=40)) == ["r-0", "r-1", "r-2"]


def test_many_of_one_moment_are_each_listed_once(store: Audit) -> None:
    for number in range(25):
        store.add(entry(number))
    found = listed(store, limit=4)
    assert len(found) == len(set(found)) == 25


def test_who_what_and_subject_choose(store: Audit) -> None:
    store.add(entry(1))
    store.add(entry(2, who=None, what="node.replace", subject="node/c/i-1"))
    store.add(entry(3, what="run.submit"))
    assert listed(store, who="alice") == listed(store, who=ALICE.arn) == ["r-3", "r-1"]
    assert listed(store, who="trainyard") == ["r-2"]
    assert listed(store, what="run") == ["r-3", "r-1"]
    assert listed(store, what="run.submit") == ["r-3"]
    assert listed(store, subject="node/c/i-1") == ["r-2"]
    assert listed(store, who="ali") == []


def test_a_token_of_another_query_is_refused(store: Audit) -> None:
    for number in range(3):
        store.add(entry(number))
    token = store.list(AuditQuery(LONG_AGO), limit=1, token=None).next_token
    assert token is not None
    for query, given in ((AuditQuery(LONG_AGO, who="bob"), token), (AuditQuery(LONG_AGO), "x")):
        with pytest.raises(errors.BadPageToken):
            store.list(query, limit=1, token=given)


def test_an_entry_expires_after_the_stacks_time(dynamodb: Any) -> None:
    table = new_table(dynamodb)
    store = TableAudit(table, MemoryClock(NOW), timedelta(days=30))
    store.add(entry(1, at=NOW - timedelta(days=31)))
    store.add(entry(2, at=NOW - timedelta(days=29)))
    assert listed(store) == ["r-2"]  # DynamoDB takes its time to delete what expired
    item = table.query("audit#2026-10", "2026-10")[-1]
    assert int(item["expiresAt"]["N"]) == int((NOW + timedelta(days=1)).timestamp())


def test_a_page_reads_so_many_entries_and_no_more(
    dynamodb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainyard.aws.audit.MOST_READ", 5)
    store = TableAudit(new_table(dynamodb), MemoryClock(NOW), KEEP)
    for number in range(12):
        store.add(entry(number))
    store.add(entry(99, at=NOW - timedelta(days=1), what="run.export"))
    page = store.list(AuditQuery(LONG_AGO, what="run.export"), limit=10, token=None)
    assert page.items == []
    assert page.next_token is not None
    assert listed(store, what="run.export") == ["r-99"]
