"""Looks at a directory for what a spec must say of the program in it; nothing of it is run."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomllib
import yaml

from ..problems import InvalidInput

#: Where people write down how they start their program.
_COMMAND_FILES = ("*.sh", "Makefile", "README*", "scripts/*.sh")
_ACCELERATE_FILES = ("accelerate*.y*ml", "default_config.y*ml", "configs/accelerate*.y*ml")
_USUAL = ("train.py", "main.py", "run.py")
_PLAINLY = re.compile(r"\bpython3? (?:-u )?(?:\./)?([\w./-]+\.py)\b")
#: Files of Python that are there for other purposes.
_NO_PROGRAM = re.compile(r"setup\.py|conftest\.py|test_.*|.*_test\.py|__init__\.py|_.*")
#: A name in quotes, as torch.save is given one; {} in it change from save to save.
_SAVED = re.compile(r"""["']((?:[\w./-]|\{[\w.:+ ]*\})+\.(?:pt|pth|ckpt|pth\.tar))["']""")
_MOST_BYTES = 1024 * 1024
#: The launchers' options that say how many processes and nodes there are.
_PROCESSES = ("--nproc-per-node", "--nproc_per_node", "--num_gpus", "--num-gpus")
_ALL_PROCESSES = ("--num_processes", "--num-processes")
_NODES = ("--nnodes", "--num_machines", "--num-machines", "--num_nodes", "--num-nodes")
#: Those of them that take no value.
_SWITCHES = frozenset({
    "--standalone", "--multi_gpu", "--multi-gpu", "--cpu", "--use_deepspeed", "--use_fsdp",
    "--no-python", "--no_python", "--module", "-m", "--debug", "--tpu", "--quiet", "-q",
})  # fmt: skip


@dataclass
class Found:
    """What the directory says; None where it says nothing."""

    script: str
    #: Why it is that script.
    because: str
    recipe: str = "torchrun"
    processes: int | None = None
    nodes: int | None = None
    arguments: list[str] = field(default_factory=list)
    requirements: list[str] = field(default_factory=list)
    #: Lines that a spec cannot hold, such as `-e .`
    left_out: list[str] = field(default_factory=list)
    #: Where recipe, processes and requirements were read.
    sources: list[str] = field(default_factory=list)
    #: What the program's own checkpoints seem to be called.
    checkpoints: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Command:
    """A line that starts a program on several processes."""

    source: str
    recipe: str
    script: str
    arguments: tuple[str, ...]
    processes: int | None
    nodes: int | None


def look(directory: Path, script: str | None = None) -> Found:
    """Raises InvalidInput if it is not clear which program is meant."""
    commands = list(_commands(directory))
    found = _chosen(directory, script, commands)
    _add_accelerate(directory, found)
    command = next((one for one in commands if one.script == found.script), None)
    if command is not None:
        found.recipe, found.arguments = command.recipe, list(command.arguments)
        found.processes = command.processes or found.processes
        found.nodes = command.nodes or found.nodes
        found.sources.append(f"{command.source}: how it is started")
    elif not found.sources and not _is_parallel(directory / found.script):
        found.recipe = "command"
    _add_requirements(directory, found)
    found.checkpoints = _checkpoints(directory / found.script)
    return found


def _chosen(directory: Path, script: str | None, commands: Sequence[_Command]) -> Found:
    if script is not None:
        if not (directory / script).is_file():
            raise InvalidInput("There is no such program", script, "Give the path of a Python file")
        return Found(script, "you named it")
    for choose in (_started, _train, _plainly_started, _only_main, _usual, _only_one):
        found = choose(directory, commands)
        if found is not None:
            return found
    several = ", ".join(_programs(directory)) or "no Python file"
    raise InvalidInput(
        "It is not clear which program to run",
        f"{directory.resolve()} has {several}",
        "Name it: trainyard init SCRIPT",
    )


# -- which program is meant, the clearest sign first ---------------------------------------------
def _started(_directory: Path, commands: Sequence[_Command]) -> Found | None:
    started = {one.script: one.source for one in commands}
    if len(started) != 1:
        return None
    (name, source), *_ = started.items()
    return Found(name, f"{source} starts it")


def _train(directory: Path, _commands: Sequence[_Command]) -> Found | None:
    return Found(_USUAL[0], "it has a usual name") if (directory / _USUAL[0]).is_file() else None


def _plainly_started(directory: Path, _commands: Sequence[_Command]) -> Found | None:
    """`python PROGRAM` in a README or the like."""
    started = {
        found: source
        for source, line in _lines(directory)
        for found in _PLAINLY.findall(line)
        if (directory / found).is_file() and not _NO_PROGRAM.match(Path(found).name)
    }
    if len(started) != 1:
        return None
    (name, source), *_ = started.items()
    return Found(name, f"{source} starts it")


def _only_main(directory: Path, _commands: Sequence[_Command]) -> Found | None:
    mains = [name for name in _programs(directory) if _has_main(directory / name)]
    return Found(mains[0], "it is the only one with __main__") if len(mains) == 1 else None


def _usual(directory: Path, _commands: Sequence[_Command]) -> Found | None:
    for place in ("", "src/", "scripts/"):
        for name in _USUAL:
            if (directory / place / name).is_file():
                return Found(f"{place}{name}", "it has a usual name")
    inner = sorted(directory.glob(f"[!.]*/{_USUAL[0]}"))
    return (
        Found(str(inner[0].relative_to(directory)), "it has a usual name")
        if len(inner) == 1
        else None
    )


def _only_one(directory: Path, _commands: Sequence[_Command]) -> Found | None:
    programs = _programs(directory)
    return Found(programs[0], "it is the only Python file") if len(programs) == 1 else None


def _programs(directory: Path) -> list[str]:
    names = sorted(path.name for path in directory.glob("*.py"))
    return [name for name in names if not _NO_PROGRAM.match(name)]


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _has_main(path: Path) -> bool:
    try:
        tree = ast.parse(_text(path))
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any(
        isinstance(node, ast.If)
        and any(isinstance(name, ast.Constant) and name.value == "__main__"
                for name in ast.walk(node.test))
        for node in tree.body
    )  # fmt: skip


def _is_parallel(path: Path) -> bool:
    return bool(
        re.search(r"torch\.distributed|init_process_group|accelerate|deepspeed|Trainer\b|lightning",
                  _text(path))
    )  # fmt: skip


def _checkpoints(script: Path) -> list[str]:
    """Patterns of what the program saves; none where it has Trainyard's own checkpoints."""
    text = _text(script)
    if "trainyard_job" in text:
        return []
    found = ["**/checkpoint-*"] if re.search(r"\bTrainingArguments\(", text) else []
    if re.search(r"\btorch\.save\(", text):
        names = (re.sub(r"\{[^{}]*\}", "*", name) for name in _SAVED.findall(text))
        found += [name.removeprefix("./") for name in names if not name.startswith(("/", ".."))]
    return list(dict.fromkeys(found))[:4]


def _commands(directory: Path) -> Iterator[_Command]:
    for source, line in _lines(directory):
        found = _command(source, line)
        if found is not None and (directory / found.script).is_file():
            yield found


def _lines(directory: Path) -> Iterator[tuple[str, str]]:
    """What people wrote down, with the name of its file."""
    for pattern in _COMMAND_FILES:
        for path in sorted(directory.glob(pattern)):
            text = _text(path).replace("\\\n", " ")
            yield from ((path.name, line.strip(" \t@$`")) for line in text.splitlines())


def _command(source: str, line: str) -> _Command | None:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return None
    for place, word in enumerate(words):
        rest = words[place + 1 :]
        if word.endswith("torchrun") or word in (
            "torch.distributed.run",
            "torch.distributed.launch",
        ):
            return _parsed(source, "torchrun", rest)
        if word == "accelerate" and rest[:1] == ["launch"]:
            return _parsed(source, "accelerate", rest[1:])
        if word == "deepspeed":
            return _parsed(source, "deepspeed", rest)
    return None


def _parsed(source: str, recipe: str, words: Sequence[str]) -> _Command | None:
    """The launcher's options up to the script; what follows is the program's."""
    given: dict[str, str] = {}
    place = 0
    while place < len(words) and words[place].startswith("-"):
        name, equals, value = words[place].partition("=")
        if not equals and name not in _SWITCHES and place + 1 < len(words):
            place += 1
            value = words[place]
        given[name] = value
        place += 1
    if place >= len(words) or not words[place].endswith(".py"):
        return None
    arguments = tuple(words[place + 1 :])
    plain = not any(re.search(r"[$`|&;<>]", word) for word in arguments)
    nodes = _number(given, _NODES)
    processes = _number(given, _PROCESSES)
    if processes is None and (all_of_them := _number(given, _ALL_PROCESSES)):
        processes = max(1, all_of_them // (nodes or 1))
    return _Command(
        source,
        recipe,
        words[place].removeprefix("./"),
        arguments if plain else (),
        processes,
        nodes,
    )


def _number(given: dict[str, str], names: Sequence[str]) -> int | None:
    for name in names:
        if given.get(name, "").isdecimal() and int(given[name]) > 0:
            return int(given[name])
    return None


def _add_accelerate(directory: Path, found: Found) -> None:
    """What `accelerate config` wrote."""
    for pattern in _ACCELERATE_FILES:
        for path in sorted(directory.glob(pattern)):
            try:
                known: Any = yaml.safe_load(_text(path))
            except yaml.YAMLError:
                continue
            if not isinstance(known, dict) or "num_processes" not in known:
                continue
            nodes = _whole(known.get("num_machines")) or 1
            found.recipe, found.nodes = "accelerate", nodes
            found.processes = max(1, (_whole(known["num_processes"]) or 1) // nodes)
            found.sources.append(f"{path.relative_to(directory)}: accelerate's configuration")
            return


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _add_requirements(directory: Path, found: Found) -> None:
    lines, source = _requirements(directory)
    for line in lines:
        if _fits(line):
            found.requirements.append(line)
        else:
            found.left_out.append(line)
    if lines:
        found.sources.append(f"{source}: packages")


def _requirements(directory: Path) -> tuple[list[str], str]:
    file = directory / "requirements.txt"
    if file.is_file():
        bare = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in _text(file).splitlines())
        return [line for line in bare if line], file.name
    try:
        project = tomllib.loads(_text(directory / "pyproject.toml")).get("project", {})
        given = project.get("dependencies", [])
    except (tomllib.TOMLDecodeError, AttributeError):
        return [], ""
    return [line.strip() for line in given if isinstance(line, str)], "pyproject.toml"


def _fits(line: str) -> bool:
    from pydantic import TypeAdapter, ValidationError

    from trainyard_contracts.cluster_parts import Requirement

    try:
        TypeAdapter(Requirement).validate_python(line)
    except ValidationError:
        return False
    return True
