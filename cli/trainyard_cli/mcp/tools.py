"""What a tool is: its name, its words, what it takes, and the calls of the API that it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import typer
from pydantic import ValidationError

from trainyard_contracts.base import Strict
from trainyard_sdk.client import Client

from ..problems import InvalidInput


class Arguments(Strict):
    """What a tool is called with."""


#: No spec is nested so deeply; json and pydantic have an end to it, too, and no words for it.
DEEPEST = 100
A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True)
class Tool(Generic[A]):
    """One tool. What acts changes something, and is there if the person who started us says so."""

    name: str
    words: str
    takes: type[A]
    call: Callable[[Client, A], Any]
    acts: bool = False
    #: Whether what it changes cannot be had back.
    destroys: bool = False

    def described(self) -> dict[str, Any]:
        schema = self.takes.model_json_schema(by_alias=True)
        return {
            "name": self.name,
            "description": self.words,
            "inputSchema": {
                "type": "object",
                "properties": schema.get("properties", {}),
                "required": schema.get("required", []),
                "additionalProperties": False,
            },
            "annotations": {
                "readOnlyHint": not self.acts,
                "destructiveHint": self.destroys,
                "idempotentHint": not self.acts,
                "openWorldHint": True,
            },
        }

    def asked(self, client: Callable[[], Client], arguments: Mapping[str, Any]) -> Any:
        """The data of its answer. Raises InvalidInput, and what the client raises."""
        if wrong := _unsendable(arguments):
            raise InvalidInput(
                f"{self.name} cannot be called like that", wrong, f"It takes: {_taken(self.takes)}"
            )
        try:
            given = self.takes.model_validate(dict(arguments))
            return self.call(client(), given)
        except ValidationError as error:
            raise InvalidInput(
                f"{self.name} cannot be called like that",
                "; ".join(_words(one) for one in error.errors(include_url=False)),
                f"It takes: {_taken(self.takes)}",
            ) from error
        except typer.BadParameter as error:
            raise InvalidInput(
                f"{self.name} cannot be called like that", error.message, f"See {self.name}'s words"
            ) from error


def _unsendable(arguments: Mapping[str, Any]) -> str:
    """Why no request can carry it; '' where one can."""
    left: list[tuple[Any, int]] = [(arguments, 0)]
    while left:
        value, depth = left.pop()
        if depth > DEEPEST:
            return f"arguments: nested more than {DEEPEST} times"
        if isinstance(value, str) and not _whole(value):
            return f"arguments: {value[:100]!a} has half of a character (U+D800 to U+DFFF)"
        if isinstance(value, Mapping):
            left += [(one, depth + 1) for pair in value.items() for one in pair]
        elif isinstance(value, list):
            left += [(one, depth + 1) for one in value]
    return ""


def _whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _words(error: Any) -> str:
    field = ".".join(map(str, error["loc"])) or "arguments"
    return f"{field}: {error['msg']}"


def _taken(takes: type[Arguments]) -> str:
    return ", ".join(
        f"{field.alias or name}{'' if field.is_required() else ' (if wanted)'}"
        for name, field in takes.model_fields.items()
    )
