"""The two kinds of node that a local cluster can be made of."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainyard_local.hyperpod.state import Cluster
from trainyard_local.nodes import processes as node_processes
from trainyard_local.nodes.cluster import free_address
from trainyard_local.nodes.node import Node
from trainyard_local.slurm.cluster import SlurmCluster, require_programs

if TYPE_CHECKING:
    from trainyard_local.machines.cloud import Machines


class ProcessNodes:
    """Nodes are process trees on this machine, told apart by their environment."""

    def slurm(self, cluster: Cluster) -> SlurmCluster:
        return SlurmCluster(cluster.id, cluster.home, cluster.ports.take())

    def address(self, cluster: Cluster) -> str:
        return free_address(cluster)

    def successor_address(self, cluster: Cluster, node: Node) -> str:
        return node.address

    def node(
        self,
        cluster: Cluster,
        instance_id: str,
        group: str,
        instance_type: str,
        label: str,
        address: str,
        home: Path,
    ) -> Node:
        return Node(
            instance_id,
            group,
            instance_type,
            label,
            address,
            home,
            cluster.cloud.state_dir,
            cluster.id,
            mounted=(cluster.shared, cluster.shared_path) if cluster.shared_path else None,
        )

    def begin(self, cluster: Cluster) -> subprocess.Popen[bytes]:
        require_programs()
        tags = {"TRAINYARD_LOCAL": str(cluster.cloud.state_dir), "TRAINYARD_CLUSTER": cluster.id}
        daemon: subprocess.Popen[bytes] = cluster.slurm.start_munge(tags)
        return daemon

    def set_up(self, cluster: Cluster, node: Node, entry: str) -> None:
        pass

    def restart_controller(self, cluster: Cluster, controller: Node) -> None:
        # With SIGTERM, or it would not save its state and jobs that ended would run again.
        node_processes.end_pids(
            process.pid for process in controller.processes() if process.name == "slurmctld"
        )
        controller.start_services()
        try:
            cluster.slurm.scontrol(controller.slurm_conf, "reconfigure")
        except (subprocess.SubprocessError, OSError):
            pass

    def closed(self, cluster: Cluster, nodes: list[Node]) -> None:
        pass


class MachineNodes:
    """Nodes are booted machines on a network of the cloud's own."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def slurm(self, cluster: Cluster) -> Any:
        from trainyard_local.hyperpod.machine_slurm import MachineSlurm

        return MachineSlurm(cluster)

    def address(self, cluster: Cluster) -> str:
        return self._machines.network.take()

    def successor_address(self, cluster: Cluster, node: Node) -> str:
        return self._machines.network.take()

    def node(
        self,
        cluster: Cluster,
        instance_id: str,
        group: str,
        instance_type: str,
        label: str,
        address: str,
        home: Path,
    ) -> Node:
        from trainyard_local.machines.node import MachineNode

        return MachineNode(
            instance_id,
            group,
            instance_type,
            label,
            address,
            home,
            cluster.cloud.state_dir,
            cluster.id,
            machines=self._machines,
        )

    def begin(self, cluster: Cluster) -> None:
        cluster.shared.mkdir(parents=True, exist_ok=True)

    def set_up(self, cluster: Cluster, node: Node, entry: str) -> None:
        from trainyard_local.machines.node import MachineNode

        if "slurmd-takes-no-options" in cluster.cloud.quirks and isinstance(node, MachineNode):
            node.slurmd_without_options()
        if entry == "OnCreate" or "slurm-comes-late" in cluster.cloud.quirks:
            cluster.slurm.node_came_late(node)
            self._machines.names.booted(node.address)  # whatever asked during the boot
        else:
            cluster.slurm.node_came(node)
            cluster.slurm.set_up(node)

    def restart_controller(self, cluster: Cluster, controller: Node) -> None:
        cluster.slurm.nodes_changed()

    def closed(self, cluster: Cluster, nodes: list[Node]) -> None:
        for node in nodes:
            node.destroy()
