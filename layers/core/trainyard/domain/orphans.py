"""When the sweep may delete a cluster that no living record accounts for.

It needs proof, and deletes only a few at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trainyard.domain.records import Cluster, Run
from trainyard.domain.teardown import unsaved_runs, users_of
from trainyard_contracts.events import Fact
from trainyard_contracts.places import RECORD_TAG

#: The share of the clusters with our tag that may be orphans at once, one at least; more are a sign
#: that the records are wrong.
SHARE = 0.1


def kept_because(record: Cluster | None, arn: str, tags: Mapping[str, str]) -> str:
    """Why the records do not prove that this stack made the cluster and is done; '' if so."""
    if record is None:
        return "no record has its name: the table may be new, restored, or another stack's"
    if record.status != "Deleted":
        return (
            f"the record of its name is {record.status} and of another cluster "
            f"({record.arn or 'which AWS has not named yet'})"
        )
    if record.adoption is not None:
        return "the record of its name is of a cluster that others made, and was only released"
    if record.arn is not None:
        return (
            ""
            if record.arn == arn
            else f"the record of its name is of another cluster, {record.arn}"
        )
    if not record.create_requested or not record.is_marked(tags):
        return f"its tag {RECORD_TAG} does not name the record of its name"
    return ""


def still_needed(
    record: Cluster,
    runs: Iterable[Run],
    cluster_facts: Iterable[Fact],
    heard: bool,
    unread: Sequence[str] = (),
) -> str:
    """Why even an orphan that is proven must stay; '' if nothing says so."""
    if heard:
        return "its controller still sends heartbeats"
    if holders := unsaved_runs(record, cluster_facts):
        return f"it holds results of {', '.join(holders[:3])} that are in no verified export"
    if users := users_of(runs):
        return f"it is used by {', '.join(users[:3])}"
    if unread:
        return f"it may be used by {', '.join(unread[:3])}, which this version cannot read"
    return ""


def allowed(tagged: int) -> int:
    """How many orphans may be deleted while so many clusters carry our tag."""
    return max(1, int(tagged * SHARE))
