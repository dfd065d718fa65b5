"""In-memory twins of every port: as strict as the real ones, and able to die around any call."""

from __future__ import annotations

import builtins
import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, TypeVar

from pydantic import BaseModel
from tests.support.memory_lustre import MemoryLustre, MemoryNetworks

from trainyard.aws.clusters import HEARTBEAT_LIFETIME
from trainyard.aws.directories import PARTS
from trainyard.aws.items import pack, stamp
from trainyard.backends.hyperpod.events import read_event
from trainyard.domain import errors
from trainyard.domain.approval_records import Approval
from trainyard.domain.array_records import RunArray
from trainyard.domain.audit import AuditEntry, AuditQuery
from trainyard.domain.facts import attempt_of, data_of, type_of
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.listing import EVERYTHING, Wanted, matches
from trainyard.domain.notices import Notice, of_cluster, of_line
from trainyard.domain.records import Checkpoint, Cluster, ClusterNode, Run, TimelineEntry, Wait
from trainyard.domain.schedule_records import Schedule
from trainyard.domain.states import BackendStatus, NodeState
from trainyard.domain.team_budget_records import TeamBudget
from trainyard.domain.turn_records import Turns
from trainyard.domain.webhook_answers import Answer
from trainyard.domain.webhook_records import Delivery, Webhook
from trainyard.outside.adoptions import Adoptions
from trainyard.outside.changes import ChangePlan, Changes, ChangeSeen
from trainyard.outside.clock import Clock
from trainyard.outside.commands import CommandResult
from trainyard.outside.directories import Directory
from trainyard.outside.executions import DeadLetter
from trainyard.outside.notices import UnsentNotice
from trainyard.outside.pages import Page
from trainyard.outside.seen_clusters import (
    BackendCluster,
    BackendRequest,
    BatchResult,
    Product,
    Remains,
)
from trainyard.outside.seen_events import BackendEvent
from trainyard.outside.uploads import PutRequest
from trainyard.ports import Config, Ports
from trainyard_contracts import places
from trainyard_contracts.base import read_stored
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.events import ClusterHeartbeat, Fact
from trainyard_contracts.files import ExportedObject
from trainyard_contracts.filesystems import FilesystemSpec
from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.places import RECORD_TAG, STAGE_TAG
from trainyard_contracts.specs import JobSpec
from trainyard_contracts.trees import Pack
from trainyard_contracts.user_events import UserEvent

START = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
R = TypeVar("R", bound=BaseModel)


class Died(BaseException):
    """The process is gone at this very line. Not an Exception: nothing may catch it."""


class Fuse:
    """Counts port calls and kills the process at the chosen one, before or after its effect."""

    def __init__(self) -> None:
        self.calls = 0
        self.die_at: int | None = None
        self.after = False

    def arm(self, call: int | None, *, after: bool = False) -> None:
        self.calls, self.die_at, self.after = 0, call, after

    def wrap(self, target: Any) -> Any:
        return _Fused(self, target)


class _Fused:
    def __init__(self, fuse: Fuse, target: Any) -> None:
        self._fuse, self._target = fuse, target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value) or name.startswith("_"):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            fuse = self._fuse
            fuse.calls += 1
            mine = fuse.calls == fuse.die_at
            if mine and not fuse.after:
                raise Died(name)
            result = value(*args, **kwargs)
            if mine:
                raise Died(name)
            return result

        return call


