"""A trainer's configuration: a frozen dataclass, filled from a file and the command line, with
errors that name the key.

--config file.json          (or .toml, .yaml)
--learning-rate 0.1         a field of the dataclass
--model.layers 12           a field of a nested dataclass
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import json
import math
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from trainyard_job.common.exits import ConfigError

from .failure import record_exception
from .meaning import below

#: ConfigError is of this module, too: programs of users know it by it.
__all__ = ["ConfigError", "build", "describe", "parse", "read_file", "read_words"]

T = TypeVar("T")


def parse(kind: type[T], argv: Sequence[str] | None = None, *, prog: str = "") -> T:
    """The configuration of a command line (sys.argv's by default).

    Prints the error and ends with status 2 where argparse would, too.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    if {"-h", "--help"} & set(words):
        print(f"usage: {prog} [--config FILE] [--KEY VALUE ...]\n\n" + "\n".join(describe(kind)))
        raise SystemExit(0)
    try:
        return build(kind, read_words(kind, words))
    except ConfigError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        record_exception(error)
        raise SystemExit(2) from error


def describe(kind: type[Any], prefix: str = "") -> list[str]:
    """Of every key its name, type and default, and below them what it means."""
    lines: list[str] = []
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        nested = _dataclass(hints[field.name])
        key = prefix + field.name.replace("_", "-")
        if nested is not None:
            lines += describe(nested, f"{key}.")
        else:
            line = f"  --{key:34} {_type_name(hints[field.name])}, default {_default(field)}"
            lines.append(line + below(kind, field.name))
    return lines


def read_words(kind: type[Any], words: Sequence[str]) -> dict[str, Any]:
    """Nested values of `--key value` and `--key=value`; a later value wins, and the command line
    wins over the file.
    """
    from_file: dict[str, Any] = {}
    given: dict[str, Any] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or word == "--":
            raise ConfigError(f"'{word}' is no option; options are --key value")
        key, equals, value = word[2:].partition("=")
        if not equals:
            if rest and not rest[0].startswith("--"):
                value = rest.pop(0)
            elif _is_switch(kind, key):
                value = "true"
            else:
                raise ConfigError(f"{key}: the value is missing; give --{key} VALUE")
        if key == "config":
            _merge(from_file, read_file(Path(value)))
        else:
            _put(given, key.replace("-", "_").split("."), value)
    _merge(from_file, given)
    return from_file


def read_file(path: Path) -> dict[str, Any]:
    """The mapping in a JSON, TOML or YAML file; TOML takes Python 3.11 or tomli, YAML takes
    PyYAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            found: Any = _toml(text)
        elif path.suffix in (".yaml", ".yml"):
            import yaml

            found = yaml.safe_load(text)
        else:
            found = json.loads(text)
    except OSError as error:
        raise ConfigError(f"config: {error}") from error
    except ImportError as error:
        needed = {".toml": "Python 3.11 or the package tomli"}.get(
            path.suffix, "the package PyYAML"
        )
        raise ConfigError(
            f"config: {path.name} needs {needed}, which is not here ({error}); add it, or give a "
            ".json file"
        ) from error
    except Exception as error:  # three parsers, three trees of errors
        raise ConfigError(f"config: {path} is not well formed: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"config: {path} must hold keys and values, not {type(found).__name__}")
    return found


def _toml(text: str) -> Any:
    """HyperPod's image has Python 3.10, whose library cannot read TOML."""
    try:
        parser = importlib.import_module("tomllib")
    except ImportError:
        parser = importlib.import_module("tomli")
    return parser.loads(text)


def build(kind: type[T], values: Mapping[str, Any], prefix: str = "") -> T:
    """The dataclass of these values; strings are converted to the fields' types.

    Raises ConfigError.
    """
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    ready: dict[str, Any] = {}
    for key, value in values.items():
        name = str(key).replace("-", "_")
        if name not in fields:
            raise ConfigError(
                f"{prefix}{key}: there is no such key; {_nearest(name, list(fields), prefix)}"
            )
        nested = _dataclass(hints[name])
        if nested is not None:
            if not isinstance(value, Mapping):
                keys = ", ".join(
                    f"{prefix}{name}.{field.name}" for field in dataclasses.fields(nested)
                )
                raise ConfigError(
                    f"{prefix}{name}: '{value}' is given for what has keys of its own: {keys}"
                )
            ready[name] = build(nested, value, f"{prefix}{name}.")
        else:
            ready[name] = _convert(f"{prefix}{name}", value, hints[name])
    for name, field in fields.items():
        if _default(field) == "(required)" and name not in ready:
            raise ConfigError(
                f"{prefix}{name}: it is missing and has no default; give "
                f"--{(prefix + name).replace('_', '-')}"
            )
    try:
        return kind(**ready)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{prefix}{error}") from error


def _convert(key: str, value: Any, hint: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _convert_union(key, value, arguments)
    if origin is Literal:
        if value in arguments:
            return value
        raise ConfigError(f"{key}: '{value}' is not one of {', '.join(map(str, arguments))}")
    if origin in (tuple, list):
        items = [item for item in value.split(",") if item] if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)):
            raise ConfigError(f"{key}: '{value}' is no list; give values with commas between them")
        return origin(_convert(key, item, arguments[0]) for item in items)
    return _convert_plain(key, value, hint)


