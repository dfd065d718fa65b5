"""Commands on a cluster's controller: finds its Session Manager target, runs argv there as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainyard.aws.session_channel import SessionChannel
from trainyard.domain import errors
from trainyard.domain.records import Cluster
from trainyard.outside.commands import CommandResult

#: A session has no profile and so no PATH of ours: our programs are named by their absolute path.
PROGRAMS = "/opt/trainyard/bin"
#: Sessions run as ssm-user, or as the user in the account's preferences; the agent's socket is
#: root's.
AS_ROOT = ("sudo", "-n")

FindTarget = Callable[[Cluster], str | None]


class SessionCommands:
    """The port `Commands` through Session Manager.

    A target is remembered until it is not connected.
    """

    def __init__(self, channel: SessionChannel, find: FindTarget) -> None:
        self._channel = channel
        self._find = find
        self._targets: dict[str, str] = {}

    def run(
        self, cluster: Cluster, argv: Sequence[str], *, timeout_seconds: float
    ) -> CommandResult:
        program = argv[0] if "/" in argv[0] else f"{PROGRAMS}/{argv[0]}"
        command = [*AS_ROOT, program, *argv[1:]]
        result = self._channel.run(
            lambda again: self._target(cluster, again), command, timeout_seconds=timeout_seconds
        )
        if result.exit_code and result.stderr.startswith("sudo:"):
            words = result.stderr.strip().splitlines()[-1]
            raise errors.CommandFailed(
                f"sudo is refused on the controller of {cluster.name}: {words}", next_step=_NO_SUDO
            )
        return result

    def _target(self, cluster: Cluster, again: bool) -> str:
        if cluster.arn is None:
            raise errors.NodeUnreachable(
                f"cluster {cluster.name} does not exist in AWS yet, "
                "so it has no controller to reach"
            )
        if again or cluster.arn not in self._targets:
            self._targets[cluster.arn] = self._look_up(cluster)
        return self._targets[cluster.arn]

    def _look_up(self, cluster: Cluster) -> str:
        target = self._find(cluster)
        if target is None:
            raise errors.NodeUnreachable(f"cluster {cluster.name} has no controller node now")
        return target


_NO_SUDO = (
    "Let Session Manager's sessions run as a user who has sudo without a password, "
    "such as ssm-user or ubuntu (preferences, 'Run As'); trainyard doctor looks at them."
)
