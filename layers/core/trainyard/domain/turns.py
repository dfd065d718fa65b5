"""Whose turn it is on a cluster that runs share: who may hand a job to Slurm now.

It is pure. Slurm's own accounting has fair shares and limits, too, but most clusters lack it, and
with it only an administrator sets them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial

from trainyard.domain.decisions import Draft
from trainyard.domain.people import matches
from trainyard.domain.records import Run
from trainyard.domain.turn_records import Given, Turns
from trainyard.domain.words import counted
from trainyard_contracts.people import Person
from trainyard_contracts.sharing import SharingLimit, SharingSpec

#: Owners and arrays that are over are remembered, the newest, so that turns go round among them.
MOST_SERVED = 200
_NEVER = datetime.fromtimestamp(0, timezone.utc)


@dataclass(frozen=True)
class Claim:
    """A run as its turn is judged."""

    run_id: str
    life: int
    nodes: int
    pool: str | None  # the partition, where it is known
    priority: int
    since: datetime
    index: int  # in its array
    labels: Mapping[str, str]
    owner: Person | None
    party: str  # its array; one that is in none is its own
    began: bool  # it has had a turn in this life and did not return it

    def share(self, fair_by: str | None) -> str:
        """Whose turn it is: of an owner, or of a label's value."""
        if fair_by is not None:
            return f"{fair_by}={self.labels.get(fair_by, '')}"
        return self.owner.arn if self.owner is not None else ""


@dataclass(frozen=True)
class Place:
    """What the turns say of one run."""

    given: bool
    reason: str = ""


def going(run: Run) -> bool:
    return run.outcome is None and not run.terminal


def counts(run: Run) -> bool:
    """Whether it uses its cluster, or wants to: until its training is over."""
    return going(run) and not run.waits_for_runs and not run.waits_for_approval


def began(run: Run) -> bool:
    """It has had a turn in this life and goes on with it, through whatever failures.

    The run for which a cluster was made has its turn there from the beginning.
    """
    this_life = any(attempt.life == run.life for attempt in run.attempts)
    return run.owns_cluster or (this_life and run.turn_waits_since is None)


def waits(run: Run) -> bool:
    return counts(run) and not began(run)


def claim_of(run: Run, pool: str | None) -> Claim:
    return Claim(
        run_id=run.id,
        life=run.life,
        nodes=run.spec.job.nodes,
        pool=pool,
        priority=run.priority,
        since=run.created_at,
        index=run.array.index if run.array else 0,
        labels=run.labels,
        owner=run.created_by,
        party=run.array.id if run.array else run.id,
        began=began(run),
    )


def place_of(turns: Turns, run: Run) -> Place:
    """Whether the run has its turn, and if not, why."""
    known = turns.given.get(run.id)
    if began(run) or (known is not None and known.life == run.life):
        return Place(True)
    why = turns.held.get(run.id) or "other runs have its nodes, or come before it."
    return Place(False, f"Waiting for its turn on cluster '{run.cluster_name}': {why}")


def still_waits(draft: Draft, place: Place | None) -> bool:
    """True while others have their turn; the time until then is none of the run's own."""
    run = draft.run
    if place is None or not draft.cluster_ready or not waits(run):
        return False
    if not place.given:
        if run.turn_waits_since is None:
            draft.change(turn_waits_since=draft.now)
            draft.note("turn", "WaitingForTurn", place.reason)
        draft.status("Waiting", place.reason)
        return True
    if run.turn_waits_since is not None:
        waited = draft.now - run.turn_waits_since
        draft.change(turn_waits_since=None, opened_at=draft.opened_at + waited)
        draft.status("Pending", "Its turn has come.")
        draft.note("turn-given", "TurnGiven", "Its turn has come.")
    return False