def _convert_union(key: str, value: Any, arguments: Sequence[Any]) -> Any:
    if type(None) in arguments and (value is None or value in ("none", "null")):
        return None
    choices = [argument for argument in arguments if argument is not type(None)]
    for choice in choices[:-1]:
        try:
            return _convert(key, value, choice)
        except ConfigError:
            continue
    return _convert(key, value, choices[-1])


def _convert_plain(key: str, value: Any, hint: Any) -> Any:
    if hint is Any:
        return value
    if hint is bool:
        known = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in known:
            return known[value.lower()]
        raise ConfigError(f"{key}: '{value}' is neither true nor false")
    if hint is str:
        if value is None or isinstance(value, (dict, list)):
            raise ConfigError(
                f"{key}: a text is wanted, not {'null' if value is None else type(value).__name__}"
            )
        return str(value)
    try:
        if isinstance(value, bool) or (
            hint is int and isinstance(value, float) and not value.is_integer()
        ):
            raise ValueError
        ready = hint(value)
        if isinstance(ready, float) and not math.isfinite(ready):
            raise ValueError
        return ready
    except (TypeError, ValueError, OverflowError):
        wanted = {int: "a whole number", float: "a finite number"}.get(
            hint, getattr(hint, "__name__", str(hint))
        )
        raise ConfigError(f"{key}: '{value}' is not {wanted}") from None


def _nearest(name: str, names: list[str], prefix: str) -> str:
    close = difflib.get_close_matches(name, names, 1)
    known = ", ".join(f"{prefix}{one}" for one in sorted(names))
    return f"did you mean {prefix}{close[0]}? Keys: {known}" if close else f"keys: {known}"


def _dataclass(hint: Any) -> type[Any] | None:
    return hint if isinstance(hint, type) and dataclasses.is_dataclass(hint) else None


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return str(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return str(field.default_factory())
    return "(required)"


def _type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _is_switch(kind: type[Any], key: str) -> bool:
    hint: Any = kind
    for name in key.replace("-", "_").split("."):
        hint = typing.get_type_hints(hint).get(name) if _dataclass(hint) else None
    return hint is bool


def _put(values: dict[str, Any], path: list[str], value: Any) -> None:
    for place, name in enumerate(path[:-1], 1):
        values = values.setdefault(name, {})
        if not isinstance(values, dict):
            raise ConfigError(
                f"{'.'.join(path[:place])}: it is given a value and, with {'.'.join(path)}, keys "
                "of its own; give one of them"
            )
    if isinstance(values.get(path[-1]), dict):
        raise ConfigError(
            f"{'.'.join(path)}: it is given a value and keys of its own; give one of them"
        )
    values[path[-1]] = value


def _merge(into: dict[str, Any], other: Mapping[str, Any]) -> None:
    """`other` wins; both may spell keys with - or _."""
    for key, value in other.items():
        name = str(key).replace("-", "_")
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into.pop(key, None)
            into[name] = dict(value) if isinstance(value, Mapping) else value