class MemoryClock:
    def __init__(self, now: datetime = START) -> None:
        self.time = now

    def now(self) -> datetime:
        return self.time

    def tick(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class MemoryIds:
    def __init__(self) -> None:
        self.count = 0

    def ulid(self) -> str:
        self.count += 1
        number, text = self.count, ""
        while number:
            number, rest = divmod(number, 32)
            text = ALPHABET[rest] + text
        return "01" + text.rjust(24, "0")

    def random(self, count: int) -> bytes:
        self.count += 1
        return hashlib.sha512(str(self.count).encode()).digest()[:count]


def page(items: Sequence[Any], limit: int, token: str | None, query: str) -> Page[Any]:
    """A page whose token is bound to its query."""
    start = 0
    if token is not None:
        try:
            bound, position = json.loads(token)
            start = int(position)
        except (ValueError, TypeError, RecursionError):
            raise errors.BadPageToken("nextToken: not a page token") from None
        if bound != query:
            raise errors.BadPageToken("nextToken: it belongs to another query")
    chosen = list(items[start : start + limit])
    more = start + limit < len(items)
    return Page(chosen, json.dumps([query, start + limit]) if more else None)


def chosen(records: Sequence[Any], wanted: Wanted) -> list[Any]:
    """Those that are wanted, in their order; of one moment, as they were made."""
    found = [one for one in records if matches(wanted, one)]
    ordered = sorted(found, key=lambda one: one.created_at)
    return ordered[::-1] if wanted.newest_first else ordered


def as_stored(record: R, at: datetime) -> R:
    """The record itself; raises for what could not be written into the table, as the real one."""
    pack(record)
    stamp(at)
    return record


class MemoryRuns:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.stored: dict[str, Run] = {}
        self.broken: set[str] = set()  # records of these ids cannot be read
        self.keys: dict[str, tuple[str, str]] = {}
        self.kept_facts: dict[str, dict[str, Fact]] = {}
        self.entries: dict[str, dict[str, TimelineEntry]] = {}
        self.kept_checkpoints: dict[str, dict[tuple[int, int, str], Checkpoint]] = {}
        self.notices: dict[tuple[str, str], Notice] = {}

    def create(self, run: Run, *, idempotency_key: str | None, body_hash: str) -> Run:
        if idempotency_key is not None:
            known = self.by_key(idempotency_key, body_hash, at=run.created_at)
            if known is not None:
                return known
            self.keys[idempotency_key] = (run.id, body_hash)
        return self.stored.setdefault(run.id, run)

    def by_key(self, idempotency_key: str, body_hash: str, *, at: datetime) -> Run | None:
        if idempotency_key not in self.keys:
            return None
        known, known_hash = self.keys[idempotency_key]
        if known_hash != body_hash:
            raise errors.IdempotencyConflict("Idempotency-Key: used with another body")
        return self.stored[known]

    def get(self, run_id: str) -> Run:
        if run_id not in self.stored:
            raise errors.RunNotFound.of(run_id)
        if run_id in self.broken:
            raise errors.RecordUnreadable(f"this version cannot read the record of {run_id}")
        return self.stored[run_id]

    def children(self, run_id: str) -> list[str]:
        return [run.id for run in self.stored.values() if run_id in run.spec.after]

    def put(self, run: Run, lines: Sequence[TimelineEntry] = ()) -> Run:
        if self.get(run.id).version != run.version:
            raise errors.ConflictError(f"Run {run.id} was changed in between.")
        changed = run.changed(version=run.version + 1, updated_at=self._clock.now())
        fresh = read_stored(Run, changed.model_dump_json())
        self.stored[run.id] = fresh
        for line in lines:
            self.note(run.id, line)
        return fresh

    def list(self, *, limit: int, token: str | None, wanted: Wanted = EVERYTHING) -> Page[Run]:
        read = [run for run in self.stored.values() if run.id not in self.broken]
        return page(chosen(read, wanted), limit, token, f"runs/{wanted.digest}")

    def beginning(self, prefix: str, *, at_most: int) -> list[str]:
        return sorted((one for one in self.stored if one.startswith(prefix)), reverse=True)[
            :at_most
        ]

    def active(self) -> list[Run]:
        read = [run for run in self.stored.values() if run.id not in self.broken]
        return [run for run in read if not run.terminal]

    def unreadable_on(self, cluster_name: str) -> list[str]:
        active = [run for run in self.stored.values() if not run.terminal]
        return [
            run.id for run in active if run.id in self.broken and run.cluster_name == cluster_name
        ]

    def on_cluster(self, cluster_name: str) -> list[Run]:
        return [run for run in self.active() if run.cluster_name == cluster_name]

    def record(self, run_id: str, fact: Fact, message: str) -> bool:
        known = self.kept_facts.setdefault(run_id, {})
        if fact.id in known:
            return False
        known[fact.id] = as_stored(fact, fact.at)
        kind, attempt, data = type_of(fact), attempt_of(fact), data_of(fact)
        self.note(
            run_id,
            TimelineEntry(
                id=fact.id,
                at=fact.at,
                kind="fact",
                type=kind,
                message=message,
                attempt=attempt,
                data=data,
            ),
        )
        return True

    def facts(self, run_id: str, attempt: int | None = None) -> list[Fact]:
        found = [
            fact
            for fact in self.kept_facts.get(run_id, {}).values()
            if attempt is None or attempt_of(fact) in (None, attempt)
        ]
        return sorted(found, key=lambda fact: (fact.at, fact.id))

    def note(self, run_id: str, entry: TimelineEntry) -> None:
        notice = of_line(run_id, entry)
        if notice is not None and entry.id not in self.entries.get(run_id, {}):
            self.notices[(run_id, entry.id)] = notice
        self.entries.setdefault(run_id, {}).setdefault(entry.id, as_stored(entry, entry.at))

    def timeline(self, run_id: str, *, limit: int, token: str | None) -> Page[TimelineEntry]:
        entries = sorted(
            self.entries.get(run_id, {}).values(), key=lambda entry: (entry.at, entry.id)
        )
        return page(entries, limit, token, f"timeline/{run_id}")

    def put_checkpoint(self, run_id: str, checkpoint: Checkpoint) -> None:
        as_stored(checkpoint, checkpoint.committed_at)
        kept = self.kept_checkpoints.setdefault(run_id, {})
        own = places.is_own_checkpoint(checkpoint.path)
        key = (checkpoint.step, checkpoint.attempt, "" if own else checkpoint.path)
        old = kept.get(key)
        if old is None or checkpoint.status == "rejected":
            kept[key] = checkpoint
        elif old.status != "rejected":
            details, status = (
                (checkpoint, old.status)
                if checkpoint.status == "whole"
                else (old, checkpoint.status)
            )
            kept[key] = details.model_copy(update={"status": status})

    def checkpoints(self, run_id: str, *, limit: int, token: str | None) -> Page[Checkpoint]:
        kept = self.kept_checkpoints.get(run_id, {})
        found = [kept[key] for key in sorted(kept, reverse=True)]
        return page(found, limit, token, f"checkpoints/{run_id}")

    def messages(self, run_id: str) -> list[str]:
        """Every line of the timeline, for tests."""
        return [entry.message for entry in self.timeline(run_id, limit=10_000, token=None).items]


class MemoryClusters:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.stored: dict[str, Cluster] = {}
        self.broken: set[str] = set()  # records of these names cannot be read
        self.kept_facts: dict[str, dict[str, Fact]] = {}
        self.beats: dict[str, dict[str, ClusterHeartbeat]] = {}
        self.notices: dict[tuple[str, str], Notice] = {}
        self.told: set[str] = set()

    def create(self, cluster: Cluster) -> Cluster:
        old = self.stored.get(cluster.name)
        if old is not None and old.status != "Deleted":
            raise errors.ClusterExists(f"Cluster '{cluster.name}' exists.")
        fresh = cluster.model_copy(update={"generation": old.generation + 1 if old else 1})
        self.stored[cluster.name] = fresh
        return fresh

    def get(self, name: str) -> Cluster:
        if name not in self.stored:
            raise errors.ClusterNotFound.of(name)
        if name in self.broken:
            raise errors.RecordUnreadable(f"this version cannot read the record of {name}")
        return self.stored[name]

    def put(self, cluster: Cluster) -> Cluster:
        if self.get(cluster.name).version != cluster.version:
            raise errors.ConflictError(f"Cluster '{cluster.name}' was changed in between.")
        changed = cluster.changed(version=cluster.version + 1, updated_at=self._clock.now())
        fresh = read_stored(Cluster, changed.model_dump_json())
        self.stored[cluster.name] = fresh
        notice = of_cluster(fresh)
        if notice is not None and notice.id not in self.told:
            self.told.add(notice.id)
            self.notices[(cluster.name, notice.id)] = notice
        return fresh

    def succeed(self, cluster: Cluster, successor: Cluster) -> Cluster:
        if self.get(cluster.name).version != cluster.version:
            raise errors.ConflictError(f"Cluster '{cluster.name}' was changed in between.")
        self.stored[cluster.name] = read_stored(Cluster, successor.model_dump_json())
        return self.stored[cluster.name]

    def list(self, *, limit: int, token: str | None, wanted: Wanted = EVERYTHING) -> Page[Cluster]:
        read = [cluster for cluster in self.stored.values() if cluster.name not in self.broken]
        return page(chosen(read, wanted), limit, token, f"clusters/{wanted.digest}")

    def active(self) -> list[Cluster]:
        read = [cluster for cluster in self.stored.values() if cluster.name not in self.broken]
        return [cluster for cluster in read if cluster.status != "Deleted"]

    def tell(self, name: str, notice: Notice) -> bool:
        fresh = notice.id not in self.told
        if fresh:
            self.told.add(notice.id)
            self.notices[(name, notice.id)] = notice
        return fresh

    def touch(
        self, name: str, *, used_at: datetime | None = None, heartbeat_at: datetime | None = None
    ) -> None:
        cluster = self.get(name)
        update: dict[str, Any] = {}
        if used_at is not None and (cluster.last_used_at is None or used_at > cluster.last_used_at):
            update["last_used_at"] = used_at
        if heartbeat_at is not None and (
            cluster.last_heartbeat_at is None or heartbeat_at > cluster.last_heartbeat_at
        ):
            update["last_heartbeat_at"] = heartbeat_at
        self.stored[name] = cluster.model_copy(update=update)

    def record(self, name: str, fact: Fact) -> bool:
        known = self.kept_facts.setdefault(name, {})
        new = fact.id not in known
        known.setdefault(fact.id, as_stored(fact, fact.at))
        return new

    def facts(self, name: str) -> list[Fact]:
        return sorted(self.kept_facts.get(name, {}).values(), key=lambda fact: (fact.at, fact.id))

    def put_heartbeat(self, heartbeat: ClusterHeartbeat) -> None:
        expires = heartbeat.at + HEARTBEAT_LIFETIME
        kept = self.beats.setdefault(heartbeat.cluster_name, {})
        kept[heartbeat.id] = as_stored(heartbeat, expires)

    def heartbeats(
        self, name: str, *, since: datetime, until: datetime | None = None, limit: int
    ) -> list[ClusterHeartbeat]:
        kept = [
            beat
            for beat in self.beats.get(name, {}).values()
            if since <= beat.at and (until is None or beat.at <= until)
        ]
        return sorted(kept, key=lambda beat: beat.at)[-limit:]


class MemoryFilesystems:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.stored: dict[str, Filesystem] = {}
        self.broken: set[str] = set()  # records of these names cannot be read

    def create(self, filesystem: Filesystem) -> Filesystem:
        old = self.stored.get(filesystem.name)
        if old is not None and old.status != "Deleted":
            raise errors.FilesystemExists(f"Filesystem '{filesystem.name}' exists.")
        fresh = filesystem
        if old is not None:
            fresh = filesystem.changed(generation=old.generation + 1, version=old.version + 1)
        self.stored[filesystem.name] = fresh
        return fresh

    def get(self, name: str) -> Filesystem:
        if name not in self.stored:
            raise errors.FilesystemNotFound.of(name)
        if name in self.broken:
            raise errors.RecordUnreadable(f"this version cannot read the record of {name}")
        return self.stored[name]

    def put(self, filesystem: Filesystem) -> Filesystem:
        if self.get(filesystem.name).version != filesystem.version:
            raise errors.ConflictError(f"Filesystem '{filesystem.name}' was changed in between.")
        changed = filesystem.changed(version=filesystem.version + 1, updated_at=self._clock.now())
        fresh = read_stored(Filesystem, changed.model_dump_json())
        self.stored[filesystem.name] = fresh
        return fresh

    def list(
        self, *, limit: int, token: str | None, wanted: Wanted = EVERYTHING
    ) -> Page[Filesystem]:
        found = chosen(list(self._read()), wanted)
        return page(found, limit, token, f"filesystems/{wanted.digest}")

    def active(self) -> list[Filesystem]:
        return [one for one in self._read() if one.status != "Deleted"]

    def _read(self) -> list[Filesystem]:
        return [one for one in reversed(self.stored.values()) if one.name not in self.broken]


class MemoryAudit:
    def __init__(self) -> None:
        self.entries: dict[str, AuditEntry] = {}

    def add(self, entry: AuditEntry) -> bool:
        if entry.id in self.entries:
            return False
        self.entries[entry.id] = entry
        return True

    def settle(self, entry: AuditEntry) -> None:
        if entry.id in self.entries:
            self.entries[entry.id] = entry

    def list(self, query: AuditQuery, *, limit: int, token: str | None) -> Page[AuditEntry]:
        wanted = [entry for entry in self.entries.values() if query.wants(entry)]
        newest = sorted(wanted, key=lambda entry: (entry.at, entry.id), reverse=True)
        asked = ["audit", query.who, query.what, query.subject, query.since.isoformat()]
        return page(newest, limit, token, json.dumps(asked))


class MemoryArrays:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.stored: dict[str, RunArray] = {}

    def create(self, array: RunArray) -> RunArray:
        return self.stored.setdefault(array.id, array)

    def get(self, array_id: str) -> RunArray:
        if array_id not in self.stored:
            raise errors.ArrayNotFound.of(array_id)
        return self.stored[array_id]

    def put(self, array: RunArray) -> RunArray:
        if self.get(array.id).version != array.version:
            raise errors.ConflictError(f"array {array.id} was changed in between.")
        changed = array.changed(version=array.version + 1, updated_at=self._clock.now())
        self.stored[array.id] = read_stored(RunArray, changed.model_dump_json())
        return self.stored[array.id]

    def list(self, *, limit: int, token: str | None) -> Page[RunArray]:
        return page(list(reversed(self.stored.values())), limit, token, "arrays")

    def active(self) -> builtins.list[RunArray]:
        return [array for array in self.stored.values() if not array.over]


class MemoryApprovals:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.stored: dict[str, Approval] = {}

    def create(self, approval: Approval) -> Approval:
        return self.stored.setdefault(approval.id, approval)

    def get(self, approval_id: str) -> Approval:
        if approval_id not in self.stored:
            raise errors.ApprovalNotFound.of(approval_id)
        return self.stored[approval_id]

    def put(self, approval: Approval) -> Approval:
        if self.get(approval.id).version != approval.version:
            raise errors.ConflictError(f"approval {approval.id} was changed in between.")
        changed = approval.changed(version=approval.version + 1, updated_at=self._clock.now())
        self.stored[approval.id] = read_stored(Approval, changed.model_dump_json())
        return self.stored[approval.id]

    def list(
        self, *, limit: int, token: str | None, states: frozenset[str] = frozenset()
    ) -> Page[Approval]:
        newest_first = reversed(self.stored.values())
        found = [one for one in newest_first if not states or one.state in states]
        return page(found, limit, token, f"approvals-{sorted(states)}")

    def pending(self) -> builtins.list[Approval]:
        return [approval for approval in self.stored.values() if not approval.over]


class MemoryWebhooks:
    """The port `Webhooks`; `dispatched` is what was put on the bus."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.stored: dict[str, Webhook] = {}
        self.sent_to: dict[tuple[str, str], Delivery] = {}
        self.notices: dict[tuple[str, str], Notice] = {}
        self.dispatched: list[tuple[str, str]] = []

    def create(self, webhook: Webhook) -> Webhook:
        return self.stored.setdefault(webhook.id, webhook)

    def get(self, webhook_id: str) -> Webhook:
        if webhook_id not in self.stored:
            raise errors.WebhookNotFound.of(webhook_id)
        return self.stored[webhook_id]

    def put(self, webhook: Webhook, notice: Notice | None = None) -> Webhook:
        if self.get(webhook.id).version != webhook.version:
            raise errors.ConflictError(f"webhook {webhook.id} was changed in between.")
        changed = webhook.changed(version=webhook.version + 1, updated_at=self._clock.now())
        self.stored[webhook.id] = read_stored(Webhook, changed.model_dump_json())
        if notice is not None:
            self.notices[(f"webhook#{webhook.id}", f"notice#{notice.id}")] = notice
        return self.stored[webhook.id]

    def list(self, *, limit: int, token: str | None) -> Page[Webhook]:
        found = [one for one in reversed(self.stored.values()) if one.status != "Deleted"]
        return page(found, limit, token, "webhooks")

    def active(self) -> builtins.list[Webhook]:
        return [webhook for webhook in self.stored.values() if webhook.status == "Active"]

    def add(self, delivery: Delivery) -> bool:
        key = (delivery.webhook_id, delivery.id)
        if key in self.sent_to:
            return False
        self.sent_to[key] = delivery
        return True

    def delivery(self, webhook_id: str, delivery_id: str) -> Delivery:
        if (webhook_id, delivery_id) not in self.sent_to:
            raise errors.DeliveryNotFound.of(delivery_id)
        return self.sent_to[webhook_id, delivery_id]

    def put_delivery(self, delivery: Delivery) -> Delivery:
        if self.delivery(delivery.webhook_id, delivery.id).version != delivery.version:
            raise errors.ConflictError(f"delivery {delivery.id} was changed in between.")
        changed = delivery.changed(version=delivery.version + 1, updated_at=self._clock.now())
        stored = read_stored(Delivery, changed.model_dump_json())
        self.sent_to[delivery.webhook_id, delivery.id] = stored
        return stored

    def deliveries(self, webhook_id: str, *, at_most: int) -> builtins.list[Delivery]:
        found = [one for one in self.sent_to.values() if one.webhook_id == webhook_id]
        return sorted(found, key=lambda one: one.id, reverse=True)[:at_most]

    def due(self, webhook_id: str, now: datetime, *, at_most: int) -> builtins.list[Delivery]:
        found = self.deliveries(webhook_id, at_most=10_000)
        return [one for one in reversed(found) if one.due_at(now)][:at_most]

    def dispatch(self, delivery: Delivery) -> None:
        self.dispatched.append((delivery.webhook_id, delivery.id))


class MemoryTeamBudgets:
    """The port `TeamBudgets`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.stored: dict[str, TeamBudget] = {}
        self.told: set[str] = set()
        self.notices: dict[tuple[str, str], Notice] = {}

    def create(self, budget: TeamBudget) -> TeamBudget:
        return self.stored.setdefault(budget.name, budget)

    def get(self, name: str) -> TeamBudget:
        if name not in self.stored:
            raise errors.BudgetNotFound.of(name)
        return self.stored[name]

    def put(self, budget: TeamBudget, notices: Sequence[Notice] = ()) -> TeamBudget:
        if self.get(budget.name).version != budget.version:
            raise errors.ConflictError(f"budget {budget.name} was changed in between.")
        changed = budget.changed(version=budget.version + 1, updated_at=self._clock.now())
        self.stored[budget.name] = read_stored(TeamBudget, changed.model_dump_json())
        for notice in notices:
            if notice.id not in self.told:
                self.told.add(notice.id)
                self.notices[(f"budget#{budget.name}", f"notice#{notice.id}")] = notice
        return self.stored[budget.name]

    def list(self, *, limit: int, token: str | None) -> Page[TeamBudget]:
        found = [one for one in reversed(self.stored.values()) if one.status != "Deleted"]
        return page(found, limit, token, "budgets")

    def active(self) -> builtins.list[TeamBudget]:
        return [budget for budget in self.stored.values() if budget.status == "Active"]


class MemoryReceivers:
    """The port `Receivers`: answers in order, the last one for ever."""

    def __init__(self) -> None:
        self.loopback = False
        self.answers: list[Answer] = [Answer(200)]
        self.posted: list[tuple[str, dict[str, str], bytes]] = []

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.posted.append((url, dict(headers), body))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class MemoryTurns:
    def __init__(self) -> None:
        self.stored: dict[str, Turns] = {}

    def get(self, cluster_name: str) -> Turns:
        return self.stored.get(cluster_name, Turns(cluster_name=cluster_name))

    def put(self, turns: Turns) -> Turns:
        if self.get(turns.cluster_name).version != turns.version:
            raise errors.ConflictError(f"turns on {turns.cluster_name} were changed in between.")
        after = turns.changed(version=turns.version + 1)
        self.stored[turns.cluster_name] = read_stored(Turns, after.model_dump_json())
        return self.stored[turns.cluster_name]


class MemorySchedules:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.stored: dict[str, Schedule] = {}

    def create(self, schedule: Schedule) -> Schedule:
        old = self.stored.get(schedule.name)
        if old is not None and old.status != "Deleted":
            raise errors.ScheduleExists(f"a schedule named '{schedule.name}' exists")
        if old is not None:
            schedule = schedule.changed(generation=old.generation + 1, version=old.version + 1)
        self.stored[schedule.name] = schedule
        return schedule

    def get(self, name: str) -> Schedule:
        if name not in self.stored:
            raise errors.ScheduleNotFound.of(name)
        return self.stored[name]

    def put(self, schedule: Schedule) -> Schedule:
        if self.get(schedule.name).version != schedule.version:
            raise errors.ConflictError(f"schedule {schedule.name} was changed in between.")
        changed = schedule.changed(version=schedule.version + 1, updated_at=self._clock.now())
        self.stored[schedule.name] = read_stored(Schedule, changed.model_dump_json())
        return self.stored[schedule.name]

    def list(self, *, limit: int, token: str | None) -> Page[Schedule]:
        there = [one for one in reversed(self.stored.values()) if one.status != "Deleted"]
        return page(there, limit, token, "schedules")

    def active(self) -> builtins.list[Schedule]:
        return [one for one in self.stored.values() if not one.over]


class MemoryScheduler:
    """EventBridge Scheduler, as far as it is asked: what it has by name."""

    def __init__(self) -> None:
        self.there: dict[str, Schedule] = {}

    def place(self, schedule: Schedule, begins: datetime | None) -> None:
        assert (begins is None) == (schedule.spec.rate is None)
        self.there[schedule.name] = schedule

    def remove(self, name: str) -> None:
        self.there.pop(name, None)


class MemoryWaits:
    def __init__(self) -> None:
        self.stored: dict[str, Wait] = {}

    def store(self, wait: Wait) -> bool:
        there = self.stored.get(wait.owner)
        if there is not None and there.since > wait.since and there.token != wait.token:
            return False
        self.stored[wait.owner] = wait
        return True

    def get(self, owner: str) -> Wait | None:
        return self.stored.get(owner)

    def mark_woken(self, owner: str, token: str, at: datetime) -> bool:
        wait = self.stored.get(owner)
        if wait is None or wait.token != token:
            return False
        self.stored[owner] = wait.model_copy(update={"woken_at": at})
        return True

    def clear(self, owner: str, token: str) -> None:
        if owner in self.stored and self.stored[owner].token == token:
            del self.stored[owner]

    def all(self) -> list[Wait]:
        return list(self.stored.values())


class MemoryChanges:
    """Changes of clusters in memory: tests say how the backend's answers go on.

    `at` is the moment of the newest change, as a count.
    """

    def __init__(self) -> None:
        self.needs_stop = self.nothing = False
        self.refuse: dict[str, Exception] = {}
        self.state: Literal["changing", "complete", "rolled-back", "failed"] = "complete"
        self.fleet: Literal["running", "stopped", "changing"] = "running"
        self.at, self.reason = 1, ""
        self.there = True
        self.asked: list[str] = []

    def _maybe_refuse(self, operation: str) -> None:
        if operation in self.refuse:
            raise self.refuse[operation]

    def plan(self, cluster: Cluster, wanted: ClusterBase) -> ChangePlan:
        self._maybe_refuse("plan")
        request = BackendRequest("UpdateCluster", {"ClusterName": cluster.name}, {})
        return ChangePlan(request, self.needs_stop and self.fleet == "running", self.nothing)

    def apply(self, cluster: Cluster, wanted: ClusterBase) -> bool:
        if self.state == "changing":
            raise errors.ConflictError("an update is under way")
        self._maybe_refuse("apply")
        assert not self.needs_stop or self.fleet == "stopped"
        self.asked.append("apply")
        self.state, self.at = "changing", self.at + 1
        return True

    def restore(self, cluster: Cluster) -> None:
        self.asked.append("restore")

    def look(self, cluster: Cluster) -> ChangeSeen | None:
        self._maybe_refuse("look")
        if not self.there:
            return None
        return ChangeSeen(self.state, self.fleet, f"{self.state}", self.reason, str(self.at))

    def set_fleet(self, cluster: Cluster, *, running: bool) -> None:
        self._maybe_refuse("set_fleet")
        self.asked.append("start" if running else "stop")
        self.fleet = "changing"


class MemoryBackend:
    """One backend in memory.

    Tests move a cluster's state with `advance`, or make calls fail through `refuse`.
    """

    def __init__(
        self,
        clock: MemoryClock,
        stage: str,
        name: str = "hyperpod",
        commands: MemoryCommands | None = None,
    ) -> None:
        self.commands = commands or MemoryCommands()
        self.clock, self.stage, self.name = clock, stage, name
        self.clusters: dict[str, BackendCluster] = {}
        self.beside: dict[tuple[str, int], datetime] = {}
        self.node_lists: dict[str, list[ClusterNode]] = {}
        self.refuse: dict[str, Exception] = {}
        self.log = ""
        self.reasons: dict[str, str] = {}
        self.replaced: list[str] = []
        self.rebooted: list[str] = []
        self.attended: list[str] = []
        self.made = 0
        self.deleting_takes = 1
        self.changes: Changes | None = None
        self.adoptions: Adoptions | None = None

    def _maybe_refuse(self, operation: str) -> None:
        if operation in self.refuse:
            raise self.refuse[operation]

    def plan(
        self, cluster: Cluster, *, tried: bool = True, job: JobSpec | None = None
    ) -> BackendRequest:
        return BackendRequest(
            "CreateCluster", {"ClusterName": cluster.name}, {"lifecycle/on_create.sh": 100}
        )

    def create(self, cluster: Cluster) -> str:
        self._maybe_refuse("create")
        if cluster.name in self.clusters:
            if not cluster.is_marked(self.clusters[cluster.name].tags):
                raise errors.ClusterNameTaken(
                    f"a cluster named '{cluster.name}' exists that was made for another record "
                    "of this stack"
                )
            return self.clusters[cluster.name].arn
        self.beside.setdefault((cluster.name, cluster.generation), self.clock.now())
        self.made += 1
        arn = f"arn:aws:sagemaker:us-east-1:123456789012:cluster/c{self.made:011d}"
        tags = {STAGE_TAG: self.stage, RECORD_TAG: cluster.mark}
        self.clusters[cluster.name] = BackendCluster(
            self.name,
            arn,
            cluster.name,
            BackendStatus.CREATING,
            "Creating",
            tags=tags,
            created_at=self.clock.now(),
        )
        self.node_lists[cluster.name] = list(_nodes(cluster.spec))
        return arn

    def attend(self, cluster: Cluster) -> None:
        self._maybe_refuse("attend")
        self.attended.append(cluster.name)

    def event_reason(self, name: str, event_id: str) -> str:
        self._maybe_refuse("event_reason")
        return self.reasons.get(event_id, "")

    def describe(self, name: str) -> BackendCluster | None:
        seen = self.clusters.get(name)
        if seen is not None and seen.status == BackendStatus.DELETING:
            self.deleting_takes -= 1
            if self.deleting_takes <= 0:
                del self.clusters[name]
                return None
        return seen

    def clean_up(self, name: str, generation: int) -> None:
        self._maybe_refuse("clean_up")
        self.beside.pop((name, generation), None)

    def remains(self) -> list[Remains]:
        return [
            Remains(self.name, name, generation, at)
            for (name, generation), at in self.beside.items()
        ]

    def advance(self, name: str, status: BackendStatus, message: str = "") -> None:
        self.clusters[name] = replace(
            self.clusters[name], status=status, said=status, failure_message=message
        )

    def nodes(self, cluster: Cluster) -> list[ClusterNode]:
        return list(self.node_lists.get(cluster.name, []))

    def controller(self, cluster: Cluster) -> ClusterNode | None:
        return next((node for node in self.nodes(cluster) if node.role == "controller"), None)

    def run(
        self, cluster: Cluster, argv: Sequence[str], *, timeout_seconds: float
    ) -> CommandResult:
        return self.commands.run(cluster, argv, timeout_seconds=timeout_seconds)

    def product(self, instance_type: str) -> Product:
        return Product("Memory", (), instance_type)

    def read_event(self, envelope: Mapping[str, Any], now: datetime) -> BackendEvent | str | None:
        return read_event(envelope, now)

    def replace(self, name: str, instance_ids: Sequence[str]) -> BatchResult:
        self._maybe_refuse("replace")
        known = {node.instance_id for node in self.node_lists.get(name, [])}
        good = [instance for instance in instance_ids if instance in known]
        self.replaced += good
        fresh = {instance: f"{instance}-new" for instance in good}
        self.node_lists[name] = [
            node.model_copy(update={"instance_id": fresh.get(node.instance_id, node.instance_id)})
            for node in self.node_lists[name]
        ]
        return BatchResult(
            good, {instance: "not found" for instance in instance_ids if instance not in known}
        )

    def reboot(self, name: str, instance_ids: Sequence[str]) -> BatchResult:
        self.rebooted += list(instance_ids)
        return BatchResult(list(instance_ids), {})

    def delete(self, name: str) -> bool:
        self._maybe_refuse("delete")
        if name not in self.clusters:
            return False
        self.advance(name, BackendStatus.DELETING)
        return True

    def tagged(self) -> list[BackendCluster]:
        return [seen for seen in self.clusters.values() if seen.tags.get(STAGE_TAG) == self.stage]

    def lifecycle_log(self, cluster: Cluster, *, lines: int, instance_id: str | None = None) -> str:
        self._maybe_refuse("log")
        return self.log


def _nodes(spec: ClusterSpec) -> Iterator[ClusterNode]:
    number = 10
    for group in spec.groups():
        for _ in range(group.count + group.spares):
            number += 1
            name = f"ip-127-0-1-{number}"
            yield ClusterNode(
                instance_id=f"i-{number:08d}",
                group=group.name,
                role=group.role,
                instance_type=group.instance_type,
                status=NodeState.RUNNING,
                name=name,
            )


class MemoryBlobs:
    bucket = "sagemaker-trainyard-test"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.checksums: dict[str, str] = {}  # of objects that were uploaded in parts

    def put(self, key: str, body: bytes) -> None:
        self.objects[key] = body

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise errors.BlobNotFound(f"There is no object {key}.")
        return self.objects[key]

    def head(self, key: str) -> tuple[int, str | None] | None:
        body = self.objects.get(key)
        return (
            None
            if body is None
            else (
                len(body),
                self.checksums.get(key) or b64encode(hashlib.sha256(body).digest()).decode(),
            )
        )


class MemoryDirectories:
    """ports.Directories over the blobs."""

    def __init__(self, blobs: MemoryBlobs) -> None:
        self._blobs = blobs

    def clusters(self) -> list[str]:
        parts = [key.split("/") for key in self._blobs.objects if key.startswith("directories/")]
        return sorted({part[1] for part in parts})

    def of(self, cluster: str) -> list[Directory]:
        top = places.directories_prefix(cluster)
        keys = [key for key in self._blobs.objects if key.startswith(top)]
        runs = {key.removeprefix(top).split("/")[0] for key in keys}
        return [Directory(cluster, run) for run in sorted(runs)]

    def files(self, directory: Directory) -> dict[str, int]:
        top = places.directory_prefix(directory.cluster, directory.run_id)
        parts = tuple(f"{top}{part}/" for part in PARTS)
        found = {key: body for key, body in self._blobs.objects.items() if key.startswith(parts)}
        return {key.removeprefix(top): len(body) for key, body in found.items()}

    def delete(self, directory: Directory, paths: Sequence[str]) -> None:
        top = places.directory_prefix(directory.cluster, directory.run_id)
        for path in paths:
            self._blobs.objects.pop(top + path, None)


class MemoryUploads:
    """ports.Uploads over the blobs: `at` says when an object was uploaded."""

    def __init__(self, blobs: MemoryBlobs, clock: Clock) -> None:
        self._blobs, self._clock = blobs, clock
        self.at: dict[str, datetime] = {}

    def put(self, body: bytes) -> str:
        """As a client does; returns the object's hash."""
        sha256 = hashlib.sha256(body).hexdigest()
        self._blobs.put(places.upload_key(sha256), body)
        self.at[sha256] = self._clock.now()
        return sha256

    def held(self, part: Pack) -> datetime | None:
        body = self._blobs.objects.get(places.upload_key(part.sha256))
        same = body is not None and len(body) == part.bytes
        return self.at[part.sha256] if same else None

    def request(self, part: Pack, *, seconds: int) -> PutRequest:
        checksum = b64encode(bytes.fromhex(part.sha256)).decode()
        headers = {"x-amz-checksum-sha256": checksum, "content-length": str(part.bytes)}
        return PutRequest(f"https://bucket/{places.upload_key(part.sha256)}?signed", headers)

    def copy(self, source: str, key: str) -> bool:
        if source not in self._blobs.objects:
            return False
        self._blobs.put(key, self._blobs.objects[source])
        return True


class MemorySources:
    """ports.Sources: `known` says what is there; of all else nothing is seen."""

    def __init__(self) -> None:
        self.known: dict[str, Literal["there", "empty", "no-bucket"]] = {}

    def look(self, source: S3Prefix) -> Literal["there", "empty", "no-bucket", "unknown"]:
        return self.known.get(str(source), "unknown")


class MemoryExports:
    """ports.Exports over the blobs."""

    def __init__(self, blobs: MemoryBlobs) -> None:
        self._blobs = blobs

    def objects(self, manifest_key: str, *, limit: int, token: str | None) -> Page[ExportedObject]:
        found = json.loads(self._blobs.get(manifest_key))["objects"]
        known = [ExportedObject.model_validate(each) for each in found]
        start = int(token or 0)
        rest = str(start + limit) if start + limit < len(known) else None
        return Page(known[start : start + limit], rest)

    def copy(self, source: str, key: str) -> bool:
        if source not in self._blobs.objects:
            return False
        self._blobs.put(key, self._blobs.objects[source])
        return True

    def url(self, key: str, *, seconds: int) -> str:
        return f"https://bucket.example/{key}?expires={seconds}"


class MemoryCommands:
    """A controller's agent; `answer` decides what a command says."""

    def __init__(self) -> None:
        self.ran: list[list[str]] = []
        self.answer: Callable[[Cluster, list[str]], CommandResult] = lambda cluster, argv: (
            CommandResult(0, "{}", "")
        )

    def run(
        self, cluster: Cluster, argv: Sequence[str], *, timeout_seconds: float
    ) -> CommandResult:
        self.ran.append(list(argv))
        return self.answer(cluster, list(argv))


@dataclass
class Execution:
    machine: str
    name: str
    payload: dict[str, Any]
    status: str = "RUNNING"


class MemoryExecutions:
    def __init__(self) -> None:
        self.started: dict[tuple[str, str], Execution] = {}
        self.tokens: dict[str, dict[str, Any] | None] = {}

    def start(self, machine: str, name: str, payload: Mapping[str, Any]) -> None:
        assert len(name) <= 80, name
        self.started.setdefault((machine, name), Execution(machine, name, dict(payload)))

    def status(self, machine: str, name: str) -> str | None:
        found = self.started.get((machine, name))
        return found.status if found else None

    def succeed(self, token: str, output: Mapping[str, Any]) -> bool:
        if self.tokens.get(token, {}) is not None:
            return False
        self.tokens[token] = dict(output)
        return True


class MemoryDeadLetters:
    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def take(self, limit: int) -> list[DeadLetter]:
        return [DeadLetter(receipt, body) for receipt, body in list(self.letters.items())[:limit]]

    def forget(self, letter: DeadLetter) -> None:
        self.letters.pop(letter.receipt, None)


class MemorySecrets:
    def __init__(self) -> None:
        self.names: set[str] = set()
        self.made: dict[str, int] = {}
        self.written: dict[str, str] = {}

    def ensure(self, name: str) -> str:
        if name not in self.names:
            self.names.add(name)
            self.made[name] = self.made.get(name, 0) + 1
        return f"arn:aws:secretsmanager:us-east-1:123456789012:secret:{name}"

    def read(self, name: str, *, fresh: bool = False) -> str | None:
        if name in self.written:
            return self.written[name]
        return f"key {self.made[name]} of {name}" if name in self.names else None

    def write(self, name: str, value: str) -> None:
        self.written[name] = value

    def delete(self, name: str) -> None:
        self.names.discard(name)
        self.written.pop(name, None)


class MemoryMetrics:
    """ports.Metrics: what was told, in order, as (name, value, dimensions)."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float, dict[str, str]]] = []

    def put(self, name: str, value: float, unit: str = "Count", **dimensions: str) -> None:
        self.told.append((name, value, dimensions))


class MemoryPrices:
    def monthly_usd(self, spec: FilesystemSpec) -> float | None:
        return 0.145 * spec.storage_gib

    def hourly_usd(self, spec: ClusterSpec, product_of: Callable[[str], Product]) -> float | None:
        return 1.5 * sum(group.count + group.spares for group in spec.groups())


class MemoryNotices:
    """The port `Notices`; `events` is what the bus has taken."""

    def __init__(
        self,
        runs: MemoryRuns,
        clusters: MemoryClusters,
        *more: dict[tuple[str, str], Notice],
    ) -> None:
        self._stores = (runs.notices, clusters.notices, *more)
        self.events: list[UserEvent] = []
        self.changes: list[str] = []
        self.away = False
        self._again: dict[tuple[str, str], datetime] = {}

    def unsent(self, at_most: int) -> list[UnsentNotice]:
        found = [
            UnsentNotice(notice, key) for store in self._stores for key, notice in store.items()
        ]
        fresh = [one for one in found if one.key not in self._again]
        again = [one for one in found if one.key in self._again]
        fresh.sort(key=lambda one: (one.notice.at, one.notice.id))
        again.sort(key=lambda one: (self._again[one.key], one.notice.id))
        return fresh[:at_most] + again[: max(1, at_most // 4)]

    def send(self, event: UserEvent) -> None:
        if self.away:
            raise errors.RetryableError("the bus is away")
        self.events.append(event)

    def sent(self, unsent: UnsentNotice) -> None:
        for store in self._stores:
            store.pop(unsent.key, None)

    def postpone(self, unsent: UnsentNotice, now: datetime) -> None:
        self._again[unsent.key] = now

    def run_changed(self, run_id: str) -> None:
        self.changes.append(run_id)


@dataclass
class World:
    """Everything of one test, with its ports; `fuse` kills the process at a chosen port call."""

    clock: MemoryClock = field(default_factory=MemoryClock)
    ids: MemoryIds = field(default_factory=MemoryIds)
    fuse: Fuse = field(default_factory=Fuse)
    runs: MemoryRuns = field(init=False)
    clusters: MemoryClusters = field(init=False)
    arrays: MemoryArrays = field(init=False)
    approvals: MemoryApprovals = field(init=False)
    team_budgets: MemoryTeamBudgets = field(init=False)
    webhooks: MemoryWebhooks = field(init=False)
    receivers: MemoryReceivers = field(default_factory=MemoryReceivers)
    turns: MemoryTurns = field(default_factory=MemoryTurns)
    schedules: MemorySchedules = field(init=False)
    scheduler: MemoryScheduler = field(default_factory=MemoryScheduler)
    filesystems: MemoryFilesystems = field(init=False)
    audit: MemoryAudit = field(init=False)
    lustre: MemoryLustre = field(init=False)
    networks: MemoryNetworks = field(default_factory=MemoryNetworks)
    waits: MemoryWaits = field(default_factory=MemoryWaits)
    commands: MemoryCommands = field(default_factory=MemoryCommands)
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)
    uploads: MemoryUploads = field(init=False)
    sources: MemorySources = field(default_factory=MemorySources)
    exports: MemoryExports = field(init=False)
    directories: MemoryDirectories = field(init=False)
    executions: MemoryExecutions = field(default_factory=MemoryExecutions)
    dead_letters: MemoryDeadLetters = field(default_factory=MemoryDeadLetters)
    notices: MemoryNotices = field(init=False)
    secrets: MemorySecrets = field(default_factory=MemorySecrets)
    metrics: MemoryMetrics = field(default_factory=MemoryMetrics)
    backend: MemoryBackend = field(init=False)
    ports: Ports = field(init=False)

    def __post_init__(self) -> None:
        self.runs, self.clusters = MemoryRuns(self.clock), MemoryClusters(self.clock)
        self.webhooks = MemoryWebhooks(self.clock)
        self.team_budgets = MemoryTeamBudgets(self.clock)
        self.notices = MemoryNotices(
            self.runs, self.clusters, self.webhooks.notices, self.team_budgets.notices
        )
        self.arrays = MemoryArrays(self.clock)
        self.approvals = MemoryApprovals(self.clock)
        self.schedules = MemorySchedules(self.clock)
        self.filesystems = MemoryFilesystems(self.clock)
        self.audit = MemoryAudit()
        self.lustre = MemoryLustre(self.clock, "test")
        self.backend = MemoryBackend(self.clock, "test", commands=self.commands)
        self.uploads = MemoryUploads(self.blobs, self.clock)
        self.exports = MemoryExports(self.blobs)
        self.directories = MemoryDirectories(self.blobs)
        wrap = self.fuse.wrap
        self.ports = Ports(
            runs=wrap(self.runs), clusters=wrap(self.clusters), waits=wrap(self.waits),
            arrays=wrap(self.arrays), schedules=wrap(self.schedules), turns=wrap(self.turns),
            approvals=wrap(self.approvals),
            team_budgets=wrap(self.team_budgets), webhooks=wrap(self.webhooks),
            receivers=self.receivers,
            scheduler=wrap(self.scheduler),
            filesystems=wrap(self.filesystems), audit=wrap(self.audit), lustre=wrap(self.lustre),
            networks=wrap(self.networks),
            backends={"hyperpod": wrap(self.backend)},
            blobs=wrap(self.blobs), uploads=wrap(self.uploads), exports=wrap(self.exports),
            directories=wrap(self.directories),
            sources=wrap(self.sources), executions=wrap(self.executions),
            dead_letters=wrap(self.dead_letters), notices=wrap(self.notices),
            secrets=wrap(self.secrets), prices=MemoryPrices(),
            metrics=self.metrics, clock=self.clock, ids=self.ids,
            config=Config(heartbeat_seconds=60, secret_prefix="trainyard/test",
                          data_bucket="trainyard-data", region="us-east-1"),
        )  # fmt: skip
