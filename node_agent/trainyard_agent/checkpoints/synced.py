"""A run's sync as it lies in S3: objects named by their SHA-256, lists of them, the one in force.

Nothing that a list names is overwritten. So a list and all that it names are whole, whatever dies.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256

from trainyard_agent.host.locations import Location
from trainyard_agent.host.s3 import S3
from trainyard_contracts import places
from trainyard_contracts.sync_manifest import SyncLatest, SyncManifest

_NUMBER = re.compile(r"^manifest-([0-9]{1,12})\.json$")
_HASH = re.compile(r"^[0-9a-f]{64}$")


class BadSync(Exception):
    """What lies there was not written by an agent, or was changed since."""


@dataclass(frozen=True)
class Synced:
    """One run's. Every method raises Unreachable and Refused; those that read also BadSync."""

    s3: S3
    at: Location

    def object(self, hexadecimal: str) -> Location:
        return self.at.under(hexadecimal)

    def latest(self, run_id: str) -> SyncLatest | None:
        """None if nothing was synced yet."""
        body = self.s3.get(self.at.under(places.SYNC_LATEST))
        if body is None:
            return None
        try:
            found = SyncLatest.model_validate_json(body)
        except ValueError as error:
            raise BadSync(f"{places.SYNC_LATEST} is malformed: {str(error)[:200]}") from error
        if found.run_id != run_id:
            raise BadSync(f"{places.SYNC_LATEST} belongs to {found.run_id[:64]}")
        return found

    def manifest(self, latest: SyncLatest) -> SyncManifest | None:
        """The list that is in force; None before there is one."""
        if not latest.number:
            return None
        name = places.sync_manifest(latest.number)
        body = self.s3.get(self.at.under(name))
        if body is None or sha256(body).hexdigest() != latest.sha256:
            raise BadSync(f"{name} {'is not there' if body is None else 'was changed'}")
        try:
            return SyncManifest.model_validate_json(body)
        except ValueError as error:
            raise BadSync(f"{name} is malformed: {str(error)[:200]}") from error

    def write(self, manifest: SyncManifest, number: int) -> str:
        """Write a list under a number of its own; its SHA-256."""
        body = manifest.model_dump_json(by_alias=True).encode()
        return self.s3.put_bytes(self.at.under(places.sync_manifest(number)), body).sha256

    def put_in_force(self, latest: SyncLatest) -> None:
        body = latest.model_dump_json(by_alias=True).encode()
        self.s3.put_bytes(self.at.under(places.SYNC_LATEST), body)

    def names(self) -> set[str]:
        """Of all lists and objects that are there."""
        prefix = f"{self.at.key}/"
        found = (key.removeprefix(prefix) for key in self.s3.listed(self.at.bucket, prefix))
        return {name for name in found if _HASH.match(name) or _NUMBER.match(name)}

    def delete(self, names: Collection[str]) -> None:
        self.s3.delete(self.at.bucket, [self.at.under(name).key for name in names])

    def discard(self) -> None:
        """Delete all of it: a verified export holds the same. First of all what is in force."""
        self.delete([places.SYNC_LATEST])
        self.delete(self.names())


def number_of(name: str) -> int:
    """Of a list; 0 for an object."""
    match = _NUMBER.match(name)
    return int(match.group(1)) if match else 0


def group_of(key: str) -> str:
    """The checkpoint that the file belongs to; '' for a file of the program's."""
    parts = key.split("/")
    depth = {places.CHECKPOINTS: 2, places.WATCHED: 3}.get(parts[0], 0)
    return "/".join(parts[:depth]) if len(parts) > depth else ""
