"""What a run may cost, as far as an approval asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainyard_contracts.specs import RunSpec

_HOUR = 3600


@dataclass(frozen=True)
class Hourly:
    """What an hour of a run costs in one of its ways, by all that is said of it; in USD."""

    #: As costs and budgets count it: `given`, or else `listed`. None: not known.
    counted: float | None
    #: By AWS's price list. None: it does not say.
    listed: float | None
    #: hourlyUsd of the cluster's spec; None: nobody gave it.
    given: float | None = None
    #: Who gave it could decide on the approval, so their word is enough.
    trusted: bool = False

    @property
    def judged(self) -> float | None:
        """By what an approval goes: the word of who asks makes nothing cheaper. None: not known."""
        if self.given is None or self.trusted:
            return self.counted
        return None if self.listed is None else max(self.listed, self.given)

    def at_most(self, spec: RunSpec) -> float | None:
        """What a life of the run may cost; what somebody expects binds nobody. None: not known."""
        if self.judged is None:
            return None
        longest = spec.limits.max_duration_seconds / _HOUR
        # A budget ends when its own count says so, whatever an hour is worth.
        if spec.budget is not None and self.counted:
            longest = min(longest, spec.budget.max_usd / self.counted)
        return self.judged * longest


@dataclass(frozen=True)
class Worth:
    """What a life of a run may cost in its dearest way; `usd` is None where that is not known."""

    usd: float | None
    #: All that is known of its price is the word of who asks.
    own_word: bool = False


def worth(ways: Sequence[Hourly], spec: RunSpec) -> Worth:
    """Of a run whose cluster may be made in these ways; none: its cluster is not there."""
    known = [usd for usd in (way.at_most(spec) for way in ways) if usd is not None]
    if ways and len(known) == len(ways):
        return Worth(max(known))
    return Worth(None, own_word=bool(ways) and all(way.counted is not None for way in ways))
