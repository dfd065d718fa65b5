"""What a sweep says that it did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Swept:
    """One thing the sweep did, and why."""

    action: str
    subject: str
    reason: str
