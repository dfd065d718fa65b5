"""Lists: what they are filtered by, in DynamoDB (on moto) and in the twins, and what they read."""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse
from tests.support import store_implementations
from tests.support.repository import ROOT
from tests.support.store_records import at, new_cluster, numbered_run
from tests.support.store_table import INDEXES, new_table

from trainyard.aws import listing
from trainyard.aws.clock import SystemClock
from trainyard.aws.listing import MOST_PAGES
from trainyard.aws.run_items import run_item
from trainyard.aws.runs import TableRuns
from trainyard.aws.table import Table
from trainyard.domain import errors
from trainyard.domain.listing import EVERYTHING, Wanted
from trainyard.domain.records import Run
from trainyard.outside.clusters import Clusters
from trainyard.outside.runs import Runs
from trainyard_contracts.labels import LONGEST_VALUE, normal_labels
from trainyard_contracts.people import named

ANN = named("arn:aws:iam::111122223333:user/ann").changed(id="AIDAANN")
BOB = named("arn:aws:sts::111122223333:assumed-role/Research/bob").changed(id="AROARE:bob")


@pytest.fixture(params=store_implementations.NAMES)
def runs(request: pytest.FixtureRequest, dynamodb: Any) -> Runs:
    return store_implementations.opened(request.param, dynamodb)[0]


@pytest.fixture(params=store_implementations.NAMES)
def clusters(request: pytest.FixtureRequest, dynamodb: Any) -> Clusters:
    return store_implementations.opened(request.param, dynamodb)[1]


def created(runs: Runs, number: int, **changes: Any) -> Run:
    return runs.create(numbered_run(number, **changes), idempotency_key=None, body_hash="h")


def numbers(runs: Runs, wanted: Wanted, limit: int = 100) -> list[int]:
    """Of all pages."""
    found: list[int] = []
    token = None
    while True:
        page = runs.list(limit=limit, token=token, wanted=wanted)
        found += [int(run.id.removeprefix("run-")) for run in page.items]
        if (token := page.next_token) is None:
            return found


def seven(runs: Runs) -> None:
    statuses = ["Running", "Failed", "Succeeded", "Failed", "Pending", "Cancelled", "Failed"]
    for number, status in enumerate(statuses, start=1):
        created(
            runs,
            number,
            status=status,
            name=f"demo-{number % 3}",
            created_by=ANN if number % 2 else BOB,
            labels={"exp": str(number % 2), **({"old": ""} if number > 5 else {})},
            cluster_name="shared" if number < 4 else f"own-{number}",
        )


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(statuses=frozenset({"Failed"})), [7, 4, 2]),
        (Wanted(statuses=frozenset({"Failed", "Running"})), [7, 4, 2, 1]),
        (Wanted(labels=(("exp", "1"),)), [7, 5, 3, 1]),
        (Wanted(labels=(("exp", "1"), ("old", None))), [7]),
        (Wanted(labels=(("old", ""),)), [7, 6]),
        (Wanted(labels=(("none", None),)), []),
        (Wanted(name="demo-1"), [7, 4, 1]),
        (Wanted(name="demo-*", statuses=frozenset({"Failed"})), [7, 4, 2]),
        (Wanted(name="emo-*"), []),
        (Wanted(cluster="shared"), [3, 2, 1]),
        (Wanted(since=at(3), until=at(6)), [5, 4, 3]),
        (Wanted(since=at(6)), [7, 6]),
        (Wanted(until=at(2)), [1]),
        (Wanted(since=at(6), until=at(2)), []),
        (Wanted(order="oldest", labels=(("exp", "0"),)), [2, 4, 6]),
        (Wanted(order="oldest", since=at(5)), [5, 6, 7]),
        (Wanted(owner=ANN), [7, 5, 3, 1]),
        (Wanted(owner=named(ANN.arn), statuses=frozenset({"Failed"})), [7]),
        (Wanted(owner=ANN.changed(id="AIDALATER")), []),
        (Wanted(created_by="bob"), [6, 4, 2]),
        (Wanted(created_by=BOB.arn, name="demo-2"), [2]),
        (Wanted(created_by="eve"), []),
        (EVERYTHING, [7, 6, 5, 4, 3, 2, 1]),
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_list_has_exactly_what_was_asked_for(
    runs: Runs, wanted: Wanted, found: list[int], limit: int
) -> None:
    seven(runs)
    assert numbers(runs, wanted, limit) == found


