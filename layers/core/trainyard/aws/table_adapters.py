"""All adapters that need the table alone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from trainyard.aws.approvals import TableApprovals
from trainyard.aws.arrays import TableArrays
from trainyard.aws.audit import TableAudit
from trainyard.aws.clusters import TableClusters
from trainyard.aws.filesystems import TableFilesystems
from trainyard.aws.runs import TableRuns
from trainyard.aws.schedules import TableSchedules
from trainyard.aws.table import Table
from trainyard.aws.team_budgets import TableTeamBudgets
from trainyard.aws.turns import TableTurns
from trainyard.aws.waits import TableWaits

if TYPE_CHECKING:
    from trainyard.outside.approvals import Approvals
    from trainyard.outside.arrays import Arrays
    from trainyard.outside.audit import Audit
    from trainyard.outside.clock import Clock
    from trainyard.outside.clusters import Clusters
    from trainyard.outside.filesystems import Filesystems
    from trainyard.outside.runs import Runs
    from trainyard.outside.schedules import Schedules
    from trainyard.outside.team_budgets import TeamBudgets
    from trainyard.outside.waits import Turns, Waits


class TableAdapters(TypedDict):
    """By the names that they have in `Ports`."""

    runs: Runs
    arrays: Arrays
    turns: Turns
    approvals: Approvals
    schedules: Schedules
    team_budgets: TeamBudgets
    clusters: Clusters
    filesystems: Filesystems
    audit: Audit
    waits: Waits


def table_adapters(table: Table, clock: Clock, audit_kept: timedelta) -> TableAdapters:
    """`audit_kept`: how long entries of the list of changes are kept."""
    return {
        "runs": TableRuns(table, clock),
        "arrays": TableArrays(table, clock),
        "turns": TableTurns(table),
        "approvals": TableApprovals(table, clock),
        "schedules": TableSchedules(table, clock),
        "team_budgets": TableTeamBudgets(table, clock),
        "clusters": TableClusters(table, clock),
        "filesystems": TableFilesystems(table, clock),
        "audit": TableAudit(table, clock, audit_kept),
        "waits": TableWaits(table),
    }
