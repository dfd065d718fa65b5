"""What a person asks for: allowed by their role, in the audit list, and then done.

Every interface comes in here, so that all have the same policy; no interface calls a use case that
changes anything by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from trainyard.app.clusters.adopt_cluster import adopt_cluster, release_cluster
from trainyard.app.clusters.change_cluster import start_fleet, stop_fleet, update_cluster
from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.clusters.keep_cluster import keep_cluster
from trainyard.app.clusters.label_cluster import label_cluster
from trainyard.app.clusters.node_operations import reboot_node, replace_node
from trainyard.app.filesystems.create_filesystem import create_filesystem
from trainyard.app.filesystems.delete_filesystem import delete_filesystem, export_filesystem
from trainyard.app.people.ownership import Owned, given_to, load, shared, thing_of
from trainyard.app.runs.advance_array import cancel_array
from trainyard.app.runs.approvals import decide_approval
from trainyard.app.runs.cancel_run import cancel_run
from trainyard.app.runs.label_run import label_run
from trainyard.app.runs.request_export import request_export
from trainyard.app.runs.resume_run import resume_run
from trainyard.app.runs.schedules import (
    create_schedule,
    delete_schedule,
    pause_schedule,
    resume_schedule,
)
from trainyard.app.runs.submit_array import submit_array
from trainyard.app.runs.submit_run import submit_run
from trainyard.app.runs.team_budgets import remove_budget, set_budget
from trainyard.app.runs.uploads import request_upload
from trainyard.app.webhooks.manage import add_webhook, redeliver, remove_webhook, rotate_webhook
from trainyard.domain.approval_records import Approval
from trainyard.domain.approvals import refusal_to_decide
from trainyard.domain.array_records import RunArray
from trainyard.domain.audit import Act, AuditEntry
from trainyard.domain.errors import Forbidden, TrainyardError
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.people import (
    Role,
    Thing,
    refusal,
    refusal_to_budget,
    refusal_to_own,
    refusal_to_prefer,
    refusal_to_read,
)
from trainyard.domain.records import Cluster, Run
from trainyard.domain.schedule_records import Schedule
from trainyard.domain.team_budget_records import TeamBudget
from trainyard.domain.webhook_records import Delivery, Webhook
from trainyard.outside.seen_clusters import BatchResult
from trainyard.ports import Ports
from trainyard_contracts.adopting import AdoptSpec
from trainyard_contracts.arrays import ArraySpec
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.filesystems import FilesystemSpec
from trainyard_contracts.people import Person
from trainyard_contracts.schedules import ScheduleSpec
from trainyard_contracts.sharing import SharingSpec
from trainyard_contracts.specs import RunSpec
from trainyard_contracts.team_budgets import TeamBudgetSpec
from trainyard_contracts.trees import Upload, UploadSpec
from trainyard_contracts.webhooks import WebhookSpec

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Caller:
    """A person, and the request by which they ask; all of it as the gateway says it."""

    person: Person
    request_id: str
    at: datetime
    source_ip: str = ""
    user_agent: str = ""


class OnBehalf:
    """The changes that one request may ask for. Each raises Forbidden, and what its use case does.

    Only the audit list's own failure keeps an allowed change from being made.
    """

    def __init__(self, ports: Ports, caller: Caller) -> None:
        self._ports, self._caller, self._by = ports, caller, caller.person

    @property
    def person(self) -> Person:
        return self._by

    @property
    def role(self) -> Role | None:
        return self._ports.config.roles.of(self._by)

    def check_reads(self) -> None:
        """Raises Forbidden for one who has no role here."""
        _raised(refusal_to_read(self._ports.config.roles, self._by))

    def check_changes(self, record: Owned | None = None) -> None:
        """Raises Forbidden for one who may not change it, or, without one, make anything.

        For what is only asked about: a change itself is checked when it is made.
        """
        thing = None if record is None else thing_of(self._ports, record)
        _raised(self._refusal(0, thing))

    def _own(self, idempotency_key: str | None) -> str | None:
        """The key among this person's: what another one made by the same key is not theirs."""
        return None if idempotency_key is None else f"{self._by.id}/{idempotency_key}"

    # Runs

    def submit_run(self, spec: RunSpec, *, idempotency_key: str | None) -> Run:
        return self._made(
            "run.submit",
            f"run/{spec.name}",
            lambda: submit_run(
                self._ports, spec, idempotency_key=self._own(idempotency_key), by=self._by
            ),
            lambda run: f"run/{run.id}",
            priority=spec.priority,
        )

    def cancel_run(self, run_id: str, *, reason: str = "") -> Run:
        return self._changed(
            "run.cancel",
            load(self._ports, "run", run_id),
            lambda: cancel_run(self._ports, run_id, by=self._by, reason=reason),
            reason,
        )

    def resume_run(self, run_id: str, filesystem: str | None, *, reason: str = "") -> Run:
        return self._changed(
            "run.resume",
            load(self._ports, "run", run_id),
            lambda: resume_run(self._ports, run_id, filesystem, by=self._by),
            reason,
        )

    def export_run(self, run_id: str, *, reason: str = "") -> Run:
        return self._changed(
            "run.export",
            load(self._ports, "run", run_id),
            lambda: request_export(self._ports, run_id, by=self._by),
            reason,
        )

    def label_run(
        self,
        run_id: str,
        changes: Mapping[str, str | None],
        *,
        priority: int | None = None,
        version: int | None,
    ) -> Run:
        return self._changed(
            "run.label" if priority is None else "run.priority",
            load(self._ports, "run", run_id),
            lambda: label_run(self._ports, run_id, changes, priority=priority, version=version),
            priority=priority or 0,
        )

    def submit_array(self, spec: ArraySpec, *, idempotency_key: str | None) -> RunArray:
        return self._made(
            "array.submit",
            f"array/{spec.run.name}",
            lambda: submit_array(
                self._ports, spec, idempotency_key=self._own(idempotency_key), by=self._by
            ),
            lambda array: f"array/{array.id}",
            priority=spec.run.priority,
        )

    def cancel_array(self, array_id: str, *, reason: str = "") -> RunArray:
        return self._changed(
            "array.cancel",
            self._ports.arrays.get(array_id),
            lambda: cancel_array(self._ports, array_id, by=self._by, reason=reason),
            reason,
        )

    # Approvals

    def check_decides(self, approval: Approval) -> None:
        """Raises Forbidden for one who has no say in it; a word itself is checked when it comes."""
        config = self._ports.config
        _raised(
            refusal(config.roles, self._by)
            or refusal_to_decide(config.approvals, config.roles, approval, self._by)
        )

    def decide_approval(self, approval_id: str, *, approve: bool, reason: str = "") -> Approval:
        """A refusal is in the audit list as each other one."""
        approval = self._ports.approvals.get(approval_id)
        config = self._ports.config
        refused = refusal(config.roles, self._by) or refusal_to_decide(
            config.approvals, config.roles, approval, self._by
        )
        return self._audited(
            self._entry(
                "approval.approve" if approve else "approval.deny",
                f"approval/{approval_id}",
                reason,
            ),
            refused,
            lambda: decide_approval(
                self._ports, approval_id, by=self._by, approve=approve, reason=reason
            ),
        )

    # Schedules

    def create_schedule(self, spec: ScheduleSpec) -> Schedule:
        return self._made(
            "schedule.create",
            f"schedule/{spec.name}",
            lambda: create_schedule(self._ports, spec, by=self._by),
            lambda schedule: f"schedule/{schedule.name}",
            priority=max(one.priority for one in spec.chain),
        )

    def pause_schedule(self, name: str, *, reason: str = "") -> Schedule:
        return self._changed(
            "schedule.pause",
            self._schedule(name),
            lambda: pause_schedule(self._ports, name),
            reason,
        )

    def resume_schedule(self, name: str) -> Schedule:
        return self._changed(
            "schedule.resume", self._schedule(name), lambda: resume_schedule(self._ports, name)
        )

    def delete_schedule(self, name: str, *, reason: str = "") -> Schedule:
        return self._changed(
            "schedule.delete",
            self._schedule(name),
            lambda: delete_schedule(self._ports, name),
            reason,
        )

    def _schedule(self, name: str) -> Schedule:
        return self._ports.schedules.get(name)

    # Budgets that runs share

    def set_budget(self, name: str, spec: TeamBudgetSpec) -> TeamBudget:
        return self._as_admin(
            "budget.set", name, lambda: set_budget(self._ports, name, spec, by=self._by)
        )

    def remove_budget(self, name: str, *, reason: str = "") -> TeamBudget:
        return self._as_admin(
            "budget.remove", name, lambda: remove_budget(self._ports, name), reason
        )

    def _as_admin(
        self, what: Act, name: str, act: Callable[[], TeamBudget], reason: str = ""
    ) -> TeamBudget:
        refused = refusal_to_budget(self._ports.config.roles, self._by)
        return self._audited(self._entry(what, f"budget/{name}", reason), refused, act)

    # Webhooks

    def add_webhook(
        self, spec: WebhookSpec, *, idempotency_key: str | None
    ) -> tuple[Webhook, str | None]:
        return self._made(
            "webhook.add",
            "webhook/",
            lambda: add_webhook(
                self._ports, spec, idempotency_key=self._own(idempotency_key), by=self._by
            ),
            lambda made: f"webhook/{made[0].id}",
        )

    def rotate_webhook(self, webhook_id: str, *, reason: str = "") -> tuple[Webhook, str]:
        return self._changed(
            "webhook.rotate",
            self._ports.webhooks.get(webhook_id),
            lambda: rotate_webhook(self._ports, webhook_id),
            reason,
        )

    def redeliver(self, webhook_id: str, delivery_id: str, *, reason: str = "") -> Delivery:
        return self._changed(
            "webhook.redeliver",
            self._ports.webhooks.get(webhook_id),
            lambda: redeliver(self._ports, webhook_id, delivery_id),
            reason,
        )

    def remove_webhook(self, webhook_id: str, *, reason: str = "") -> Webhook:
        return self._changed(
            "webhook.remove",
            self._ports.webhooks.get(webhook_id),
            lambda: remove_webhook(self._ports, webhook_id),
            reason,
        )

    def request_upload(self, spec: UploadSpec) -> Upload:
        """Not in the audit list: it changes nothing of anybody, and the run that uses it is."""
        _raised(refusal(self._ports.config.roles, self._by))
        return request_upload(self._ports, spec)

    # Clusters and nodes

    def create_cluster(self, spec: ClusterSpec, *, idempotency_key: str | None) -> Cluster:
        return self._made(
            "cluster.create",
            f"cluster/{spec.name}",
            lambda: create_cluster(
                self._ports, spec, idempotency_key=self._own(idempotency_key), by=self._by
            ),
            lambda cluster: f"cluster/{cluster.name}",
        )

    def adopt_cluster(self, spec: AdoptSpec, *, idempotency_key: str | None) -> Cluster:
        return self._made(
            "cluster.adopt",
            f"cluster/{spec.named}",
            lambda: adopt_cluster(self._ports, spec, self._own(idempotency_key), by=self._by),
            lambda cluster: f"cluster/{cluster.name}",
        )

    def release_cluster(self, name: str, *, force: bool, reason: str = "") -> Cluster:
        return self._changed(
            "cluster.release",
            load(self._ports, "cluster", name),
            lambda: release_cluster(self._ports, name, force=force, by=self._by),
            reason,
        )

    def update_cluster(self, name: str, spec: ClusterSpec) -> Cluster:
        return self._changed(
            "cluster.update",
            load(self._ports, "cluster", name),
            lambda: update_cluster(self._ports, name, spec, by=self._by),
        )

    def label_cluster(
        self,
        name: str,
        changes: Mapping[str, str | None],
        *,
        sharing: SharingSpec | None = None,
        version: int | None,
    ) -> Cluster:
        return self._changed(
            "cluster.label" if sharing is None else "cluster.sharing",
            load(self._ports, "cluster", name),
            lambda: label_cluster(self._ports, name, changes, sharing=sharing, version=version),
        )

    def keep_cluster(self, name: str, *, reason: str = "") -> Cluster:
        return self._changed(
            "cluster.keep",
            load(self._ports, "cluster", name),
            lambda: keep_cluster(self._ports, name),
            reason,
        )

    def stop_fleet(self, name: str, *, force: bool, reason: str = "") -> Cluster:
        return self._changed(
            "cluster.stop",
            load(self._ports, "cluster", name),
            lambda: stop_fleet(self._ports, name, force=force, by=self._by),
            reason,
        )

    def start_fleet(self, name: str) -> Cluster:
        return self._changed(
            "cluster.start",
            load(self._ports, "cluster", name),
            lambda: start_fleet(self._ports, name, by=self._by),
        )

    def delete_cluster(self, name: str, *, force: bool, reason: str = "") -> Cluster:
        return self._changed(
            "cluster.delete",
            load(self._ports, "cluster", name),
            lambda: delete_cluster(self._ports, name, force=force, by=self._by),
            reason,
        )

    def replace_node(self, cluster: str, instance_id: str, *, reason: str = "") -> BatchResult:
        return self._changed(
            "node.replace",
            load(self._ports, "cluster", cluster),
            lambda: replace_node(self._ports, cluster, instance_id, by=self._by),
            reason,
            subject=f"node/{cluster}/{instance_id}",
        )

    def reboot_node(self, cluster: str, instance_id: str, *, reason: str = "") -> BatchResult:
        return self._changed(
            "node.reboot",
            load(self._ports, "cluster", cluster),
            lambda: reboot_node(self._ports, cluster, instance_id, by=self._by),
            reason,
            subject=f"node/{cluster}/{instance_id}",
        )

    # Filesystems

    def create_filesystem(self, spec: FilesystemSpec, *, idempotency_key: str | None) -> Filesystem:
        return self._made(
            "filesystem.create",
            f"filesystem/{spec.name}",
            lambda: create_filesystem(
                self._ports, spec, idempotency_key=self._own(idempotency_key), by=self._by
            ),
            lambda filesystem: f"filesystem/{filesystem.name}",
        )

    def export_filesystem(self, name: str) -> Filesystem:
        return self._changed(
            "filesystem.export",
            load(self._ports, "filesystem", name),
            lambda: export_filesystem(self._ports, name, by=self._by),
        )

    def delete_filesystem(self, name: str, *, discard: bool, reason: str | None) -> Filesystem:
        return self._changed(
            "filesystem.delete",
            load(self._ports, "filesystem", name),
            lambda: delete_filesystem(
                self._ports, name, discard=discard, reason=reason, by=self._by
            ),
            reason or "",
        )

    # Whose things are

    def share(self, record: Owned, patterns: Sequence[str], *, reason: str = "") -> Owned:
        """Let those whose ARN matches change it, too; this replaces who it was shared with."""
        thing = thing_of(self._ports, record)
        refused = refusal_to_own(self._ports.config.roles, self._by, thing)
        what: Act = f"{thing.kind}.share"  # type: ignore[assignment]  # of the three kinds
        return self._audited(
            self._entry(what, thing.subject, reason),
            refused,
            lambda: shared(self._ports, record, patterns),
        )

    def transfer(self, record: Owned, to: Person | None, *, reason: str = "") -> Owned:
        """Give it to another; without `to`, take it oneself."""
        thing = thing_of(self._ports, record)
        refused = refusal_to_own(self._ports.config.roles, self._by, thing)
        what: Act = f"{thing.kind}.transfer"  # type: ignore[assignment]  # of the three kinds
        return self._audited(
            self._entry(what, thing.subject, reason),
            refused,
            lambda: given_to(self._ports, record, to or self._by, by=self._by),
        )

    # How a change is made

    def _made(
        self,
        what: Act,
        subject: str,
        act: Callable[[], T],
        made: Callable[[T], str],
        *,
        priority: int = 0,
    ) -> T:
        refused = self._refusal(priority)
        return self._audited(self._entry(what, subject, ""), refused, act, made)

    def _changed(
        self,
        what: Act,
        record: Run | Cluster | Filesystem | RunArray | Schedule | Webhook,
        act: Callable[[], T],
        reason: str = "",
        *,
        subject: str | None = None,
        priority: int = 0,
    ) -> T:
        thing: Thing = thing_of(self._ports, record)
        refused = self._refusal(priority, thing)
        return self._audited(self._entry(what, subject or thing.subject, reason), refused, act)

    def _refusal(self, priority: int, thing: Thing | None = None) -> Forbidden | None:
        roles = self._ports.config.roles
        return refusal(roles, self._by, thing) or refusal_to_prefer(roles, self._by, priority)

    def _entry(self, what: Act, subject: str, reason: str) -> AuditEntry:
        caller = self._caller
        return AuditEntry(
            id=caller.request_id,
            at=caller.at,
            who=caller.person,
            what=what,
            subject=subject,
            reason=reason,
            source_ip=caller.source_ip,
            user_agent=caller.user_agent,
        )

    def _audited(
        self,
        entry: AuditEntry,
        refused: Forbidden | None,
        act: Callable[[], T],
        made: Callable[[T], str] | None = None,
    ) -> T:
        """Written before it is made, so that no change is without an entry."""
        if refused is not None:
            self._ports.audit.add(entry.changed(outcome="refused", detail=refused.detail))
            raise refused
        self._ports.audit.add(entry)
        try:
            done = act()
        except TrainyardError as error:
            self._settle(entry.changed(outcome="failed", detail=error.detail[:500]))
            raise
        subject = entry.subject if made is None else made(done)
        self._settle(entry.changed(outcome="done", subject=subject))
        return done

    def _settle(self, entry: AuditEntry) -> None:
        """The change is made, or not: that is the answer, whether its entry says so or not."""
        try:
            self._ports.audit.settle(entry)
        except TrainyardError as error:
            _LOG.error("audit entry %s stays 'asked': %s", entry.id, error.detail)


def _raised(refused: Forbidden | None) -> None:
    if refused is not None:
        raise refused
