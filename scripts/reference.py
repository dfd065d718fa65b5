"""Write docs/reference/*.md from the code, or with --check say which pages are stale."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from samtranslator.yaml_helper import yaml_parse

import trainyard_agent
from trainyard import domain, http
from trainyard.domain import errors, facts, kinds, problems
from trainyard.domain.records import WaitKind
from trainyard.http import openapi
from trainyard.http.problems import STATUS
from trainyard.settings import Settings
from trainyard_contracts import commands, hyperpod, user_events
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.events import AGENT_EVENTS, AgentEvent, Fact, RunEvent
from trainyard_contracts.specs import RunSpec
from trainyard_contracts.user_events import ToldBudget, ToldCluster, ToldRun, UserEvent

ROOT = Path(__file__).resolve().parents[1]
DIRECTORY = ROOT / "docs/reference"
HEAD = "<!-- Written by scripts/reference.py from the code; `make check` compares it. -->\n"
#: Which wait of a state machine is which.
WAITS: dict[WaitKind, str] = {
    "cluster": "a run waits for its cluster",
    "outcome": "a run waits for what becomes of its attempt",
    "export": "a run waits for its export",
    "teardown": "a run waits until its cluster is deleted",
    "in-service": "a cluster is being made",
    "deleted": "a cluster is being deleted",
}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [
        list(head),
        *([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows),
    ]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def paragraph(text: str) -> str:
    """In lines of 100 columns, as all pages are (`tests/contract/test_words.py`)."""
    text = " ".join(text.split())
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False) + "\n"


def words(cls: type) -> str:
    """A class's docstring in one line."""
    return " ".join((inspect.getdoc(cls) or "").split())


def events() -> str:
    parts = [
        HEAD,
        "# Events and facts\n",
        paragraph(
            "What each is for, and how they travel: [events.md](../events.md). "
            "A *wait* is a state machine that sleeps until something happens."
        ),
        table(["wait", "meaning"], ([f"`{name}`", meaning] for name, meaning in WAITS.items())),
        "## Sent by agents\n",
        paragraph(
            f"Each has {fields_of(AgentEvent)}. Those of a run's attempt also have `runId` and "
            "`attempt`."
        ),
        table(
            ["event", "meaning", "fields besides", "wakes"], map(event_row, AGENT_EVENTS.values())
        ),
        "## Made by the control plane\n",
        paragraph(f"Each has {fields_of(Fact)}."),
        table(["fact", "meaning", "fields besides", "wakes"], map(event_row, facts.OWN)),
        "## Sent to your rules\n",
        paragraph(
            f"On the stage's bus, with source `{user_events.SOURCE}` "
            "([how to be told](../use/notify.md)). The detail has "
            f"{fields_of(UserEvent)}. `run` has {fields_of(ToldRun)}. `cluster` has "
            f"{fields_of(ToldCluster)}. `budget` has {fields_of(ToldBudget)}."
        ),
        table(
            ["detail-type", "when"],
            ([f"`{name}`", meaning] for name, meaning in user_events.USER_EVENTS.items()),
        ),
    ]
    return "\n".join(parts)


def event_row(cls: type[Fact]) -> list[str]:
    base = next(known for known in (RunEvent, AgentEvent, Fact) if issubclass(cls, known))
    waits = ", ".join(f"`{name}`" for name in WAITS if name in kinds.kind_of(cls).wakes)
    return [f"`{cls.__name__}`", words(cls), fields_of(cls, besides=base), waits]


def fields_of(cls: type[BaseModel], besides: type[BaseModel] | None = None) -> str:
    known = besides.model_fields if besides else {}
    shown = {name: field for name, field in cls.model_fields.items() if name not in known}
    return ", ".join(
        f"`{field.alias or name}`{f' ({field.description})' if field.description else ''}"
        for name, field in shown.items()
    )


def agent_commands() -> str:
    rows = [[f"`{cls.usage()}`", words(cls)] for cls in commands.COMMANDS.values()]
    answers = [
        cls
        for cls in vars(commands).values()
        if inspect.isclass(cls) and issubclass(cls, commands.Answer) and cls is not commands.Answer
    ]
    return "\n".join(
        [
            HEAD,
            "# Commands of the agent\n",
            paragraph(
                f"`{commands.PROGRAM}` on a cluster's controller. Each prints one JSON object; "
                "status 0, or 1 with `error` and `message`."
            ),
            table(["command", "meaning"], rows),
            "## Answers\n",
            table(
                ["answer", "meaning", "fields"],
                (
                    [
                        f"`{cls.__name__}`",
                        words(cls),
                        ", ".join(f"`{name}`" for name in cls().as_json()),
                    ]
                    for cls in answers
                ),
            ),
        ]
    )


