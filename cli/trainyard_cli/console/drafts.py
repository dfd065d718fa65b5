"""The text of the submit page, as the command line would read it from a file."""

from __future__ import annotations

from typing import Any

from trainyard_sdk.connection import Connection
from trainyard_sdk.problems import InvalidInput
from trainyard_sdk.spec_files import spec_in
from trainyard_sdk.submitting import check_image
from trainyard_sdk.terminal_text import plain
from trainyard_sdk.upload.workdir import directory_of

#: The name that messages have for it.
_FILE = "trainyard.yaml"


def run_spec(content: bytes, connection: Connection) -> dict[str, Any]:
    """The spec of a run in YAML or JSON. Raises InvalidInput."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            "The spec cannot be read", f"{_FILE}: is not text in UTF-8", "Send it as UTF-8"
        ) from error
    spec = spec_in(text, _FILE, "run")
    check_image(connection, spec)
    if (directory := directory_of(spec)) is not None:
        raise InvalidInput(
            "The console uploads no directory",
            f"job.workdir: '{plain(directory)}' is no id of an upload",
            "Submit it in a terminal: trainyard run submit trainyard.yaml",
        )
    return spec
