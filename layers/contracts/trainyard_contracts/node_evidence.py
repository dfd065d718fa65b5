"""What is known of a node when it is reported."""

from typing import Any, ClassVar, Literal

from pydantic import model_validator

from .base import Lenient
from .event_bases import AgentEvent


class NodeEvidence(Lenient):
    """What the controller's agent knew of a node when it reported: two independent signals."""

    node: str
    instance_id: str = ""
    agent: Literal["linked", "silent", "unknown"]
    scheduler: Literal["up", "down", "unknown"]
    detail: str = ""


class NodeEvent(AgentEvent):
    """An event about one node. `node` is who reports, as in every agent event: the controller."""

    about: NodeEvidence

    #: Where older agents and stored facts have the evidence, and where the node's name alone.
    older_evidence: ClassVar[str] = ""
    older_name: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "about" in given:
            return given
        if isinstance(evidence := given.get(cls.older_evidence), dict):
            return {**given, "about": evidence}
        if isinstance(name := given.get(cls.older_name), str):
            known = {"instanceId": given.get("instanceId", ""), "agent": "linked"}
            return {**given, "about": {"node": name, "scheduler": "unknown", **known}}
        return given
