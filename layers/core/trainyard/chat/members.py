"""Which principal of AWS a person of Slack is: then the same roles hold as for the API."""

from __future__ import annotations

import json
import re
from typing import Any

from trainyard.domain.errors import TrainyardError
from trainyard_contracts.people import Person, named

#: A workspace's id and a user's in it, as Slack's requests have them.
_WHO = re.compile(r"[A-Z0-9]{1,30}/[A-Z0-9]{1,30}")
_EXAMPLE = '{"T0123ABCD/U0456EFGH": "arn:aws:iam::111122223333:user/alice"}'


class ListUnreadable(TrainyardError):
    """Nobody is let in by a list that is not understood."""

    title = "The list of Slack's people cannot be read"
    next_step = (
        "An admin of the stack corrects the secret that its parameter SlackPeopleArn names; "
        "docs/use/slack.md says how."
    )


def person_of(text: str | None, who: str) -> Person | None:
    """The person at 'TEAM/USER'; None for one who is not in the list. Raises ListUnreadable.

    `text` is the whole list, a JSON object of ARNs. Without one nobody is known.
    """
    if text is None or not text.strip():
        return None
    people = _listed(text)
    return None if who not in people else _named(who, people[who])


def users_of(text: str | None, person: Person) -> set[str]:
    """Who a principal is in Slack: 'TEAM/USER', of one with accounts several.

    Raises ListUnreadable.
    """
    if text is None or not text.strip():
        return set()
    return {who for who, arn in _listed(text).items() if _named(who, arn).same_as(person)}


def _listed(text: str) -> dict[str, Any]:
    try:
        people = json.loads(text)
    except ValueError as mistake:
        raise ListUnreadable(f"It is not JSON: {mistake}. It must be like {_EXAMPLE}.") from None
    if not isinstance(people, dict):
        raise ListUnreadable(f"It must be a JSON object like {_EXAMPLE}.")
    for who in people:
        if not _WHO.fullmatch(who):
            raise ListUnreadable(f"'{who[:80]}' must be TEAM/USER, as in {_EXAMPLE}.")
    return people


def _named(who: str, arn: object) -> Person:
    try:
        return named(str(arn))
    except ValueError as mistake:
        raise ListUnreadable(f"{who}: '{str(arn)[:200]}' {mistake}.") from None
