"""Imports moto's EC2 without the lists that it reads meanwhile.

That saves a second of the start, for a service that the local cloud does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sam_on_moto.moto_patches.pinned import replace


def install() -> None:
    """Once per process, before anything imports moto's EC2, as SSM and Step Functions do."""
    import boto3
    from moto.utilities import utils

    def load(resource: str) -> Any:
        return {} if resource.startswith("ec2/") else load_any(resource)

    def regions(self: Any, service_name: str, *arguments: Any, **named: Any) -> Any:
        return (
            [] if service_name == "ec2" else regions_of_any(self, service_name, *arguments, **named)
        )

    with (
        _during(utils, "load_resource", load) as load_any,
        _during(boto3.Session, "get_available_regions", regions) as regions_of_any,
    ):
        import moto.ec2.models  # noqa: F401


@contextmanager
def _during(owner: Any, name: str, replacement: Any) -> Iterator[Any]:
    original = replace(owner, name, replacement)
    try:
        yield original
    finally:
        setattr(owner, name, original)
