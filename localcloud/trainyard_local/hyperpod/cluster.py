"""One HyperPod cluster of the local cloud: how it is made, repaired, changed and ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from trainyard_local.hyperpod import recovery as hyperpod_recovery
from trainyard_local.hyperpod.events import announce, note
from trainyard_local.hyperpod.launch import (
    create_all_at_once,
    create_continuously,
    launch,
    launch_all,
    launch_until_up,
    lifecycle_files,
)
from trainyard_local.hyperpod.members import ChangingCluster
from trainyard_local.nodes.node import Node

log = logging.getLogger(__name__)


class LocalCluster(ChangingCluster):
    """Slow work is done in threads of its own, which end when `closing` is set."""

    # -- creation ---------------------------------------------------------------------------------

    def create(self) -> None:
        """Build everything: the controller first, then the rest.

        Runs in a thread; the outcome is the cluster's status.
        """
        try:
            announce(self)
            note(self, "Cluster", f"Cluster {self.name} creation started successfully")
            self._begin()
            repairs = {"Reboot": self.reboot, "Replace": self.replace}
            self.in_background(lambda: hyperpod_recovery.watch(self, repairs))
            (create_continuously if self.continuous else create_all_at_once)(self)
        except Exception as error:
            if not self.closing.is_set():
                log.warning("cluster %s could not be set up", self.name, exc_info=error)
            self.fail(f"The cluster could not be set up: {error}")

    def _begin(self) -> None:
        self._files = lifecycle_files(self, next(iter(self.groups)))
        self.fill_groups()
        self.write_slurm_nodes()
        self.munge = self.kind.begin(self)
        if self.munge is not None:
            self.in_background(lambda: self.keep_munge(lambda: self.kind.begin(self)))

    def power_cut(self, node: Node) -> int:
        """Kill everything on the node at once."""
        killed = node.kill()
        self.notice_later(node)
        return killed

    def notice_later(self, node: Node) -> None:
        """Mark, after a while, an instance that does not answer, as HyperPod does."""

        def notice() -> None:
            self.closing.wait(self.settings.notice_seconds)
            if node.status == "Running" and not node.answers:
                node.status, node.message = "Failure", _silence(node)
                hyperpod_recovery.find_unhealthy(self, node, "Reboot", state="down")

        self.in_background(notice)

    def healed(self, node: Node) -> None:
        """Remove that mark: the instance answers again."""
        if node.answers and node.status == "Failure" and node.message == _silence(node):
            node.status, node.message = "Running", ""

    # -- repair -----------------------------------------------------------------------------------

    def replace(self, node: Node) -> None:
        """Another instance in the node's place: volumes gone, lifecycle scripts run again."""
        node.status = "ShuttingDown"

        def work() -> None:
            fresh = self.successor(node)
            note(
                self,
                "Instance",
                f"Instance {fresh.instance_id} is starting as part of instance replacement",
                fresh,
            )
            if self.continuous:
                launch_until_up(self, fresh)
            elif launch(self, fresh) is None:
                self.rejoin(fresh)

        self.in_background(work)

    def reboot(self, node: Node) -> None:
        """The same instance and disk. Services start again; lifecycle scripts do not run."""
        node.status = "Pending"

        def work() -> None:
            note(
                self,
                "Instance",
                f"Reboot of EC2 Instance {node.instance_id} is currently in progress",
                node,
            )
            try:
                node.kill()
                if self.closing.is_set():
                    return
                node.start_services()
            except Exception as error:  # noqa: BLE001 - no error leaves a node Pending for ever
                node.status, node.message = (
                    "Failure",
                    f"EC2 Instance {node.instance_id} did not boot: {error}",
                )
                return
            node.status, node.message = "Running", ""
            self.rejoin(node)

        self.in_background(work)

    # -- change and end ---------------------------------------------------------------------------

    def update(self, groups: list[dict[str, Any]]) -> None:
        """Scale groups to their new counts. A Continuous cluster stays InService meanwhile."""
        if not self.continuous:
            self.set_status("Updating")
        with self.lock:
            for group in groups:
                self.groups[group["InstanceGroupName"]] = {
                    **self.groups.get(group["InstanceGroupName"], {}),
                    **group,
                }
        self.in_background(self._scale)

    def _scale(self) -> None:
        try:
            failed = self._scaled()
        except Exception as error:
            log.warning("cluster %s could not be scaled", self.name, exc_info=error)
            failed = f"The cluster could not be scaled: {error}"
        if not self.closing.is_set() and not self.continuous:
            self.failure_message = failed
            self.set_status("InService")

    def _scaled(self) -> str:
        """Make and remove instances until each group has its count.

        Returns why an instance failed, if one did.
        """
        for name, group in self.groups.items():
            for node in self.members(name)[group["InstanceCount"] :]:
                with self.lock:
                    self.nodes.pop(node.instance_id, None)
                node.destroy()
        fresh = self.fill_groups()
        self.write_slurm_nodes()
        self._restart_controller()
        failures = [failed for _, failed in launch_all(self, fresh) if failed]
        return str(failures[0]) if failures else ""

    def _restart_controller(self) -> None:
        if controller := self.controller:
            self.kind.restart_controller(self, controller)

    def delete(self, forget: Callable[[], None]) -> None:
        """Kill and remove everything in the background; `forget` is called when nothing is left."""
        self.closing.set()
        self.set_status("Deleting")

        def work() -> None:
            self.close()
            forget()
            # AWS has no event "deleted", but sends state changes more than once. The last one may
            # come when the cluster is gone.
            announce(self)

        threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        """End the cluster's processes and threads, remove its directory; safe to call again."""
        self.end_processes()
        self.kind.closed(self, self.members())
        self.nodes.clear()
        self.ports.give_back(
            [self.slurm.controller_port, *(node.port for node in self.slurm.nodes)]
        )
        self.remove_directory()


def _silence(node: Node) -> str:
    return f"EC2 Instance {node.instance_id} does not answer"
