"""One cluster of ParallelCluster's on the local cloud: how it is made, and how it ends."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from trainyard_local.fsx.service import Fsx
from trainyard_local.nodes.node import Node
from trainyard_local.parallelcluster import boot, daemon, filesystem, fleet, roles
from trainyard_local.parallelcluster.configuration import HEAD_NODE, Configuration
from trainyard_local.parallelcluster.events import resource_changed, stack_changed
from trainyard_local.parallelcluster.node import QueueNode
from trainyard_local.parallelcluster.slurm import await_daemon, flags, nodes_of
from trainyard_local.parallelcluster.state import Cluster, Failure, now
from trainyard_local.slurm.cluster import require_programs

log = logging.getLogger(__name__)

INSTANCE = "AWS::EC2::Instance"
WAIT = "AWS::CloudFormation::WaitCondition"
#: Between two looks at whether the static nodes came.
LOOK_SECONDS = 0.2
_UP = ({"IDLE", "CLOUD"}, {"MIXED", "CLOUD"}, {"ALLOCATED", "CLOUD"})


@dataclass
class LocalCluster(Cluster):
    """Slow work is done in threads of its own, which end when `closing` is set."""

    fsx: Fsx | None = None

    def create(self) -> None:
        """Runs in a thread; the outcome is the cluster's status."""
        try:
            stack_changed(self, "CREATE_IN_PROGRESS", "User Initiated")
            if self.fsx is not None:
                filesystem.make(self, self.fsx)
            self._begin()
            self._make_head_node()
            self._make_login_nodes()
            self._await_static_nodes()
            if not self.closing.is_set():
                self._complete()
        except boot.BootFailed as failed:
            self._fail("OnNodeConfiguredExecutionFailure", str(failed))
        except filesystem.NotMade as failed:
            self._fail("ClusterCreationFailure", str(failed))
        except Exception as error:
            if not self.closing.is_set():
                log.warning("cluster %s could not be made", self.name, exc_info=error)
            self._fail("HeadNodeBootstrapFailure", str(error))

    def _begin(self) -> None:
        require_programs()
        self.slurm.write_programs()
        self._write_slurm()
        self.munge = self._start_munge()
        self.in_background(lambda: self.keep_munge(self._start_munge))

    def _write_slurm(self) -> None:
        settings, idle = self.settings, self.configuration.idle_minutes
        times = {
            "interval": settings.power_seconds,
            "resume": int(settings.bootstrap_seconds),
            "suspend": settings.suspend_seconds,
            "idle": settings.idle_seconds if idle is None else int(idle * 60),
        }
        self.slurm.write(self.configuration, times)

    def _start_munge(self) -> subprocess.Popen[bytes]:
        found: subprocess.Popen[bytes] = self.slurm.start_munge(self.slurm.tags)
        return found

    def _make_head_node(self) -> None:
        resource_changed(self, "HeadNode", INSTANCE, "CREATE_IN_PROGRESS")
        head = self.new_instance(HEAD_NODE, HEAD_NODE, self.configuration.head_type)
        if not self.settings.capacity.there(head.instance_type):
            self.terminate(head)
            words = (
                f"We currently do not have sufficient {head.instance_type} capacity in the "
                "Availability Zone you requested"
            )
            resource_changed(self, "HeadNode", INSTANCE, "CREATE_FAILED", words)
            self._fail("InsufficientCapacity", words)
            return
        resource_changed(self, "HeadNode", INSTANCE, "CREATE_COMPLETE")
        boot.head_node(self, head)
        head.booted = True
        self.in_background(partial(fleet.serve_slurm, self))
        self.in_background(partial(daemon.run, self))

    def _make_login_nodes(self) -> None:
        for pool in self.configuration.pools:
            for number in range(pool.count):
                label = f"{pool.name}-{number + 1}"
                node = self.new_instance(pool.name, label, pool.instance_type)
                boot.login_node(self, node)

    def _await_static_nodes(self) -> None:
        """The head node tells CloudFormation that it is done when these have joined."""
        names = {name for queue in self.configuration.queues for name in queue.static()}
        while names and self.status == "CREATE_IN_PROGRESS":
            if self.closing.wait(LOOK_SECONDS):
                return
            if self.fleet == "PROTECTED":
                raise RuntimeError(
                    "Cluster has been set to PROTECTED mode due to failures detected in static "
                    "node provisioning"
                )
            known = nodes_of(self.scontrol("-o", "show", "nodes"))
            names -= {name for name in names if name in known and flags(known[name]) in _UP}

    def _complete(self) -> None:
        while self.fleet == "UNKNOWN" and not self.closing.wait(LOOK_SECONDS):
            pass
        if self.status != "CREATE_IN_PROGRESS":
            return
        self.status = "CREATE_COMPLETE"
        stack_changed(self, "CREATE_COMPLETE")

    def _fail(self, code: str, reason: str) -> None:
        if self.closing.is_set() or self.failure is not None:
            return
        self.failure = Failure(code, reason)
        words = f"Failed to execute OnNodeConfigured script. {reason}"
        words = words if code.startswith("OnNode") else reason
        resource_changed(self, "HeadNodeWaitCondition", WAIT, "CREATE_FAILED", words)
        self.status = "CREATE_FAILED"
        if not self.rollback:
            stack_changed(self, "CREATE_FAILED", words)
            return
        stack_changed(self, "ROLLBACK_IN_PROGRESS", words)
        for node in self.members():
            self.terminate(node)
        filesystem.end(self, self.fsx)
        stack_changed(self, "ROLLBACK_COMPLETE")

    # -- its nodes --------------------------------------------------------------------------------

    def power_cut(self, node: Node) -> int:
        """The instance is gone at once, as EC2's are when their host dies."""
        killed = node.kill()
        if isinstance(node, QueueNode) and node.role == "Compute":
            self.terminate(node)
        else:
            node.status = "stopped"
        return killed

    def notice_later(self, node: Node) -> None:
        """Slurm notices after SlurmdTimeout, and the daemon after Slurm."""

    def healed(self, node: Node) -> None:
        """Nothing was marked."""

    # -- change and end ---------------------------------------------------------------------------

    def update(self, configuration: Configuration) -> None:
        """Take another configuration. Runs in the background; the outcome is the status."""
        self.status, self.changed_at = "UPDATE_IN_PROGRESS", now()
        stack_changed(self, "UPDATE_IN_PROGRESS", "User Initiated")
        self.in_background(partial(self._update, configuration))

    def _update(self, configuration: Configuration) -> None:
        """As the head node does it: Slurm's files, slurmctld anew, then what is to be run."""
        before = self.configuration
        try:
            self._reconfigured(configuration)
            head = self.head
            if head is not None:
                boot.updated(self, head)
        except (subprocess.SubprocessError, OSError, RuntimeError, boot.BootFailed) as error:
            if not self.closing.is_set():
                self._undo(before, str(error))
            return
        self._forget_queues(before, configuration)
        self.status = "UPDATE_COMPLETE"
        stack_changed(self, "UPDATE_COMPLETE")

    def _undo(self, before: Configuration, why: str) -> None:
        """CloudFormation rolls the update back. OnNodeUpdated does not run again for that."""
        log.warning("cluster %s could not be updated: %s", self.name, why)
        words = f"WaitCondition received failed message: 'Failed to update the cluster. {why}'"
        resource_changed(self, "HeadNodeWaitCondition", WAIT, "CREATE_FAILED", words)
        stack_changed(self, "UPDATE_ROLLBACK_IN_PROGRESS", "The following resource(s) failed")
        wanted = self.configuration
        try:
            self._reconfigured(before)
        except (subprocess.SubprocessError, OSError, RuntimeError) as error:
            log.warning("cluster %s could not be changed back: %s", self.name, error)
            self.status = "UPDATE_FAILED"
            stack_changed(self, "UPDATE_ROLLBACK_FAILED", str(error))
            return
        self._forget_queues(wanted, before)
        self.status = "UPDATE_FAILED"
        stack_changed(self, "UPDATE_ROLLBACK_COMPLETE")

    def _reconfigured(self, configuration: Configuration) -> None:
        """Slurm with these queues: slurmctld takes other nodes only when it starts."""
        for name in sorted(set(configuration.node_names()) - set(self.slurm.ports)):
            self.slurm.ports[name] = self.ports.take()
        self.configuration = configuration
        self._write_slurm()
        head = self.head
        if head is None:
            raise OSError("there is no head node")
        head.restart_controller()
        await_daemon(self.slurm, head.slurm_conf)
        self.scontrol("reconfigure")
        if self.fleet in ("STOP_REQUESTED", "STOPPING", "STOPPED"):
            daemon.partitions(self, "INACTIVE")

    def _forget_queues(self, before: Configuration, after: Configuration) -> None:
        """Nodes that are no more give back instances and ports, queues their roles."""
        gone = set(before.node_names()) - set(after.node_names())
        for name in gone:
            if (instance := self.instance_of(name)) is not None:
                self.terminate(instance)
        self.ports.give_back([self.slurm.ports.pop(name) for name in gone])
        for queue in {one.name for one in before.queues} - {one.name for one in after.queues}:
            roles.remove(self.cloud, boot.role_name(self, queue))

    def request_fleet(self, *, running: bool) -> None:
        """A wish that is granted already, or is on its way, changes nothing."""
        if running and self.fleet not in ("START_REQUESTED", "STARTING", "RUNNING"):
            self.fleet = "START_REQUESTED"
        if not running and self.fleet not in ("STOP_REQUESTED", "STOPPING", "STOPPED"):
            self.fleet = "STOP_REQUESTED"

    def delete(self, forget: Callable[[], None]) -> None:
        """Kill and remove everything in the background; `forget` is called when nothing is left."""
        self.closing.set()
        self.status = "DELETE_IN_PROGRESS"
        stack_changed(self, "DELETE_IN_PROGRESS", "User Initiated")

        def work() -> None:
            self.close()
            self.status = "DELETE_COMPLETE"
            forget()
            stack_changed(self, "DELETE_COMPLETE")

        threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        self.end_processes()
        groups = {HEAD_NODE, *(q.name for q in self.configuration.queues)}
        for group in groups | {pool.name for pool in self.configuration.pools}:
            roles.remove(self.cloud, boot.role_name(self, group))
        self.nodes.clear()
        filesystem.end(self, self.fsx)
        self.ports.give_back([self.slurm.controller_port, *self.slurm.ports.values()])
        self.remove_directory()
