"""A local HyperPod cluster's instances and status: how they change, whatever changes them."""

from __future__ import annotations

import subprocess

from trainyard_local.hyperpod.events import announce
from trainyard_local.hyperpod.state import Cluster
from trainyard_local.nodes import processes as node_processes
from trainyard_local.nodes.cluster import new_instance_id
from trainyard_local.nodes.node import Node
from trainyard_local.slurm.cluster import SlurmCluster, SlurmNode


class ChangingCluster(Cluster):
    """Instances are made, given up and put to work; each new status is announced."""

    def new_node(self, group: str, address: str, label: str) -> Node:
        instance_id = new_instance_id()
        spec = self.groups[group]
        kind = spec.get("InstanceType") or spec["InstanceRequirements"]["InstanceTypes"][0]
        home = self.home / "nodes" / instance_id
        node = self.kind.node(self, instance_id, group, kind, label, address, home)
        with self.lock:
            self.nodes[instance_id] = node
        return node

    def fill_groups(self) -> list[Node]:
        """Make the instances that are missing to each group's count; they are not started yet."""
        made = []
        with self.lock:
            for name in sorted(self.groups, key=lambda group: self.role(group) != "Controller"):
                have = {node.label for node in self.members(name)}
                labels = (
                    f"{name}-{number}"
                    for number in range(1, self.groups[name]["InstanceCount"] + 1)
                )
                made += [
                    self.new_node(name, self.kind.address(self), label)
                    for label in labels
                    if label not in have
                ]
        return made

    def write_slurm_nodes(self) -> None:
        if not isinstance(self.slurm, SlurmCluster):
            return  # a machine's line is written when it comes
        with self.lock:
            ports = {node.address: node.port for node in self.slurm.nodes}
            wanted = [node for node in self.members() if self.role(node.group) == "Compute"]
            gone = set(ports) - {node.address for node in wanted}
            self.ports.give_back([ports[address] for address in gone])
            self.slurm.write_nodes(
                [
                    SlurmNode(
                        node.address,
                        ports.get(node.address) or self.ports.take(),
                        self.partition(node.group),
                    )
                    for node in wanted
                ]
            )

    def successor(self, node: Node) -> Node:
        """Another instance in the place of a node that is given up.

        It has the node's label and the address that its kind of node gives, nothing else.
        """
        with self.lock:
            self.nodes.pop(node.instance_id, None)
            node.destroy()
            return self.new_node(node.group, self.kind.successor_address(self, node), node.label)

    def fail(self, message: str) -> None:
        if self.closing.is_set():
            return
        self.failure_message = message
        self.set_status("Failed")

    def release_all(self) -> None:
        with self.lock:
            gone, self.nodes = list(self.nodes.values()), {}
        node_processes.kill(self.everything(gone))
        for node in gone:
            node.destroy()

    def rejoin(self, node: Node) -> None:
        """HyperPod puts a repaired node back to work.

        A node that is not down says 'invalid state', which is fine.
        """
        controller = self.controller
        if self.closing.is_set() or controller is None or self.role(node.group) != "Compute":
            return
        try:
            self.slurm.scontrol(
                controller.slurm_conf, "update", f"nodename={node.name}", "state=resume"
            )
        except (subprocess.SubprocessError, OSError):
            pass

    def set_status(self, status: str) -> None:
        with self.lock:
            # A deletion that began meanwhile is the newer word.
            if self.closing.is_set() and status != "Deleting":
                return
            self.status = status
        announce(self)