def problem_codes() -> str:
    known = sorted(subclasses(errors.TrainyardError), key=lambda cls: cls.code)
    unique = {cls.code: cls for cls in reversed(known)}
    status = {
        cls.code: next(STATUS[parent] for parent in cls.__mro__ if parent in STATUS)
        for cls in known
    }
    return "\n".join(
        [
            HEAD,
            "# Codes of problems\n",
            "Programs branch on the code and never on the words.\n",
            "## Answers of the API\n",
            table(
                ["code", "status", "meaning", "what to do"],
                (
                    [f"`{code}`", str(status[code]), unique[code].title, unique[code].next_step]
                    for code in sorted(unique)
                ),
            ),
            "## Ends of runs and clusters\n",
            table(
                ["code", "meaning", "what to do"],
                ([f"`{code}`", *problems.TEXTS[code]] for code in sorted(problems.TEXTS)),
            ),
        ]
    )


def subclasses(cls: type[errors.TrainyardError]) -> Iterator[type[errors.TrainyardError]]:
    yield cls
    for below in cls.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from subclasses(below)


def specs() -> str:
    parts = [
        HEAD,
        "# Fields of a spec\n",
        paragraph(
            "A run's, as `POST /v1/runs` takes it; `cluster.spec` is also what `POST /v1/clusters` "
            "takes."
        ),
    ]
    schema = RunSpec.model_json_schema(by_alias=True)
    for title, part in {RunSpec.__name__: schema, **schema["$defs"]}.items():
        parts += spec_part(title, part)
    assert ClusterSpec.__name__ in schema["$defs"]
    return "\n".join(parts)


def spec_part(title: str, part: dict[str, Any]) -> list[str]:
    """A section for an object and for a choice of objects; none for a plain value."""
    head = f"## {title}\n"
    if "properties" in part:
        required = part.get("required", [])
        rows = (spec_row(name, found, required) for name, found in part["properties"].items())
        fields = table(["field", "type", "default", "meaning", "limits"], rows)
        return [head, paragraph(part.get("description", "")), fields]
    if "anyOf" in part:
        return [head, paragraph(f"{type_of(part)}, by its field `backend`.")]
    return []


def spec_row(name: str, found: dict[str, Any], required: list[str]) -> list[str]:
    given = found.get("default")
    default = (
        "required"
        if name in required
        else "those of its fields"
        if isinstance(given, dict) and given
        else f"`{given}`"
        if given not in (None, [], {})
        else ""
    )
    meaning = found.get("description", "")
    return [f"`{name}`", type_of(found), default, meaning, "; ".join(limits_of(found))]


