"""Facts for tests, by their class's name; fields that nobody cares about have true values."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from trainyard.domain.facts import CLASSES
from trainyard_contracts.events import AgentEvent, Fact

_AGENT = {"clusterName": "demo-1", "clusterArn": "arn:c/1"}
_RUN = {"runId": "run-1", "jobId": "1"}
#: What a class needs that tests leave out, in camelCase.
_NEEDED: dict[str, dict[str, Any]] = {
    "ClusterReady": {"nodes": []},
    "AttemptStarted": {"nodes": []},
    "AttemptStepped": {"step": 1},
    "AttemptEnded": {"outcome": "failed"},
    "CheckpointCommitted": {"path": "checkpoints/1", "bytes": 1, "files": 1, "step": 1},
    "CheckpointRejected": {"path": "checkpoints/1", "reason": "torn", "step": 1},
    "NodesChanged": {"nodes": []},
}


def fact(
    type_: str | type[Fact], identity: str, at: datetime, attempt: int | None = None, **data: Any
) -> Fact:
    """`data` in camelCase, as agents send it; an agent's id is made as long as a ULID."""
    name = type_ if isinstance(type_, str) else type_.__name__
    cls = CLASSES[name]
    given: dict[str, Any] = {**_NEEDED.get(name, {}), **data, "id": identity, "at": at}
    if issubclass(cls, AgentEvent):
        given = {
            **_AGENT,
            **_RUN,
            "steppedAt": at,
            "committedAt": at,
            **given,
            "id": identity.rjust(26, "0"),
        }
    if attempt is not None:
        given["attempt"] = attempt
    return cls.model_validate(given)


def answering(node: str, instance_id: str = "") -> dict[str, str]:
    """NodeEvidence of a node that is well, as agents send it."""
    return {"node": node, "instanceId": instance_id, "agent": "linked", "scheduler": "up"}
