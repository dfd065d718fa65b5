"""What runs cost, added up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trainyard.app.runs.run_costs import cost_of
from trainyard.domain.errors import FieldError, InvalidRequest
from trainyard.domain.listing import Wanted
from trainyard.domain.records import Run, RunCost
from trainyard.ports import Ports

#: Runs that one answer looks at.
MOST_RUNS = 1000
_PAGE = 100


@dataclass(frozen=True)
class Total:
    """Of all runs with one owner, one label's value, or one cluster."""

    key: str
    runs: int
    #: Without the runs whose price is not known, which `unpriced` counts.
    usd: float
    unpriced: int
    useful_usd: float
    node_seconds: float


def totals(ports: Ports, by: str, wanted: Wanted) -> tuple[list[Total], bool]:
    """The dearest first, and whether there are more runs than are looked at.

    `by` is 'owner', 'cluster', 'run', or 'label:' and its key. Raises InvalidRequest.
    """
    key_of = _key_of(by)
    found: dict[str, Total] = {}
    now = ports.clock.now()
    runs = list(runs_found(ports, wanted))
    for run in runs:
        cost = run.cost if run.terminal and run.cost is not None else cost_of(ports, run, now)
        key = key_of(run)
        found[key] = _added(found.get(key) or Total(key, 0, 0.0, 0, 0.0, 0.0), cost)
    return sorted(found.values(), key=lambda one: (-one.usd, one.key)), len(runs) >= MOST_RUNS


def _added(total: Total, cost: RunCost) -> Total:
    useful = sum(line.usd or 0.0 for line in cost.ledger if line.cause == "useful")
    return Total(
        total.key,
        total.runs + 1,
        total.usd + (cost.usd or 0.0),
        total.unpriced + (cost.usd is None),
        total.useful_usd + useful,
        total.node_seconds + cost.node_seconds,
    )


def _key_of(by: str) -> Callable[[Run], str]:
    kind, colon, label = by.partition(":")
    if kind == "label" and label:
        return lambda run: run.labels.get(label, "")
    if not colon and kind == "owner":
        return lambda run: run.created_by.arn if run.created_by is not None else ""
    if not colon and kind == "cluster":
        return lambda run: run.cluster_name
    if not colon and kind == "run":
        return lambda run: run.id
    words = f"'{by[:100]}' is not one of owner, cluster, run, label:KEY, such as label:team"
    raise InvalidRequest(f"by: {words}", errors=[FieldError("by", words)])


def runs_found(ports: Ports, wanted: Wanted) -> Iterator[Run]:
    token, count = None, 0
    while True:
        page = ports.runs.list(limit=_PAGE, token=token, wanted=wanted)
        for run in page.items:
            yield run
            count += 1
            if count >= MOST_RUNS:
                return
        token = page.next_token
        if token is None:
            return
