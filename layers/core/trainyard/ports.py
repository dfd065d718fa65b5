"""Everything that use cases reach, in one hand.

The Protocols are in `outside/`, adapters in `aws/` and `backends/`, in-memory twins in
tests/support.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainyard.domain.approvals import ApprovalRules
from trainyard.domain.people import RolesOfPeople

if TYPE_CHECKING:
    from trainyard.outside.approvals import Approvals
    from trainyard.outside.arrays import Arrays
    from trainyard.outside.audit import Audit
    from trainyard.outside.backends import Backend, OfBackend
    from trainyard.outside.blobs import Blobs
    from trainyard.outside.clock import Clock, Ids
    from trainyard.outside.clusters import Clusters
    from trainyard.outside.directories import Directories
    from trainyard.outside.executions import DeadLetters, Executions
    from trainyard.outside.exports import Exports
    from trainyard.outside.figures import Metrics, Prices
    from trainyard.outside.filesystems import Filesystems
    from trainyard.outside.lustre import Lustre
    from trainyard.outside.networks import Networks
    from trainyard.outside.notices import Notices
    from trainyard.outside.runs import Runs
    from trainyard.outside.schedules import Scheduler, Schedules
    from trainyard.outside.secrets import Secrets
    from trainyard.outside.team_budgets import TeamBudgets
    from trainyard.outside.uploads import Sources, Uploads
    from trainyard.outside.waits import Turns, Waits
    from trainyard.outside.webhooks import Receivers, Webhooks


@dataclass(frozen=True)
class Config:
    """What use cases must know of this deployment.

    `trainyard.wiring` fills it from the environment.
    """

    heartbeat_seconds: float
    secret_prefix: str
    orphan_seconds: float = 600.0
    #: Whether the stack names subnets and security groups for clusters whose spec names none.
    has_network: bool = False
    #: The stack's own bucket, of every cluster's runs.
    data_bucket: str = ""
    #: Where the stack is, and each of its clusters.
    region: str = ""
    #: Of clusters and filesystems whose spec names none.
    subnet_ids: tuple[str, ...] = ()
    security_group_ids: tuple[str, ...] = ()
    #: Who may what.
    roles: RolesOfPeople = field(default_factory=RolesOfPeople)
    #: Entries of the audit list are kept so long.
    audit_days: int = 400
    #: What needs an approval, and who gives it.
    approvals: ApprovalRules = field(default_factory=ApprovalRules)


@dataclass(frozen=True)
class Ports:
    """Everything a use case may reach; `backends` by the name in a cluster's spec.

    `trainyard.wiring.ports()` builds it once a process; tests build it of in-memory twins.
    """

    runs: Runs
    arrays: Arrays
    turns: Turns
    approvals: Approvals
    schedules: Schedules
    scheduler: Scheduler
    team_budgets: TeamBudgets
    webhooks: Webhooks
    receivers: Receivers
    clusters: Clusters
    filesystems: Filesystems
    audit: Audit
    lustre: Lustre
    networks: Networks
    waits: Waits
    backends: Mapping[str, Backend]
    blobs: Blobs
    uploads: Uploads
    sources: Sources
    exports: Exports
    directories: Directories
    executions: Executions
    dead_letters: DeadLetters
    notices: Notices
    secrets: Secrets
    prices: Prices
    metrics: Metrics
    clock: Clock
    ids: Ids
    config: Config

    def backend(self, thing: OfBackend) -> Backend:
        """The backend that it lives in."""
        return self.backends[thing.backend]
