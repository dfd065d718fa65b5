"""What a look saw of an assumption about AWS."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

#: not-seen: this run could not show it; the evidence says why.
Verdict = Literal["held", "broken", "not-seen"]


@dataclass(frozen=True)
class Seen:
    """`assumption`: an id of docs/aws-assumptions.md; `evidence`: one line; `remedy`: if broken."""

    assumption: str
    verdict: Verdict
    evidence: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value}


def held(assumption: str, evidence: str) -> Seen:
    return Seen(assumption, "held", evidence)


def broken(assumption: str, evidence: str, remedy: str) -> Seen:
    return Seen(assumption, "broken", evidence, remedy)


def unseen(assumption: str, why: str) -> Seen:
    return Seen(assumption, "not-seen", why)
