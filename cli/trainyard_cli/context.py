"""What all commands share: the global options, and the client they lead to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import typer

from trainyard_sdk.client import Client
from trainyard_sdk.connection import state_directory


@dataclass
class Context:
    """The global options of this call; until the root command gives them, their defaults."""

    endpoint: str | None = None
    name: str | None = None
    state_dir_option: str | None = None
    json: bool = False
    #: What follows a `--`: the arguments of a program, where a command takes such.
    after_dashes: tuple[str, ...] = ()
    #: Why the command asks for what it changes.
    reason: str | None = None

    def given(
        self, endpoint: str | None, name: str | None, state_dir: str | None, json: bool
    ) -> None:
        """The root command's options."""
        self.endpoint, self.name, self.state_dir_option, self.json = endpoint, name, state_dir, json
        if endpoint is None and name is None:
            self.endpoint = os.environ.get("TRAINYARD_API_URL") or None

    def because(self, reason: str | None) -> None:
        """Of a command whose calls say why; before the first of them."""
        self.reason = reason

    @cached_property
    def client(self) -> Client:
        """Raises Unreachable if nothing says where the API is."""
        return Client.connect(
            self.endpoint,
            self.state_dir_option,
            context=self.name,
            for_terminal=not self.json,
            reason=self.reason,
        )

    @property
    def state_dir(self) -> Path:
        return state_directory(self.state_dir_option)


def context_of(typer_context: typer.Context) -> Context:
    """The options that the root command put away."""
    found = typer_context.find_object(Context)
    assert found is not None
    return found
