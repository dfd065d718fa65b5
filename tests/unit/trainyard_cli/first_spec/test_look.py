"""A first spec takes what the directory says of its program, and is valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard_cli.first_spec.look import look
from trainyard_cli.first_spec.text import Cluster, plain_name, spec_text
from trainyard_cli.problems import InvalidInput
from trainyard_contracts.specs import RunSpec

MAIN = 'if __name__ == "__main__":\n    print()\n'


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/", 1).replace("_DOT_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return root


def test_the_only_program_with_main_is_meant(tmp_path: Path) -> None:
    write(tmp_path, a_DOT_py="x = 1\n", b_DOT_py=MAIN, broken_DOT_py="if (")
    found = look(tmp_path)
    assert (found.script, found.because) == ("b.py", "it is the only one with __main__")
    assert found.recipe == "command"


def test_train_py_is_meant_by_its_name(tmp_path: Path) -> None:
    write(tmp_path, train_DOT_py="import torch.distributed\n", b_DOT_py=MAIN)
    found = look(tmp_path)
    assert (found.script, found.recipe) == ("train.py", "torchrun")


def test_what_is_not_clear_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, a_DOT_py=MAIN, b_DOT_py=MAIN)
    with pytest.raises(InvalidInput, match=r"has a\.py, b\.py") as error:
        look(tmp_path)
    assert error.value.next_step == "Name it: trainyard init SCRIPT"
    assert look(tmp_path, "b.py").script == "b.py"
    with pytest.raises(InvalidInput, match="no such program"):
        look(tmp_path, "c.py")


@pytest.mark.parametrize(
    ("files", "script", "because"),
    [
        (["fit.py"], "fit.py", "it is the only Python file"),
        (["fit.py", "setup.py", "conftest.py", "test_fit.py"], "fit.py", "the only Python file"),
        (["main.py", "model.py"], "main.py", "it has a usual name"),
        (["src/train.py", "setup.py"], "src/train.py", "it has a usual name"),
        (["src/main.py", "a.py", "b.py"], "src/main.py", "it has a usual name"),
        (["scripts/train.py", "a.py", "b.py"], "scripts/train.py", "it has a usual name"),
        (["mine/train.py", "a.py", "b.py"], "mine/train.py", "it has a usual name"),
    ],
)
def test_a_program_without_main_is_found_as_people_call_it(
    tmp_path: Path, files: list[str], script: str, because: str
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("import torch\n")
    found = look(tmp_path)
    assert found.script == script
    assert because in found.because


@pytest.mark.parametrize(
    "line", ["python fit.py --lr 1", "`python3 -u ./fit.py`", "$ python fit.py"]
)
def test_a_program_that_the_readme_starts_plainly_is_meant(tmp_path: Path, line: str) -> None:
    other = "Install it with python setup.py install\n"
    write(tmp_path, fit_DOT_py="", main_DOT_py="", setup_DOT_py="", README=f"{other}{line}\n")
    found = look(tmp_path)
    assert (found.script, found.because) == ("fit.py", "README starts it")


def test_two_folders_with_a_train_py_are_not_clear(tmp_path: Path) -> None:
    write(tmp_path, a__train_DOT_py="", b__train_DOT_py="")
    with pytest.raises(InvalidInput, match="has no Python file"):
        look(tmp_path)


@pytest.mark.parametrize(
    ("line", "recipe", "processes", "nodes", "arguments"),
    [
        ("torchrun --nproc-per-node 4 --nnodes=2 fit.py --lr 1e-3", "torchrun", 4, 2,
         ["--lr", "1e-3"]),
        ("OMP=1 python -m torch.distributed.run --standalone --nproc_per_node=8 fit.py", "torchrun",
         8, None, []),
        ("torchrun --nproc-per-node gpu fit.py $ARGS", "torchrun", None, None, []),
        ("accelerate launch --multi_gpu --num_processes 8 --num_machines 2 ./fit.py", "accelerate",
         4, 2, []),
        ("deepspeed --num_gpus=2 fit.py --deepspeed ds.json", "deepspeed", 2, None,
         ["--deepspeed", "ds.json"]),
        ("torchrun --nproc-per-node 2 \\\n    --nnodes 1 \\\n    fit.py", "torchrun", 2, 1, []),
    ],
)  # fmt: skip
def test_a_command_that_people_wrote_down_says_how_it_is_started(
    tmp_path: Path,
    line: str,
    recipe: str,
    processes: int | None,
    nodes: int | None,
    arguments: list[str],
) -> None:
    write(tmp_path, fit_DOT_py=MAIN, other_DOT_py=MAIN, run_DOT_sh=f"#!/bin/sh\n{line}\n")
    found = look(tmp_path)
    assert (found.script, found.because) == ("fit.py", "run.sh starts it")
    assert (found.recipe, found.processes, found.nodes) == (recipe, processes, nodes)
    assert found.arguments == arguments


def test_accelerates_own_configuration_is_read(tmp_path: Path) -> None:
    config = "distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 16\n"
    write(tmp_path, train_DOT_py=MAIN, accelerate_config_DOT_yaml=config)
    found = look(tmp_path)
    assert (found.recipe, found.processes, found.nodes) == ("accelerate", 8, 2)


def test_packages_are_taken_and_what_cannot_be_is_named(tmp_path: Path) -> None:
    lines = "numpy>=1.26,<3  # arrays\n\n-e .\n-r more.txt\ngit+https://x/y\nrich[all]==1.0\n"
    write(tmp_path, train_DOT_py=MAIN, requirements_DOT_txt=lines)
    found = look(tmp_path)
    assert found.requirements == ["numpy>=1.26,<3", "rich[all]==1.0"]
    assert found.left_out == ["-e .", "-r more.txt", "git+https://x/y"]


def test_packages_of_a_project_are_taken(tmp_path: Path) -> None:
    write(tmp_path, train_DOT_py=MAIN, pyproject_DOT_toml='[project]\ndependencies = ["numpy"]\n')
    assert look(tmp_path).requirements == ["numpy"]


@pytest.mark.parametrize(
    "cluster",
    [Cluster(local=True), Cluster(), Cluster("shared", 4, ("other",), True), Cluster("one", 0)],
)
@pytest.mark.parametrize("recipe", ["command", "torchrun"])
def test_what_is_written_is_valid(tmp_path: Path, cluster: Cluster, recipe: str) -> None:
    line = "torchrun --nnodes 2 --nproc-per-node 2 train.py --text 'a: \"b\"; #c'\n"
    files = {"requirements_DOT_txt": "numpy\n-e .\n"}
    if recipe == "torchrun":
        files["run_DOT_sh"] = line
    write(tmp_path, train_DOT_py=MAIN, **files)
    found = look(tmp_path)
    written: dict[str, Any] = yaml.safe_load(spec_text("my-run", found, cluster))
    assert written["job"]["workdir"] == "."
    spec = RunSpec.model_validate({**written, "job": {**written["job"], "workdir": "0" * 64}})
    assert spec.job.recipe == recipe == found.recipe
    assert spec.job.arguments == found.arguments
    wanted = found.nodes or 1
    assert spec.job.nodes == (wanted if cluster.name != "one" else 1)


@pytest.mark.parametrize(
    ("text", "name"),
    [("my_project", "my-project"), ("", "training"), ("ä", "training"), ("-a.b-", "a-b"),
     ("x" * 80, "x" * 40)],
)  # fmt: skip
def test_a_directorys_name_becomes_one_that_a_run_may_have(text: str, name: str) -> None:
    assert plain_name(text) == name


@pytest.mark.parametrize(
    ("program", "patterns"),
    [
        ("args = TrainingArguments(output_dir='out')\n", ["**/checkpoint-*"]),
        ("path = 'snapshot.pt'\ntorch.save(state, path)\n", ["snapshot.pt"]),
        ("torch.save(s, f'./ckpt/step_{step:06d}.pth')\n", ["ckpt/step_*.pth"]),
        ("torch.save(s, 'a.pt')\ntorch.save(s, 'b.ckpt')\n", ["a.pt", "b.ckpt"]),
        ("torch.save(s, '/scratch/a.pt')\n", []),
        ("torch.load('pretrained.pt')\n", []),
        ("import trainyard_job\ntorch.save(s, 'a.pt')\n", []),
    ],
)
def test_checkpoints_of_the_programs_own_are_named_in_a_comment(
    tmp_path: Path, program: str, patterns: list[str]
) -> None:
    found = look(write(tmp_path, train_DOT_py=program))
    assert found.checkpoints == patterns
    text = spec_text("a", found, Cluster(local=True))
    assert "checkpoint" not in yaml.safe_load(text)
    assert ("#   watch: {pattern: " in text) == bool(patterns)
    marked = text.replace("# checkpoint:\n#   watch:", "checkpoint:\n  watch:")
    given = yaml.safe_load(marked)
    del given["job"]["workdir"]
    given["job"]["files"] = {"train.py": program}
    watch = RunSpec.model_validate(given).checkpoint.watch
    assert (watch is not None) == bool(patterns)
