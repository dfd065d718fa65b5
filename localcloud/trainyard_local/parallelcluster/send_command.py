"""Systems Manager's SendCommand for instances of clusters: the command runs on the node itself."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult
from moto.ssm.responses import SimpleSystemManagerResponse

from trainyard_local.nodes.node import Node
from trainyard_local.parallelcluster.clusters import Clusters
from trainyard_local.parallelcluster.state import now

DOCUMENT = "AWS-RunShellScript"
#: What GetCommandInvocation keeps of each stream.
STDOUT_CHARACTERS, STDERR_CHARACTERS = 24_000, 8_000
_CUT = "--output truncated--"
#: From SendCommand's answer until GetCommandInvocation knows of the command.
UNSEEN_SECONDS = 0.1
#: Programs of ours lie below the node's own root here.
_OURS = re.compile(r"(?<![\w/.-])/opt/trainyard/")
_AWAITED = ("Pending", "InProgress")


class SsmError(ServiceException):  # type: ignore[misc]
    """An SSM error by its code."""


@dataclass
class Invocation:
    """One command on one instance."""

    node: Node
    lines: list[str]
    delivery_seconds: float
    execution_seconds: float
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    status: str = "Pending"
    details: str = "Pending"
    response: int = -1
    stdout: str = ""
    stderr: str = ""
    sent: float = field(default_factory=time.monotonic)
    began: str = ""
    process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """In a thread."""
        deadline = self.sent + self.delivery_seconds
        while not self.node.connected:
            if time.monotonic() > deadline:
                self._end("TimedOut", "DeliveryTimedOut")
                return
            time.sleep(0.2)
        if self.status == "Cancelled":
            return
        self.status = self.details = "InProgress"
        self.began = now().isoformat()
        script = _OURS.sub(f"{self.node.root}/opt/trainyard/", "\n".join(self.lines))
        pipe = subprocess.PIPE
        process = self.node.start(["/bin/sh", "-c", script], stdout=pipe, stderr=pipe)
        self.process = process
        try:
            out, err = process.communicate(timeout=self.execution_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            self._end("TimedOut", "ExecutionTimedOut")
            return
        if self.status == "Cancelled" or not self.node.powered:
            return  # nobody is there who could tell of the end
        self.response, word = process.returncode, "Failed" if process.returncode else "Success"
        self.stdout, self.stderr = _cut(out, STDOUT_CHARACTERS), _cut(err, STDERR_CHARACTERS)
        self._end(word, word)

    def cancel(self) -> None:
        if self.status in _AWAITED:
            self._end("Cancelled", "Cancelled")
            if self.process is not None:
                self.process.kill()

    def _end(self, status: str, details: str) -> None:
        self.status, self.details = status, details


def _cut(printed: bytes, most: int) -> str:
    text = printed.decode(errors="replace")
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT


class SendCommands:
    """All commands."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._known: dict[str, Invocation] = {}
        self._lock = threading.Lock()

    def send(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request.get("DocumentName") != DOCUMENT:
            raise SsmError("InvalidDocument", f"the local cloud runs {DOCUMENT} only")
        ids = request.get("InstanceIds") or []
        if len(ids) != 1:
            raise SsmError("NotImplemented", "the local cloud takes exactly one of InstanceIds")
        given = request.get("Parameters") or {}
        if unknown := sorted(set(given) - {"commands", "executionTimeout", "workingDirectory"}):
            raise SsmError("InvalidParameters", f"{DOCUMENT} has no parameter {unknown[0]}")
        if not given.get("commands"):
            raise SsmError("InvalidParameters", "Parameter commands is required")
        delivery = request.get("TimeoutSeconds", 3600)
        if not 30 <= delivery <= 2592000:
            raise SsmError(
                "ValidationException",
                f"Value '{delivery}' at 'timeoutSeconds' failed to satisfy constraint: "
                "Member must have value greater than or equal to 30",
            )
        found = self._clusters.instance(ids[0])
        if found is None or not found[1].connected:
            raise SsmError("InvalidInstanceId", "Instances not in a valid state for account")
        seconds = float((given.get("executionTimeout") or ["3600"])[0])
        invocation = Invocation(found[1], list(given["commands"]), delivery, seconds)
        with self._lock:
            self._known[invocation.id] = invocation
        threading.Thread(target=invocation.run, daemon=True, name="send-command").start()
        command = {
            "CommandId": invocation.id,
            "DocumentName": DOCUMENT,
            "InstanceIds": ids,
            "Status": "Pending",
            "StatusDetails": "Pending",
            "RequestedDateTime": now().timestamp(),
            "TargetCount": 1,
            "CompletedCount": 0,
        }
        return {"Command": command}

    def look(self, request: Mapping[str, Any]) -> dict[str, Any]:
        found = self._find(request["CommandId"], request["InstanceId"])
        return {
            "CommandId": found.id,
            "InstanceId": found.node.instance_id,
            "DocumentName": DOCUMENT,
            "Status": found.status,
            "StatusDetails": found.details,
            "ResponseCode": found.response,
            "StandardOutputContent": found.stdout if found.status not in _AWAITED else "",
            "StandardErrorContent": found.stderr if found.status not in _AWAITED else "",
            "ExecutionStartDateTime": found.began,
        }

    def cancel(self, request: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            found = self._known.get(request["CommandId"])
        if found is None:
            raise SsmError("InvalidCommandId", "")
        found.cancel()
        return {}

    def registered(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """DescribeInstanceInformation: every instance whose agent answers."""
        found = [
            {"InstanceId": node.instance_id, "PingStatus": "Online", "PlatformType": "Linux"}
            for cluster in self._clusters.all()
            for node in cluster.members()
            if node.connected
        ]
        wanted = {
            value
            for one in request.get("Filters") or []
            if one.get("Key") == "InstanceIds"
            for value in one.get("Values") or []
        }
        kept = [one for one in found if not wanted or one["InstanceId"] in wanted]
        return {"InstanceInformationList": kept}

    def _find(self, command: str, instance: str) -> Invocation:
        with self._lock:
            found = self._known.get(command)
        early = found is None or time.monotonic() - found.sent < UNSEEN_SECONDS
        if found is None or early or found.node.instance_id != instance:
            raise SsmError("InvocationDoesNotExist", "")
        return found


def install(clusters: Clusters) -> SendCommands:
    """Put the operations on moto's SSM."""
    commands = SendCommands(clusters)
    answers: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
        "send_command": commands.send,
        "get_command_invocation": commands.look,
        "cancel_command": commands.cancel,
        "describe_instance_information": commands.registered,
    }
    for name, answer in answers.items():
        setattr(SimpleSystemManagerResponse, name, _method(answer))
    return commands


def _method(answer: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Callable[[Any], ActionResult]:
    # moto's SSM class parses no parameters by itself.
    return lambda self: ActionResult(answer(json.loads(self.body)))
