"""A server that cannot start says why in one line."""

from __future__ import annotations

import errno
import shutil

import pytest

from trainyard_local import server


@pytest.mark.parametrize("error", [
    OSError(errno.ENOSPC, "No space left on device", "/state/functions"),
    shutil.Error([("/from", "/to", "[Errno 28] No space left on device: '/to'")] * 100),
])  # fmt: skip
def test_a_full_disk_is_told_in_one_line(error: OSError) -> None:
    assert server._kind(error) == "disk"
    assert server._explain(error) == "no space is left on the state directory's disk"
    assert server._kind(OSError(errno.EACCES, "Permission denied")) == "defect"
