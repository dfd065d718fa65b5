"""Fixtures of the lifecycle scripts' tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from tests.support.lifecycle import CLUSTER, LIFECYCLE, MODULES


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The scripts as modules: flat files, importable only from their directory, as on a node."""
    monkeypatch.syspath_prepend(str(LIFECYCLE))
    loaded: dict[str, ModuleType] = {name: __import__(name) for name in MODULES}
    yield SimpleNamespace(**loaded)
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    directory = tmp_path / "bundle"
    (directory / "lib" / "trainyard_agent").mkdir(parents=True)
    (directory / "lib" / "trainyard_agent" / "cli.py").write_text(
        "import sys\ndef main():\n    print(sys.argv[1:])\n    return 0\n"
    )
    (directory / "lib" / "trainyard_agent" / "__init__.py").touch()
    for path in LIFECYCLE.iterdir():
        if path.is_file():
            (directory / path.name).write_bytes(path.read_bytes())
    (directory / "cluster.json").write_text(json.dumps(CLUSTER))
    return directory
