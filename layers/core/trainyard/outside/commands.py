"""Commands that run on nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trainyard.domain.records import Cluster


@dataclass(frozen=True)
class CommandResult:
    """A finished remote command."""

    exit_code: int
    stdout: str
    stderr: str


class Commands(Protocol):
    def run(
        self, cluster: Cluster, argv: Sequence[str], *, timeout_seconds: float
    ) -> CommandResult:
        """Run a command of `trainyard_contracts.commands` on what speaks for the cluster.

        Raises errors.NodeUnreachable (retryable), errors.CommandTimeout, errors.SessionEncrypted.
        """
        ...
