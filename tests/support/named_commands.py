"""The commands of `trainyard` that our own sentences name, and what its parser says of them.

A sentence goes on behind a command: 'trainyard run resume RUN begins this one'. So a command ends
where the parser's own subcommands, options and placeholders end. A placeholder is in capitals, or
was a value in braces.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_command

from trainyard_cli.main import app

#: Typer's own parser raises it; of its family only BadParameter has a public name.
_WRONG: Any = typer.BadParameter.__mro__[1]
#: What stands in a sentence for a value that is put there later.
VALUE = "VALUE0"
_BEGIN = re.compile(r"(?<![\w/.-])trainyard (?=[a-z]|-)")
_END = re.compile(r"[.,;:)\]'\"`]+$")
#: The parser takes these anywhere.
_ANYWHERE = ("--json",)
_FILE = re.compile(r"[\w/-]+\.(?:yaml|json)$")
_PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_=/:.-]*(?:\.\.\.)?$")


@dataclass(frozen=True)
class Named:
    """A command with the place of its sentence."""

    where: str
    text: str


def named(path: Path, root: Path) -> Iterator[Named]:
    """All commands in the strings of a file, docstrings left out."""
    tree = ast.parse(path.read_text())
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        if node in inside or isinstance(node, ast.Expr):
            inside |= set(ast.walk(node)) if _is_docstring(node) else set()
            continue
        text = _text(node)
        if text is None:
            continue
        inside |= set(ast.walk(node))
        place = f"{path.relative_to(root)}:{getattr(node, 'lineno', 0)}"
        for found in _BEGIN.finditer(text):
            yield Named(place, text[found.start() :])


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [
            str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values
        ]
        return "".join(parts)
    return None


def trouble(text: str) -> str | None:
    """Why the command with which this text begins cannot be run; None: it can."""
    words = text.split()[1:]
    command: Any = get_command(app)
    context = typer.Context(command, info_name="trainyard")
    while isinstance(command, TyperGroup):
        word = _END.sub("", words.pop(0)) if words else ""
        below = command.get_command(context, word)
        if below is None:
            return f"'{context.command_path}' has no '{word}'"
        command = below
        context = typer.Context(command, info_name=word, parent=context)
    given = _arguments(command.params, words)
    try:
        command.make_context(context.info_name, given, parent=context.parent)
    except _WRONG as error:
        return f"{context.command_path} {' '.join(given)}: {error.format_message()}"
    return None


def _arguments(parameters: list[Any], words: list[str]) -> list[str]:
    """Those that the sentence gives, with values in the places of placeholders."""
    options = {
        name: one
        for one in parameters
        if isinstance(one, TyperOption)
        for name in (*one.opts, *one.secondary_opts)
    }
    places = [one for one in parameters if isinstance(one, TyperArgument)]
    given: list[str] = []
    rest = list(words)
    ended = False
    while rest and not ended:
        word = rest.pop(0)
        bare = _END.sub("", word)
        if bare in _ANYWHERE:
            pass
        elif bare.startswith("--"):
            given.append(bare)
            option = options.get(bare)
            if option is not None and not option.is_flag and bare == word and rest:
                word = rest.pop(0)
                given.append(_filled(option, _END.sub("", word)))
        elif (_PLACEHOLDER.match(bare) or _FILE.match(bare)) and places:
            given.append(_filled(places[0], bare))
            if places[0].nargs != -1:
                places.pop(0)
        else:
            break
        ended = _END.search(word) is not None and not word.endswith("...")
    return given


def _filled(parameter: Any, placeholder: str) -> str:
    """A value of the parameter's own type; what is no placeholder stays as it is."""
    if not _PLACEHOLDER.match(placeholder):
        return placeholder
    annotation = parameter.type_descriptor.annotation
    kinds = {annotation, *get_args(annotation)}
    literal = next((one for one in kinds if get_origin(one) is Literal), None)
    if literal is not None:
        return str(get_args(literal)[0])
    if kinds & {int, float}:
        return "1"
    return __file__ if Path in kinds else placeholder
