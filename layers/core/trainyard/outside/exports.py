"""What was exported to the data bucket."""

from __future__ import annotations

from typing import Protocol

from trainyard.outside.pages import Page
from trainyard_contracts.files import ExportedObject


class Exports(Protocol):
    """What was exported to the data bucket."""

    def objects(self, manifest_key: str, *, limit: int, token: str | None) -> Page[ExportedObject]:
        """A page of what a manifest names, in its order.

        Raises errors.BlobNotFound, errors.BadPageToken, and errors.ConflictError if the manifest
        was replaced since the page before.
        """
        ...

    def copy(self, source: str, key: str) -> bool:
        """Copy an object of the data bucket, however large; False if there is no such object."""
        ...

    def url(self, key: str, *, seconds: int) -> str:
        """A URL that anybody can read the object by for so long."""
        ...
