"""How an array goes on: which members begin next, and what it is when the last one has ended."""

from __future__ import annotations

from datetime import datetime

from trainyard.domain.array_records import ArrayStatus, RunArray
from trainyard.domain.words import counted

#: Members that begin in one step; the next step goes on.
BEGIN_AT_ONCE = 20


def settled(array: RunArray, index: int, end: str) -> RunArray:
    """The array after the end of a member; again changes nothing.

    `end`: the run's last status, or 'refused'.
    """
    if index not in array.active:
        return array
    left = [one for one in array.active if one != index]
    if end == "Succeeded":
        return array.changed(active=left, succeeded=array.succeeded + 1)
    if end == "Failed":
        return array.changed(active=left, failed=sorted({*array.failed, index}))
    if end == "Cancelled":
        return array.changed(active=left, cancelled=sorted({*array.cancelled, index}))
    return array.changed(active=left, refused=sorted({*array.refused, index}))


def filled(array: RunArray, most: int = BEGIN_AT_ONCE) -> tuple[RunArray, list[int]]:
    """The array with the next members begun, as far as maxParallel lets them, and which."""
    if array.status != "Running":
        return array, []
    free = min(array.spec.max_parallel - len(array.active), array.waiting, most)
    new = list(range(array.begun, array.begun + max(0, free)))
    if not new:
        return array, []
    return array.changed(begun=array.begun + len(new), active=[*array.active, *new]), new


def cancelled(array: RunArray, reason: str) -> RunArray:
    """No member begins any more; the active ones are cancelled."""
    return array if array.over else array.changed(status="Cancelling", reason=reason)


def rest_refused(array: RunArray, reason: str) -> RunArray:
    """What each member needs is refused or never comes, so none begins any more."""
    if array.status != "Running" or not array.waiting:
        return array
    rest = range(array.begun, array.total)
    return array.changed(
        begun=array.total, refused=sorted({*array.refused, *rest}), reason=reason[:1000]
    )


def closed(array: RunArray, now: datetime) -> RunArray:
    """The array at its end, if it has come."""
    if array.over or array.active or (array.status == "Running" and array.waiting):
        return array
    status: ArrayStatus = "Succeeded" if array.succeeded == array.total else "Failed"
    if array.status == "Cancelling" and array.succeeded < array.total:
        status = "Cancelled"
    reason = array.reason if array.refused or status == "Cancelled" else ""
    words = summary(array)
    return array.changed(
        status=status, ended_at=now, reason=f"{reason} {words}".strip() if reason else words
    )


def summary(array: RunArray) -> str:
    """'12 of 20 members have succeeded, 1 failed.'"""
    counts = {
        "failed": len(array.failed),
        "cancelled": len(array.cancelled),
        "refused": len(array.refused),
        "active": len(array.active),
        "not begun": array.waiting,
    }
    more = "".join(f", {count} {word}" for word, count in counts.items() if count)
    return f"{array.succeeded} of {counted(array.total, 'member')} succeeded{more}."
