"""Change what people change of a record that its machine changes, too: neither loses anything.

The record's version decides. Who comes second reads the record again and repeats the change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from trainyard.domain.errors import (
    ConflictError,
    FieldError,
    InvalidRequest,
    PreconditionFailed,
    RetryableError,
)
from trainyard.domain.records import Cluster, Run
from trainyard_contracts.labels import with_changes

R = TypeVar("R", Run, Cluster)
#: A state machine writes its record a few times a minute at most.
_TRIES = 5


def labelled(
    read: Callable[[], R],
    write: Callable[[R], R],
    changes: Mapping[str, str | None],
    *,
    version: int | None,
    **fields: Any,
) -> R:
    """The record with these changes of its labels and with these fields; None leaves a field.

    Raises InvalidRequest, PreconditionFailed.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    for _ in range(_TRIES):
        record = read()
        check_version(record, version)
        try:
            labels = with_changes(record.labels, changes)
        except ValueError as mistake:
            field = FieldError("labels", str(mistake))
            raise InvalidRequest(f"labels: {mistake}", errors=[field]) from None
        after = record.changed(labels=labels, **given)
        if after == record:
            return record
        try:
            return write(after)
        except ConflictError:
            continue  # with a version the next look refuses it
    raise RetryableError("others keep changing the record")


def check_version(record: Run | Cluster, version: int | None) -> None:
    """Raises PreconditionFailed if the record is of another version; None is any."""
    if version is None or record.version == version:
        return
    what = f"Cluster '{record.name}'" if isinstance(record, Cluster) else f"Run {record.id}"
    raise PreconditionFailed(
        f"{what} was changed since; its status is {record.status} now.",
        errors=[FieldError("if-match", "names a state that is over; give the ETag of now")],
    )
