"""What a list is asked for: which records are wanted, and in which order of time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from trainyard.domain.approval_records import Approval
from trainyard.domain.array_records import RunArray
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.records import Cluster, Run
from trainyard.domain.schedule_records import Schedule
from trainyard.domain.team_budget_records import TeamBudget
from trainyard.domain.webhook_records import Webhook
from trainyard_contracts.people import Person

Order = Literal["newest", "oldest"]


@dataclass(frozen=True)
class Wanted:
    """All of it must be true of a record; what is empty asks for nothing.

    `labels` are pairs of key and value; with None any value will do. A `name` that ends in * means
    all names that begin so; * is in no name. `since` is the first moment of creation, `until` the
    first after it. `owner` is the very person, `created_by` a name or an ARN.
    """

    statuses: frozenset[str] = frozenset()
    labels: tuple[tuple[str, str | None], ...] = ()
    name: str = ""
    cluster: str = ""
    since: datetime | None = None
    until: datetime | None = None
    owner: Person | None = None
    created_by: str = ""
    order: Order = "newest"

    @property
    def begins(self) -> str | None:
        """What names begin with; None where the whole name is given."""
        return self.name[:-1] if self.name.endswith("*") else None

    @property
    def newest_first(self) -> bool:
        return self.order == "newest"

    @property
    def filters(self) -> bool:
        """Whether it asks for more than a time and an order."""
        return bool(
            self.statuses
            or self.labels
            or self.name
            or self.cluster
            or self.owner
            or self.created_by
        )

    @property
    def digest(self) -> str:
        """The same for the same list, however it is asked for."""
        parts = [
            sorted(self.statuses),
            sorted(map(list, self.labels), key=json.dumps),
            self.name,
            self.cluster,
            self.since and self.since.timestamp(),
            self.until and self.until.timestamp(),
            self.owner and [self.owner.id, self.owner.arn],
            self.created_by,
            self.order,
        ]
        return json.dumps(parts)


EVERYTHING = Wanted()


#: What lists are of.
Listed = Run | Cluster | Filesystem | RunArray | Schedule | Approval | Webhook | TeamBudget


def matches(wanted: Wanted, record: Listed) -> bool:
    """Whether the record is one of those."""
    labels = record.labels if isinstance(record, Run | Cluster) else {}
    cluster = record.cluster_name if isinstance(record, Run) else record.name
    begins = wanted.begins
    return (
        (not wanted.statuses or record.status in wanted.statuses)
        and all(
            key in labels and (value is None or labels[key] == value)
            for key, value in wanted.labels
        )
        and (
            not wanted.name
            or (record.name == wanted.name if begins is None else record.name.startswith(begins))
        )
        and (not wanted.cluster or cluster == wanted.cluster)
        and _by(wanted, record.created_by)
        and (wanted.since is None or record.created_at >= wanted.since)
        and (wanted.until is None or record.created_at < wanted.until)
    )


def _by(wanted: Wanted, person: Person | None) -> bool:
    if wanted.owner is not None and (person is None or not wanted.owner.same_as(person)):
        return False
    if not wanted.created_by:
        return True
    return person is not None and wanted.created_by in (person.name, person.arn)
