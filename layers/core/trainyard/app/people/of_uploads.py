"""What people bring up."""

from __future__ import annotations

from trainyard.app.people.audited import Audited, raised
from trainyard.app.runs.uploads import request_upload
from trainyard.domain.people import refusal
from trainyard_contracts.trees import Upload, UploadSpec


class OfUploads(Audited):
    """Uploads are in no audit list."""

    def request_upload(self, spec: UploadSpec) -> Upload:
        """Not in the audit list: it changes nothing of anybody, and the run that uses it is."""
        raised(refusal(self._ports.config.roles, self._by))
        return request_upload(self._ports, spec)
