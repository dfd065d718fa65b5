"""What a check found: what is wrong, where, and what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

#: failure: it will fail; warning: it may, or costs more than meant; unknown: nobody could look.
Severity = Literal["failure", "warning", "unknown"]


@dataclass(frozen=True)
class Finding:
    """`subject` is a field of the spec, or a resource of the account in a person's words."""

    check: str
    severity: Severity
    subject: str
    problem: str
    remedy: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)
