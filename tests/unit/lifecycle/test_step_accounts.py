"""Users on a node."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.lifecycle import a_node


def test_a_user_with_another_uid_is_refused(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    local = a_node(scripts, tmp_path / "root", bundle)
    node = scripts.node.Node("", bundle, local.cluster, local.identity, {})
    with pytest.raises(scripts.node.StepFailed, match="exists with uid 0, users asks for 5000"):
        scripts.step_accounts.ensure_account(node, {"name": "root", "uid": 5000})
