"""A cluster that is being made, and facts of it."""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from typing import Any

from tests.support.facts import fact as made_fact
from tests.support.spec_parts import cluster_spec

from trainyard.domain.records import Cluster
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.events import Fact

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)
SPEC = read_cluster_spec(cluster_spec(name="c", spares=0))


def cluster(**update: Any) -> Cluster:
    return Cluster(
        name="c", spec=SPEC, status="Creating", created_at=NOW, updated_at=NOW, arn="arn:c/1"
    ).model_copy(update=update)


def fact(type_: str | type[Fact], **data: Any) -> Fact:
    digest = hashlib.sha256(f"{type_} {sorted(data.items())}".encode()).hexdigest()
    return made_fact(type_, digest[:20].upper(), NOW, **data)
