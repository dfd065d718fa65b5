"""Write the SDK's classes of the API's answers, or with --check say whether they are stale.

They are made of docs/openapi.json, so openapi.py comes first.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "docs/openapi.json"
TARGET = ROOT / "cli/trainyard_sdk/answers.py"
Schema = Mapping[str, Any]

#: A spec is what a person wrote; the SDK reads it as the contracts' class where it is asked for.
SPECS = frozenset({"RunSpec", "ClusterSpec", "FilesystemSpec"})
#: Two processes share these: they are the contracts' own.
CONTRACTS = frozenset({"NodeSample", "RunSample"})
HEAD = '''"""What the API answers, as classes; scripts/sdk_answers.py makes it of the document."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from trainyard_contracts.events import NodeSample, RunSample

from .answer import Answer, Open

__all__ = [
{names}
]
'''
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_DEFAULTS = {"str": '""', "bool": "False"}


def text(document: Schema) -> str:
    """The module."""
    schemas = document["components"]["schemas"]
    made = [_class(name, schemas[name]) for name in _in_order(document)]
    names = "\n".join(f'    "{name}",' for name in sorted([*_in_order(document), *CONTRACTS]))
    return "\n\n".join([HEAD.replace("{names}", names), *made]).rstrip() + "\n"


def _in_order(document: Schema) -> list[str]:
    """The classes of all answers, each after those that it names."""
    schemas, order = document["components"]["schemas"], list[str]()

    def visit(name: str) -> None:
        if name in order or name in SPECS | CONTRACTS:
            return
        for inner in sorted(set(_named(schemas[name]))):
            visit(inner)
        order.append(name)

    for path in document["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                if status < "300":
                    for name in _named(response):
                        visit(name)
    return order


def _named(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "$ref" in value:
            yield value["$ref"].rpartition("/")[2]
        for inner in value.values():
            yield from _named(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner)


def _class(name: str, schema: Schema) -> str:
    words = textwrap.fill(schema.get("description", f"A {name}."), 92, subsequent_indent="    ")
    fields = [
        _field(field, inner, field in schema.get("required", ()))
        for field, inner in sorted(
            schema["properties"].items(), key=lambda item: not _is_required(item, schema)
        )
    ]
    return f'class {name}(Answer):\n    """{words}"""\n\n' + "\n".join(fields) + "\n"


def _is_required(item: tuple[str, Schema], schema: Schema) -> bool:
    return item[0] in schema.get("required", ()) and _default(_type(item[1])) is None


def _field(name: str, schema: Schema, required: bool) -> str:
    kind = _type(schema)
    default = _default(kind)
    given = schema.get("default")
    if given is not None and not required and not isinstance(given, (list, dict)):
        default = repr(given) if not isinstance(given, str) else f'"{given}"'
    elif default is None and not required:
        kind, default = f"{kind} | None", "None"
    return f"    {_snake(name)}: {kind}" + ("" if default is None else f" = {default}")


def _default(kind: str) -> str | None:
    """What a field is that an older stack does not send; None: an answer without it is none."""
    if kind.endswith("None"):
        return "None"
    if kind.startswith(("list[", "dict[")):
        return f"Field(default_factory={kind.partition('[')[0]})"
    return _DEFAULTS.get(kind)


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return "dict[str, Any]" if name in SPECS else str(name)
    if "anyOf" in schema:
        return " | ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        values = ", ".join(f'"{value}"' for value in schema["enum"])
        return f"Open[Literal[{values}]]"
    if schema.get("format") == "date-time":
        return "datetime"
    if schema.get("type") == "array":
        return f"list[{_type(schema.get('items', {}))}]"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties", {})
        return f"dict[str, {_type(inner) if isinstance(inner, Mapping) else 'Any'}]"
    return _PLAIN.get(schema.get("type", ""), "Any")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name)


def formatted(source: str) -> str:
    """As the formatter would have it."""
    ruff = [
        str(Path(sys.executable).parent / "ruff"),
        "format",
        "-q",
        "--stdin-filename",
        str(TARGET),
    ]
    return subprocess.run(
        [*ruff, "-"], input=source, capture_output=True, text=True, check=True
    ).stdout


def main(argv: list[str] | None = None) -> int:
    """Exit status 1 if --check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    wanted = formatted(text(json.loads(SOURCE.read_text())))
    if parser.parse_args(argv).check:
        fresh = TARGET.exists() and TARGET.read_text() == wanted
        if not fresh:
            print(f"{TARGET} is stale; run: python scripts/sdk_answers.py")
        return 0 if fresh else 1
    TARGET.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