def type_of(found: dict[str, Any]) -> str:
    if "$ref" in found:
        return str(found["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in found:
        return " or ".join(type_of(part) for part in found["anyOf"] if part.get("type") != "null")
    if "enum" in found or "const" in found:
        return " or ".join(f"`{value}`" for value in found.get("enum", [found.get("const")]))
    if found.get("type") == "array":
        return f"list of {type_of(found.get('items', {}))}"
    return str(found.get("type", "any"))


def limits_of(found: dict[str, Any]) -> list[str]:
    from trainyard_contracts.base import words_for

    told = []
    for part in [found, *found.get("anyOf", []), found.get("items") or {}]:
        names = {
            "minimum": "from",
            "maximum": "to",
            "exclusiveMinimum": "over",
            "maxLength": "at most {} characters",
            "maxItems": "at most {}",
            "maxProperties": "at most {}",
        }
        told += [
            text.format(part[key]) if "{}" in text else f"{text} {part[key]}"
            for key, text in names.items()
            if key in part
        ]
        if "pattern" in part:
            told.append(words_for(part["pattern"]))
    return list(dict.fromkeys(told))


def api() -> str:
    document = openapi.document()
    rows = [
        [f"`{method.upper()} {path}`", operation["summary"], answers_of(operation["responses"])]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    return "\n".join([HEAD, API_WORDS, table(["call", "meaning", "answers"], rows)])


def answers_of(responses: dict[str, Any]) -> str:
    """The good answers with their schema; a problem's status says enough."""
    found = []
    for status, response in responses.items():
        schema = response.get("content", {}).get("application/json", {}).get("schema", {})
        if "$ref" in schema:
            found.append(f"{status} `{type_of(schema)}`")
    return ", ".join([*found, *(status for status in responses if int(status) >= 400)])


API_WORDS = """\
# Calls of the API

Every request is signed (SigV4, service `execute-api`). Bodies are JSON of at most 256 KiB. Every
field of every answer is in [openapi.json](../openapi.json). An error is `application/problem+json`:
`{type, title, status, code, detail, nextStep, instance, errors?: [{field, message}]}`, and its
`code` is one of [problems.md](problems.md). [The API](../api.md) says what holds for all calls.

A run's id is `run-` and a ULID in lower case. Clusters are addressed by name; one that is made for
a run has the spec's name, cut to 56 characters, and the last 6 of the run's id.
"""


def settings() -> str:
    template = yaml_parse((ROOT / "template.yaml").read_text())
    parameters = [
        [f"`{name}`", found["Description"], f"`{found['Default']}`" if found["Default"] else ""]
        for name, found in template["Parameters"].items()
    ]
    outputs = [[f"`{name}`", found["Description"]] for name, found in template["Outputs"].items()]
    said = comments(Path(inspect.getfile(Settings)))
    variables = [
        [f"`{variable_of(field.name)}`", said[field.name], default_of(field)]
        for field in dataclasses.fields(Settings)
    ]
    return "\n".join(
        [
            HEAD,
            "# Settings\n",
            "## Parameters of the template\n",
            table(["parameter", "meaning", "default"], parameters),
            "## Outputs of the stack\n",
            table(["output", "meaning"], outputs),
            "## Variables of the functions\n",
            "The template sets them; `trainyard/settings.py` alone reads them.\n",
            table(["variable", "meaning", "default"], variables),
        ]
    )


def variable_of(field: str) -> str:
    return "AWS_REGION" if field == "region" else field.upper()


def default_of(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "required"
    return f"`{field.default}`" if field.default else ""


def comments(path: Path) -> dict[str, str]:
    """What the `#:` lines above an assignment say, by its name.

    Raises ValueError where they stand above several names: each has a meaning of its own.
    """
    found: dict[str, str] = {}
    said: list[str] = []
    for line in path.read_text().splitlines():
        text = line.strip()
        if text.startswith("#:"):
            said.append(text[2:].strip())
            continue
        if said and (match := re.match(r"([A-Za-z_, ]+?)(?::[^=]+)?(?: = |$)", text)):
            if "," in match[1]:
                raise ValueError(f"{path}: one comment for several names: {match[1]}")
            found[match[1]] = " ".join(said)
        said = []
    return found


def limits() -> str:
    parts = [
        HEAD,
        "# Limits\n",
        "Numbers that a user may meet, with what the code says of them. None is a setting.\n",
    ]
    for title, package in LIMITS.items():
        below = pkgutil.walk_packages(getattr(package, "__path__", []), f"{package.__name__}.")
        modules = [found.name for found in below] or [package.__name__]
        rows = [
            row for name in sorted(modules) if "__main__" not in name for row in limits_in(name)
        ]
        parts += [f"## {title}\n", table(["limit", "value", "meaning"], rows)]
    return "\n".join(parts)


#: Where such numbers stand, by who holds to them.
LIMITS = {
    "The control plane": domain,
    "HyperPod's clusters": hyperpod,
    "The API": http,
    "The agent": trainyard_agent,
}


def limits_in(module: str) -> Iterator[list[str]]:
    loaded = importlib.import_module(module)
    for name, words_ in comments(Path(inspect.getfile(loaded))).items():
        value = getattr(loaded, name, None)
        if name.isupper() and not name.startswith("_") and isinstance(value, int | float):
            yield [f"`{module.rsplit('.', 1)[-1]}.{name}`", measured(name, value), words_]


def measured(name: str, value: float) -> str:
    """With its unit, where the name has one."""
    if "BYTES" in name:
        for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if value >= size and value % size == 0:
                return f"{int(value // size)} {unit}"
    unit = next((unit for unit in ("seconds", "bytes") if unit.upper() in name), "")
    return f"{value:,} {unit}".strip()


PAGES = {
    "api.md": api,
    "settings.md": settings,
    "limits.md": limits,
    "events.md": events,
    "commands.md": agent_commands,
    "problems.md": problem_codes,
    "specs.md": specs,
}
BY_HAND = {"README.md", "layout.md", "state-machines.md"}


def strays(directory: Path) -> list[str]:
    """Files that nobody writes any more."""
    return sorted({path.name for path in directory.iterdir()} - {*PAGES, *BY_HAND})


def main(argv: list[str] | None = None) -> int:
    """Exit status 1 if --check finds a difference, or a page is there that nobody writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args(argv).check
    DIRECTORY.mkdir(exist_ok=True)
    stale = [
        name
        for name, page in PAGES.items()
        if not (DIRECTORY / name).exists() or (DIRECTORY / name).read_text() != page()
    ]
    for name in stale:
        if check:
            print(f"{DIRECTORY / name} is stale; run: python scripts/reference.py")
        else:
            (DIRECTORY / name).write_text(PAGES[name]())
    found = strays(DIRECTORY)
    for name in found:
        print(f"{DIRECTORY / name}: nobody writes it; remove it, or name it in BY_HAND")
    return 1 if found or (check and stale) else 0


if __name__ == "__main__":
    sys.exit(main())
