"""What would be done, said before it is: each answer names its target and has a button for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Self

from trainyard.app.clusters.list_nodes import list_nodes
from trainyard.app.people.on_behalf import Caller, OnBehalf
from trainyard.app.runs.approvals import why_needed
from trainyard.app.runs.budgets import hourly_of
from trainyard.chat.blocks import (
    Asks,
    Message,
    button,
    buttons,
    context,
    escaped,
    header,
    moment,
    section,
)
from trainyard.domain.errors import NodeNotFound, RunActive, RunFinished, WrongState
from trainyard.domain.records import ClusterNode, Run
from trainyard.domain.words import who
from trainyard.ports import Ports
from trainyard_contracts.people import Person
from trainyard_contracts.specs import RunSpec

#: The ids of our buttons; functions/slack takes no others in.
DO, LEAVE = "trainyard.do", "trainyard.leave"
#: A button works so long.
WORKS = timedelta(days=1)
#: Acts, and how a button and its dialog call them.
LABELS: Mapping[str, str] = {
    "cancel": "Cancel the run",
    "resume": "Resume the run",
    "export": "Export the run",
    "rerun": "Submit it anew",
    "submit": "Submit the run",
    "replace": "Replace the node",
    "approve": "Approve",
    "deny": "Deny",
}


@dataclass(frozen=True)
class Button:
    """What a button carries: the act, its target, and how that was when the button was made.

    `once` is the same for all clicks of it.
    """

    act: str
    once: str
    at: int
    run: str = ""
    life: int = 0
    ended: bool = False
    cluster: str = ""
    node: str = ""
    approval: str = ""
    #: Of `submit`: what is other than in `run`'s spec (drafts.py).
    changes: str = ""
    #: Of an approval: why, if that was said before, and the list that it is in.
    reason: str = ""
    page: str = ""

    @classmethod
    def read(cls, value: str) -> Self:
        """Raises ValueError for what is none of ours."""
        try:
            given = json.loads(value)
            read = cls(**given)
        except (ValueError, TypeError) as mistake:
            raise ValueError(f"it carries something else: {type(mistake).__name__}") from None
        given = asdict(read)
        for name, default in asdict(cls(act="", once="", at=0)).items():
            if type(given[name]) is not type(default):
                raise ValueError(f"its field {name} is not one of ours")
        if read.act not in LABELS:
            raise ValueError("its act is unknown")
        return read

    @property
    def value(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False)

    @property
    def until(self) -> datetime:
        return datetime.fromtimestamp(self.at, timezone.utc) + WORKS


def asked_of_run(ports: Ports, caller: Caller, act: str, run_id: str) -> Message:
    """Raises Forbidden, RunNotFound, and what the act would raise for a run in this state."""
    run = ports.runs.get(run_id)
    OnBehalf(ports, caller).check_changes(None if act == "rerun" else run)
    _check(act, run)
    given = Button(
        act=act,
        once=caller.request_id,
        at=int(ports.clock.now().timestamp()),
        run=run.id,
        life=run.life,
        ended=run.terminal,
    )
    target = (
        f"*{escaped(run.name)}*  {run.status}  on `{escaped(run.cluster_name)}`, of "
        f"{escaped(who(run.created_by))}\n`{run.id}`"
    )
    asks = Asks(f"{LABELS[act]}?", f"{run.name} ({run.id}). {_follows(act, run)}", LABELS[act])
    more = _priced(ports, run, caller.person) if act == "rerun" else []
    return page(given, f"{LABELS[act]} {run.name}?", [target, _follows(act, run), *more], asks)


def _check(act: str, run: Run) -> None:
    if act == "cancel" and run.terminal:
        raise RunFinished(f"Run {run.id} is {run.status}; there is nothing left to cancel.")
    if act == "resume" and not run.terminal:
        raise RunActive(f"Run {run.id} is {run.status}; it resumes by itself when something fails.")
    if act == "resume" and run.status == "Succeeded":
        raise RunFinished(f"Run {run.id} succeeded; there is nothing to resume.")


def _follows(act: str, run: Run) -> str:
    """What will happen; our own words."""
    if act == "cancel":
        own = "; the cluster that was made for it is deleted" if run.owns_cluster else ""
        return f"Its job is stopped and what is whole is exported{own}."
    if act == "resume":
        own = " It gets a cluster of its own again, if that is gone." if run.owns_cluster else ""
        return f"It trains on from its newest whole checkpoint, with fresh attempts.{own}"
    if act == "export":
        if run.terminal:
            return "What its cluster still holds of it is copied to S3."
        return "What it has trained so far is copied to S3, while it trains on."
    own = ", on a cluster of its own" if run.owns_cluster else ""
    return f"A new run of the same spec and the same code trains from the beginning{own}."


def anew(run: Run) -> RunSpec:
    """The spec of a new run like this one: its labels of now, and of git its very commit."""
    spec = run.spec.changed(labels=run.labels)
    commit = run.code.commit if run.code is not None else ""
    if not commit or spec.job.git is None:
        return spec
    git = spec.job.git.changed(ref=commit)
    return spec.changed(job=spec.job.changed(git=git))


def _priced(ports: Ports, run: Run, by: Person) -> list[str]:
    """What the new one costs in its dearest way, and whether it would wait for people."""
    spec = anew(run)
    hourly, waits = hourly_of(ports, spec), why_needed(ports, spec, by)
    said = "Its price is not known."
    if hourly is not None:
        most = hourly * spec.limits.max_duration_seconds / 3600
        said = f"It costs *{hourly:.2f} USD an hour*, and {most:.2f} USD if it uses all its time."
    return [said] if waits is None else [said, f"It would wait for people: {escaped(waits, 500)}"]


def asked_of_node(ports: Ports, caller: Caller, named: str, cluster: str) -> Message:
    """Raises Forbidden, ClusterNotFound, NodeNotFound, WrongState."""
    OnBehalf(ports, caller).check_changes(ports.clusters.get(cluster))
    node = _found(list_nodes(ports, cluster), named)
    if node.role == "controller":
        raise WrongState(
            f"{named} is the controller of '{cluster}'; controllers are not replaced.",
            next_step="Reboot it, or make a new cluster.",
        )
    given = Button(
        act="replace",
        once=caller.request_id,
        at=int(ports.clock.now().timestamp()),
        cluster=cluster,
        node=node.instance_id,
    )
    name = node.name or node.instance_id
    target = (
        f"*{escaped(name)}* of *{escaped(cluster)}*  {node.status}  "
        f"{escaped(node.instance_type)}; agent {escaped(node.agent)}, Slurm "
        f"{escaped(node.scheduler)}\n`{escaped(node.instance_id)}`"
    )
    follows = "AWS is asked for another node in its place. What is on its disks is lost."
    users = [
        f"*{escaped(run.name)}* of {escaped(who(run.created_by))} trains on it, and recovers from "
        "its newest checkpoint."
        for run in ports.runs.on_cluster(cluster)
        if run.attempt is not None and run.attempt.ended_at is None and name in run.attempt.nodes
    ]
    asks = Asks(f"{LABELS['replace']}?", f"{name} of {cluster}. {follows}", LABELS["replace"])
    return page(given, f"Replace {name} of {cluster}?", [target, follows, *users[:5]], asks)


def _found(nodes: list[ClusterNode], named: str) -> ClusterNode:
    for node in nodes:
        if named in (node.instance_id, node.name):
            return node
    raise NodeNotFound(f"'{named[:100]}' is neither the name nor the instance id of one of them.")


def page(given: Button, title: str, lines: list[str], asks: Asks) -> Message:
    """Nothing is done yet, and its buttons say so."""
    pair = buttons(
        button(DO, LABELS[given.act], given.value, asks),
        button(LEAVE, "Leave it", given.value),
    )
    end = context(f"Nothing is done yet. The button works until {moment(given.until)}.")
    return Message(escaped(title), [header(title), *map(section, lines), pair, end])
