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


def _words(error: Any) -> str:
    field = ".".join(map(str, error["loc"])) or "arguments"
    return f"{field}: {error['msg']}"


def _taken(takes: type[Arguments]) -> str:
    return ", ".join(
        f"{field.alias or name}{'' if field.is_required() else ' (if wanted)'}"
        for name, field in takes.model_fields.items()
    )
