"""What a backend's event says."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard_contracts.events import Fact


@dataclass(frozen=True)
class BackendEvent:
    """A fact that a backend reports, with the cluster that it is about, or with the run.

    That is the cluster with this ARN. Where the backend knows no ARN, it is the one with this mark.
    With a run, the fact says of which attempt it is, and the cluster is that of the run.
    """

    cluster_name: str
    cluster_arn: str
    fact: Fact
    mark: str = ""
    run_id: str = ""
