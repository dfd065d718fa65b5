"""Commands on a cluster's controller: finds its Session Manager target, and runs argv there as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainyard.aws.session_channel import SessionChannel
from trainyard.domain import errors
from trainyard.domain.records import Cluster, ClusterNode
from trainyard.ports import CommandResult

#: A session has no profile and so no PATH of ours: our programs are named by their absolute path.
PROGRAMS = "/opt/trainyard/bin"

FindController = Callable[[Cluster], ClusterNode | None]


class SessionCommands:
    """The port `Commands` through Session Manager. Targets are remembered until one is not connected."""

    def __init__(self, channel: SessionChannel, controller: FindController) -> None:
        self._channel = channel
        self._controller = controller
        self._targets: dict[str, str] = {}

    def run(self, cluster: Cluster, argv: Sequence[str], *, timeout_seconds: float) -> CommandResult:
        program = argv[0] if "/" in argv[0] else f"{PROGRAMS}/{argv[0]}"
        return self._channel.run(lambda again: self._target(cluster, again), [program, *argv[1:]], timeout_seconds=timeout_seconds)

    def _target(self, cluster: Cluster, again: bool) -> str:
        if cluster.arn is None:
            raise errors.NodeUnreachable(f"cluster {cluster.name} does not exist in AWS yet, so it has no controller to reach")
        if again or cluster.arn not in self._targets:
            self._targets[cluster.arn] = self._look_up(cluster)
        return self._targets[cluster.arn]

    def _look_up(self, cluster: Cluster) -> str:
        node = self._controller(cluster)
        if node is None:
            raise errors.NodeUnreachable(f"cluster {cluster.name} has no controller node now")
        return f"sagemaker-cluster:{cluster.id}_{node.group}-{node.instance_id}"
