"""An address of a person's own that is sent events, as a person asks for it."""

from typing import Annotated

from pydantic import Field, StringConstraints

from .base import Strict
from .labels import Labels
from .user_events import UserEventType


class WebhookSpec(Strict):
    """Where events are sent, and which."""

    url: Annotated[str, StringConstraints(min_length=1, max_length=1000)] = Field(
        description="https, with a name or a public address; it is shown to all who may read",
        examples=["https://example.com/trainyard"],
    )
    types: list[UserEventType] = Field(
        default_factory=list, max_length=64, description="only events of these types; empty: all"
    )
    labels: Labels = Field(
        default_factory=dict,
        description="only events of runs that carry all of these; empty: of all runs and clusters",
    )
    description: Annotated[str, StringConstraints(max_length=200)] = Field(
        default="", description="for people: whose receiver it is, and what it does"
    )
