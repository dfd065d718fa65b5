"""Who asks for a change, and by which request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trainyard_contracts.people import Person


@dataclass(frozen=True)
class Caller:
    """A person, and the request by which they ask; all of it as the gateway says it."""

    person: Person
    request_id: str
    at: datetime
    source_ip: str = ""
    user_agent: str = ""
    #: Why they ask for the change, in their own words; what an act itself is given is first.
    reason: str = ""
