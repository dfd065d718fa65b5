"""The members of an array page by page, each with its run as it is now."""

from __future__ import annotations

from itertools import islice

from trainyard.app.runs.advance_array import member_run
from trainyard.domain.array_records import Member, RunArray
from trainyard.domain.errors import BadPageToken, RunNotFound
from trainyard.outside.pages import Page
from trainyard.ports import Ports

#: Each member's run is read.
MOST_AT_ONCE = 200


def list_members(ports: Ports, array_id: str, *, limit: int, token: str | None) -> Page[Member]:
    """By their numbers. Raises ArrayNotFound, BadPageToken."""
    array = ports.arrays.get(array_id)
    begin, limit = _position(token), min(limit, MOST_AT_ONCE)
    values = islice(enumerate(array.spec.values()), begin, begin + limit)
    found = [_member(ports, array, index, dict(parameters)) for index, parameters in values]
    end = begin + len(found)
    return Page(found, str(end) if end < array.total else None)


def _position(token: str | None) -> int:
    if token is None:
        return 0
    if not token.isdecimal() or len(token) > 6:
        raise BadPageToken("nextToken: is not one that this API gave out")
    return int(token)


def _member(ports: Ports, array: RunArray, index: int, parameters: dict[str, str]) -> Member:
    member = Member(index=index, parameters=parameters)
    if index >= array.begun:
        return member
    if index in array.refused:
        return member.changed(reason=array.reason)
    try:
        run = ports.runs.get(member_run(array, index))
    except RunNotFound:  # its turn has come at this very moment
        return member
    return member.changed(run_id=run.id, status=run.status, reason=run.reason)