@pytest.mark.parametrize(
    "other",
    [
        EVERYTHING,
        Wanted(labels=(("exp", "2"),)),
        Wanted(labels=(("exp", None),)),
        Wanted(labels=(("exp", "1"),), order="oldest"),
        Wanted(labels=(("exp", "1"),), since=at(1)),
        Wanted(labels=(("exp", "1"),), name="demo"),
        Wanted(labels=(("exp", "1"),), cluster="shared"),
        Wanted(labels=(("exp", "1"),), owner=ANN),
        Wanted(labels=(("exp", "1"),), created_by="ann"),
        Wanted(labels=(("exp", "1"),), statuses=frozenset({"Failed"})),
    ],
)
def test_a_page_token_of_another_filter_is_refused(runs: Runs, other: Wanted) -> None:
    seven(runs)
    wanted = Wanted(labels=(("exp", "1"),))
    token = runs.list(limit=1, token=None, wanted=wanted).next_token
    assert token is not None
    assert runs.list(limit=1, token=token, wanted=wanted).items
    with pytest.raises(errors.BadPageToken):
        runs.list(limit=1, token=token, wanted=other)


def test_the_same_filter_in_another_order_is_the_same_list(runs: Runs) -> None:
    seven(runs)
    wanted = Wanted(labels=(("exp", None), ("exp", "1")))
    token = runs.list(limit=1, token=None, wanted=wanted).next_token
    swapped = Wanted(labels=(("exp", "1"), ("exp", None)))
    assert runs.list(limit=1, token=token, wanted=swapped).items


def test_a_run_is_found_by_what_it_is_now(runs: Runs) -> None:
    made = created(runs, 1, labels={"exp": "1"})
    ended = runs.put(made.changed(labels={"exp": "2", "new": ""}, status="Failed"))
    assert numbers(runs, Wanted(labels=(("exp", "1"),))) == []
    assert numbers(runs, Wanted(labels=(("exp", "2"), ("new", None)))) == [1]
    assert numbers(runs, Wanted(statuses=frozenset({"Failed"}))) == [1]
    runs.put(ended.changed(labels={}))
    assert numbers(runs, Wanted(labels=(("new", None),))) == []


def test_ids_are_found_by_their_beginning(runs: Runs) -> None:
    for number in (1, 2, 12):
        created(runs, number, status="Failed" if number == 2 else "Running")
    ids = [numbered_run(number).id for number in (12, 2, 1)]
    assert runs.beginning("run-0", at_most=9) == ids
    assert runs.beginning("run-0", at_most=2) == ids[:2]
    assert runs.beginning(ids[0][:-1], at_most=9) == ids[:1]
    assert runs.beginning("run-1", at_most=9) == []


def test_clusters_are_filtered_too(clusters: Clusters) -> None:
    for number, (name, status) in enumerate([("a-1", "Ready"), ("a-2", "Failed"), ("b", "Ready")]):
        made = clusters.create(new_cluster(name, number, labels={"team": name[0]}))
        clusters.put(made.changed(status=status))
    clusters.put(clusters.get("b").changed(status="Deleted"))

    def found(**wanted: Any) -> list[str]:
        page = clusters.list(limit=9, token=None, wanted=Wanted(**wanted))
        return [one.name for one in page.items]

    assert found(statuses=frozenset({"Ready"})) == ["a-1"]
    assert found(statuses=frozenset({"Deleted"})) == ["b"]
    assert found(labels=(("team", "a"),)) == ["a-2", "a-1"]
    assert found(name="a-*", order="oldest") == ["a-1", "a-2"]
    assert found(since=at(1), until=at(2)) == ["a-2"]


def letters() -> Iterator[str]:
    """Each letter of Unicode, in its one form, in values that are as long as a value may be."""
    every = [
        chr(number)
        for number in range(sys.maxunicode + 1)
        if unicodedata.category(chr(number)).startswith("L")
    ]
    normal = unicodedata.normalize("NFC", "".join(every))
    for begin in range(0, len(normal), LONGEST_VALUE):
        yield normal[begin : begin + LONGEST_VALUE]


def test_each_letter_of_unicode_may_be_in_a_label_and_is_found_by_it(table: Table) -> None:
    runs = TableRuns(table, SystemClock())
    chunks = list(letters())
    assert len("".join(chunks)) > 130_000
    for number, value in enumerate(chunks):
        assert normal_labels({value[:1]: value}) == {
            unicodedata.normalize("NFC", value[:1]): unicodedata.normalize("NFC", value)
        }
        if number % 100 == 0:
            labels = normal_labels({value[:1]: value})
            created(runs, number, labels=labels)
            assert numbers(runs, Wanted(labels=tuple(labels.items()))) == [number]


class Counting:
    """DynamoDB that counts its calls, and the entries that it read for them."""

    def __init__(self, dynamodb: Any) -> None:
        self._dynamodb = dynamodb
        self.calls: Counter[str] = Counter()
        self.scanned = 0

    def query(self, **request: Any) -> Any:
        self.calls["query"] += 1
        answer = self._dynamodb.query(**request)
        self.scanned += answer["ScannedCount"]
        return answer

    def batch_get_item(self, **request: Any) -> Any:
        self.calls["batch_get_item"] += 1
        return self._dynamodb.batch_get_item(**request)


