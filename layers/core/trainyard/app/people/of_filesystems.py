"""What people ask of filesystems."""

from __future__ import annotations

from trainyard.app.filesystems.create_filesystem import create_filesystem
from trainyard.app.filesystems.delete_filesystem import delete_filesystem, export_filesystem
from trainyard.app.people.audited import Audited
from trainyard.app.people.ownership import load
from trainyard.domain.filesystem_records import Filesystem
from trainyard_contracts.filesystems import FilesystemSpec


class OfFilesystems(Audited):
    """Create, export and delete."""

    def create_filesystem(self, spec: FilesystemSpec, *, idempotency_key: str | None) -> Filesystem:
        return self._made(
            "filesystem.create",
            f"filesystem/{spec.name}",
            lambda: create_filesystem(
                self._ports, spec, idempotency_key=self._own(idempotency_key), by=self._by
            ),
            lambda filesystem: f"filesystem/{filesystem.name}",
        )

    def export_filesystem(self, name: str) -> Filesystem:
        return self._changed(
            "filesystem.export",
            load(self._ports, "filesystem", name),
            lambda: export_filesystem(self._ports, name, by=self._by),
        )

    def delete_filesystem(self, name: str, *, discard: bool, reason: str | None) -> Filesystem:
        reason = self._why(reason or "") or None
        return self._changed(
            "filesystem.delete",
            load(self._ports, "filesystem", name),
            lambda: delete_filesystem(
                self._ports, name, discard=discard, reason=reason, by=self._by
            ),
            reason or "",
        )