@dataclass
class _Use:
    """What those that have their turn use, and who waits."""

    claims: Mapping[str, Claim]
    sharing: SharingSpec
    served: dict[str, datetime]
    having: dict[str, Claim] = field(default_factory=dict)

    def nodes(self, of: Callable[[Claim], bool]) -> int:
        return sum(claim.nodes for claim in self.having.values() if of(claim))

    def rank(self, claim: Claim) -> tuple[object, ...]:
        """The lowest has its turn first: by priority, then who uses least, then who had one longest
        ago, first among the owners and then among one owner's arrays.
        """
        share = claim.share(self.sharing.fair_by)
        party = f"{share}/{claim.party}"
        of_share = self.nodes(lambda one: one.share(self.sharing.fair_by) == share)
        of_party = self.nodes(lambda one: one.party == claim.party)
        return (
            -claim.priority,
            of_share,
            self.served.get(share, _NEVER),
            of_party,
            self.served.get(party, _NEVER),
            claim.since,
            claim.index,
            claim.run_id,
        )

    def give(self, claim: Claim, now: datetime) -> None:
        self.having[claim.run_id] = claim
        share = claim.share(self.sharing.fair_by)
        # One moment may give many turns; each is after the one before it.
        at = max([now, *self.served.values()]) if self.served else now
        at += datetime.resolution
        self.served[share] = at
        if claim.party != claim.run_id:
            self.served[f"{share}/{claim.party}"] = at


def given(
    turns: Turns,
    claims: Iterable[Claim],
    sharing: SharingSpec,
    nodes_in: Callable[[str | None], int],
    now: datetime,
) -> Turns:
    """The turns after all were given that there is room for; again changes nothing.

    `claims` are of all runs that share the cluster and are not over. A run that is too large for
    the room that is left keeps those behind it from overtaking, or it would wait for ever; one that
    a limit keeps does not. Where nobody has a turn, the first has it whatever its size: Slurm says
    what it waits for.
    """
    known = {claim.run_id: claim for claim in claims}
    use = _Use(known, sharing, dict(turns.served))
    kept = {
        run_id: one
        for run_id, one in turns.given.items()
        if run_id in known and known[run_id].life == one.life
    }
    use.having = {one.run_id: one for one in known.values() if one.began or one.run_id in kept}
    waiting = [one for one in known.values() if one.run_id not in use.having]
    held: dict[str, str] = {}
    while (first := _first(use, waiting, nodes_in, held)) is not None:
        use.give(first, now)
        kept[first.run_id] = Given(life=first.life, at=now)
        waiting.remove(first)
    newest = sorted(use.served.items(), key=lambda item: (item[1], item[0]))[-MOST_SERVED:]
    return turns.changed(given=kept, held=held, served=dict(newest))


def _first(
    use: _Use,
    waiting: Sequence[Claim],
    nodes_in: Callable[[str | None], int],
    held: dict[str, str],
) -> Claim | None:
    """Who has the next turn; `held` becomes those that a limit keeps."""
    held.clear()
    full: set[str | None] = set()
    found: Claim | None = None
    for claim in sorted(waiting, key=use.rank):
        why = next(filter(None, map(partial(_over, use, claim), use.sharing.limits)), None)
        if why is not None:
            held[claim.run_id] = why
        elif found is None and claim.pool not in full:
            used = use.nodes(lambda one, pool=claim.pool: one.pool == pool)  # type: ignore[misc]
            if used == 0 or used + claim.nodes <= nodes_in(claim.pool):
                found = claim
            full.add(claim.pool)
    return found


def _over(use: _Use, claim: Claim, limit: SharingLimit) -> str | None:
    """Why the limit keeps the run from its turn now; None if it does not."""
    whose = _counted_with(claim, limit)
    if whose is None:
        return None
    same = [one for one in use.having.values() if _counted_with(one, limit) == whose]
    nodes = sum(one.nodes for one in same)
    runs_over = limit.max_runs is not None and len(same) + 1 > limit.max_runs
    nodes_over = limit.max_nodes is not None and nodes + claim.nodes > limit.max_nodes
    if not runs_over and not nodes_over:
        return None
    most = counted(limit.max_runs or 0, "run") if runs_over else _nodes(limit.max_nodes or 0)
    return (
        f"{whose} may use at most {most} here at once, and uses {counted(len(same), 'run')} with "
        f"{_nodes(nodes)}; this one needs {_nodes(claim.nodes)}."
    )


def _counted_with(claim: Claim, limit: SharingLimit) -> str | None:
    """Whom the limit counts the run for; None if it is not meant."""
    if limit.label is not None:
        value = claim.labels.get(limit.label)
        if value is None or limit.value not in (None, value):
            return None
        return f"label {limit.label}={value}"
    owner = claim.owner
    if owner is None or limit.owner is None or not matches((limit.owner,), owner):
        return None
    return f"{owner.name} ({owner.arn})"


def _nodes(count: int) -> str:
    return counted(count, "node")