class Sparse:
    """An index of which nothing matches: each answer has a place to go on from."""

    def __init__(self) -> None:
        self.calls = 0

    def query(self, **request: Any) -> Any:
        self.calls += 1
        place = {"gsi1sk": {"S": f"{9999 - self.calls:04d}"}}
        return {"Items": [], "LastEvaluatedKey": place, "ScannedCount": 1000}


def test_a_request_that_finds_nothing_ends_and_says_where_it_goes_on() -> None:
    index = Sparse()
    wanted = Wanted(name="rare")
    found, more = listing.find(Table(index, "t"), ["runs#ended"], wanted, after=None, limit=20)
    assert (found, index.calls, more) == ([], MOST_PAGES, f"{9999 - MOST_PAGES:04d}")
    assert more is not None
    *_, later = listing.find(Table(index, "t"), ["runs#ended"], wanted, after=more, limit=20)
    assert later is not None
    assert later < more


@pytest.fixture(scope="module")
def ten_thousand(dynamodb: Any) -> Table:
    """Most records are not whole: moto ends a page by their size, AWS by that of its entries."""
    table = new_table(dynamodb)
    base = run_item(numbered_run(0, name="usual", status="Succeeded", labels={"exp": "0"}))
    for begin in range(0, 10_000, 25):
        items = [{"PutRequest": {"Item": _one(base, begin + at)}} for at in range(25)]
        dynamodb.batch_write_item(RequestItems={table.name: items})
    return table


def _one(base: Mapping[str, Any], number: int) -> dict[str, Any]:
    rare = number in (0, 5_000, 9_999)
    return {
        **base,
        "doc": base["doc"] if number > 9_900 else {"S": "{}"},
        "pk": {"S": f"run#run-{number:026d}"},
        "gsi1sk": {"S": f"2026-11-20T12:00:{number:05d}#run-{number:026d}"},
        "status": {"S": "Failed" if rare else "Succeeded"},
        "labels": {"M": {"exp": {"S": "3" if rare else "0"}}},
    }


def test_ten_thousand_runs_are_searched_by_what_the_index_holds(
    dynamodb: Any, ten_thousand: Table
) -> None:
    counting = Counting(dynamodb)
    table = Table(counting, ten_thousand.name)
    wanted = Wanted(labels=(("exp", "3"),), statuses=frozenset({"Failed"}))
    found, more = listing.find(table, ["runs#ended"], wanted, after=None, limit=20)
    ids = [one.key and one.key[0] for one in found]
    assert ids == [f"run#run-{number:026d}" for number in (9_999, 5_000, 0)]
    assert (more, counting.scanned) == (None, 10_000)
    assert counting.calls["query"] <= MOST_PAGES
    assert counting.calls["batch_get_item"] == 0


def test_a_page_of_ten_thousand_runs_reads_no_more_than_the_page(
    dynamodb: Any, ten_thousand: Table
) -> None:
    counting = Counting(dynamodb)
    runs = TableRuns(Table(counting, ten_thousand.name), SystemClock())
    page = runs.list(limit=20, token=None)
    assert len(page.items) == 20
    assert counting.scanned <= 2 * (20 + 2)
    assert counting.calls == Counter(query=2, batch_get_item=1)


def test_a_sweep_reads_nothing_of_ten_thousand_runs_that_ended(
    dynamodb: Any, ten_thousand: Table
) -> None:
    counting = Counting(dynamodb)
    assert TableRuns(Table(counting, ten_thousand.name), SystemClock()).active() == []
    assert (counting.scanned, counting.calls["batch_get_item"]) == (0, 0)


def test_an_entry_that_an_older_version_wrote_is_judged_by_its_record(table: Table) -> None:
    runs = TableRuns(table, SystemClock())
    created(runs, 1, labels={"exp": "1"})
    created(runs, 2, labels={"exp": "2"})
    for number in (1, 2):
        item = dict(table.get(f"run#{numbered_run(number).id}", "run") or {})
        for name in INDEXES["listed"]["NonKeyAttributes"]:
            del item[name]
        table.put(item)
    assert numbers(runs, Wanted(labels=(("exp", "2"),))) == [2]


def test_the_index_of_the_template_holds_what_lists_are_filtered_by() -> None:
    table = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]["Table"]["Properties"]
    there = {one["IndexName"]: one["Projection"] for one in table["GlobalSecondaryIndexes"]}
    assert there == INDEXES
    written = listing.attributes(name="a", status="b", cluster="c", created_by=None)
    assert set(written) == set(INDEXES["listed"]["NonKeyAttributes"])
    assert replace(EVERYTHING, name="a").filters
