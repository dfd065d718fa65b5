"""A cluster that is being made, and facts of it."""

from __future__ import annotations

import hashlib
from typing import Any

from tests.support.facts import fact as made_fact
from tests.support.records import NOW, cluster
from tests.support.spec_parts import cluster_spec

from trainyard.domain.records import Cluster
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.events import Fact

SPEC = read_cluster_spec(cluster_spec("c", workers=2))


def creating(**changes: Any) -> Cluster:
    return cluster(**{"name": "c", "spec": SPEC, "status": "Creating", **changes})


def fact(type_: str | type[Fact], **data: Any) -> Fact:
    digest = hashlib.sha256(f"{type_} {sorted(data.items())}".encode()).hexdigest()
    return made_fact(type_, digest[:20].upper(), NOW, **data)
