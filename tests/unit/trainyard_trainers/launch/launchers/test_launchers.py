"""What each recipe starts (golden files), what it refuses, and whose failure came first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from tests.support.launching import EVIL, allocation
from tests.support.repository import ROOT

from trainyard_contracts.recipe_names import RecipeName
from trainyard_trainers.launch import launchers
from trainyard_trainers.launch.allocation import Allocation
from trainyard_trainers.launch.elastic import Placement
from trainyard_trainers.launch.launchers import CannotLaunch, accelerate, deepspeed, mpirun, neuron

GOLDEN = ROOT / "tests/data/launchers"
#: The golden files are written anew with this in the environment; look at the difference.
WRITE = "TRAINYARD_WRITE_GOLDEN"


def started(recipe: str, given: Allocation) -> dict[str, object]:
    """What the recipe would start, and with what."""
    if recipe == "mpirun":
        return {"command": mpirun.command(given), "hostfile": mpirun.hostfile(given)}
    if recipe == "deepspeed":
        return {
            "command": deepspeed.command(given),
            "hostfile": deepspeed.hostfile(given),
            "environment": deepspeed.environment(given),
        }
    placement: dict[str, object] = {
        "torchrun": Placement.of(given).torchrun_arguments(),
        "program": given.job.command(),
    }
    if recipe == "neuron":
        record = given.job.attempt_dir / "precompile.json"
        return {
            **placement,
            "environment": neuron.environment(given),
            "before": neuron.precompile_command(given, record),
        }
    return (
        {**placement, "environment": accelerate.environment(has_accelerator=False)}
        if recipe == "accelerate"
        else placement
    )


@pytest.mark.parametrize("recipe", ["torchrun", "accelerate", "deepspeed", "mpirun", "neuron"])
def test_what_a_recipe_starts_on_the_second_node(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/env/bin/python")
    given = allocation(tmp_path, rank=1, recipe=recipe, instanceType="ml.trn1.32xlarge")
    text = json.dumps(started(recipe, given), indent=1).replace(str(tmp_path), "/fsx") + "\n"
    path = GOLDEN / f"{recipe}.json"
    if os.environ.get(WRITE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"with {WRITE}=1 the golden files are written anew"


@pytest.mark.parametrize("recipe", ["torchrun", "accelerate", "deepspeed", "mpirun", "neuron"])
def test_a_users_strings_are_arguments_of_their_own(recipe: str, tmp_path: Path) -> None:
    given = allocation(tmp_path, recipe=recipe, instanceType="ml.trn1.32xlarge")
    found = started(recipe, given)
    words = found.get("command") or found["program"]
    assert isinstance(words, list)
    assert words[-2:] == ["--text", EVIL]
    assert not [word for word in words[:-1] if "rm -rf" in word]


def test_every_recipe_of_the_contracts_has_its_file_and_the_other_way_round() -> None:
    assert launchers.known() == sorted(get_args(RecipeName))
    for recipe in launchers.known():
        assert callable(launchers.named(recipe).run)
    with pytest.raises(
        CannotLaunch,
        match="recipe 'horovod' is unknown on this cluster; it has accelerate, command, deepspeed",
    ):
        launchers.named("horovod")


@pytest.mark.real
def test_importing_the_launchers_imports_no_torch() -> None:
    program = (
        "import sys; from trainyard_trainers.launch import launchers; "
        "[launchers.named(n) for n in launchers.known()]; print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout.strip() == "False"
