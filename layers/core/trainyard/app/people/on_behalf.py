"""What a person asks for: allowed by their role, in the audit list, and then done.

Every interface comes in here, so that all have the same policy; no interface calls a use case that
changes anything by itself.
"""

from __future__ import annotations

from trainyard.app.people.caller import Caller
from trainyard.app.people.of_adopted import OfAdopted
from trainyard.app.people.of_approvals import OfApprovals
from trainyard.app.people.of_arrays import OfArrays
from trainyard.app.people.of_budgets import OfBudgets
from trainyard.app.people.of_clusters import OfClusters
from trainyard.app.people.of_filesystems import OfFilesystems
from trainyard.app.people.of_nodes import OfNodes
from trainyard.app.people.of_owners import OfOwners
from trainyard.app.people.of_runs import OfRuns
from trainyard.app.people.of_schedules import OfSchedules
from trainyard.app.people.of_uploads import OfUploads
from trainyard.app.people.of_webhooks import OfWebhooks

__all__ = ["Caller", "OnBehalf"]


class OnBehalf(
    OfRuns,
    OfArrays,
    OfApprovals,
    OfSchedules,
    OfBudgets,
    OfWebhooks,
    OfUploads,
    OfClusters,
    OfAdopted,
    OfNodes,
    OfFilesystems,
    OfOwners,
):
    """The changes that one request may ask for. Each raises Forbidden, and what its use case does.

    What each is about has a module of its own.
    """
