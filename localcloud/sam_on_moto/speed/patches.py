"""Makes moto faster and nothing else: the local cloud is as true without, and slower."""

from __future__ import annotations

from sam_on_moto.cloud import Cloud


def install(cloud: Cloud) -> None:
    """Hook moto; once per process, before any other part imports moto's EC2 or hooks its tables."""
    from sam_on_moto.speed import lean

    lean.install()  # before the imports below
    from sam_on_moto.speed import caches, direct, partitions, transactions

    caches.install()
    partitions.install()
    transactions.install()
    cloud.shortcuts.update(direct.shortcuts(cloud))
