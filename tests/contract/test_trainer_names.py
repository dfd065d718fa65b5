"""Users' programs, and jobs of an older version, find the trainers by their names."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.support.repository import ROOT

EXAMPLES = ROOT / "examples"
#: What job.module, batch scripts and the docs run with python -m.
PROGRAMS = [
    "bert",
    "classify",
    "ddp",
    "launch",
    "llm",
    "llm.tokens",
    "llm.train",
    "precompile",
    "translate",
    "translate.translate",
]
#: Old name, where it is now, and what a program of a user may import from it: its
#: functions, classes and constants, as they were, without `checkpoint.save`.
IMPORTED = [
    ("attempt", "trainyard_job.common.attempt", "Attempt DAY_SECONDS"),
    (
        "checkpoint",
        "trainyard_job.checkpoints.checkpoint",
        "FileEntry MANIFEST SCHEMA Saved Writer checkpoint_name clean_leftovers commit find_newest "
        "holding_fence lock parse_name prune read_ahead read_fence temporary_directory verify "
        "write_file",
    ),
    ("checkpoint", "trainyard_job.common.files", "fsync_directory write_json"),
    (
        "checkpointer",
        "checkpoints.checkpointer",
        "Checkpointer FAILED_SAVES_LIMIT Files load load_own rank_file",
    ),
    ("config", "common.config", "ConfigError build describe parse read_file read_words"),
    ("data", "loop.data", "Stream check_batch"),
    ("loop", "loop.loop", "LoopConfig NotFinite StepResult Task Turn main show_graphs train"),
    (
        "exits",
        "trainyard_job.common.exits",
        "COMPLETE MISCONFIGURED CHECKPOINT_FAILED FENCED STOPPED CheckpointFailed Fenced",
    ),
    ("progress", "trainyard_job.common.progress", "Progress StepReport"),
    ("seeds", "common.seeds", "seed_rank random_state restore_random_state deterministic"),
    ("signals", "trainyard_job.common.signals", "FORWARDED Requests"),
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_found_by_the_name_that_jobs_give(name: str) -> None:
    found = importlib.util.find_spec(f"trainyard_trainers.{name}")
    assert found is not None
    if found.submodule_search_locations is not None:
        assert importlib.util.find_spec(f"trainyard_trainers.{name}.__main__") is not None


@pytest.mark.parametrize("name", ["bert", "classify", "ddp", "llm.train", "translate.train"])
def test_a_trainer_that_is_forked_has_its_main_under_its_name(name: str) -> None:
    assert callable(importlib.import_module(f"trainyard_trainers.{name}").main)


@pytest.mark.parametrize(("old", "new", "names"), IMPORTED)
def test_what_users_import_is_the_same_thing_by_its_old_name(
    old: str, new: str, names: str
) -> None:
    package = "" if new.startswith("trainyard_job.") else "trainyard_trainers."
    before = importlib.import_module(f"trainyard_trainers.{old}")
    now = importlib.import_module(package + new)
    assert all(getattr(before, name) is getattr(now, name) for name in names.split())
    assert set(names.split()) <= set(before.__all__)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_names_in_an_example_are_there(path: Path) -> None:
    text = path.read_text()
    for module, names in re.findall(r"from (trainyard_trainers\S*) import (.+)", text):
        found = importlib.import_module(module)
        assert all(hasattr(found, name.strip()) for name in names.split(",")), (module, names)
    module = (yaml.safe_load(text).get("job") or {}).get("module") or ""
    if module.startswith("trainyard_trainers."):
        assert module.removeprefix("trainyard_trainers.") in PROGRAMS


@pytest.mark.parametrize("module", ["attempt", "exits", "progress", "signals", "launch"])
def test_what_waits_beside_torch_does_not_import_it(module: str) -> None:
    code = f"import sys, trainyard_trainers.{module}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
