"""A cluster that others made: what Trainyard put there, or would."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import Field

from trainyard.app.clusters.adopt_cluster import AdoptionPlan
from trainyard.domain import records
from trainyard.http.views import View
from trainyard_contracts.cluster_specs import ClusterSpec


class AdoptedNode(View):
    """How far the agent is on one node of a cluster that others made."""

    group: str
    state: Literal["asked", "installing", "installed", "failed"]
    at: datetime = Field(description="when the node was last asked")
    tries: int = Field(description="how many of them failed, one after the other")
    reason: str = Field(description="why the newest one failed, or could not be undone")


class Adoption(View):
    """Of a cluster that others made. It is never deleted by Trainyard, only released."""

    replace_nodes: bool = Field(description="Trainyard may replace and reboot its nodes")
    nodes: dict[str, AdoptedNode] = Field(
        description="by instance id: nodes that may have anything of Trainyard's"
    )
    lacking: int | None = Field(
        description="nodes that run and still wait for the agent; null = not known yet"
    )
    left: list[str] = Field(description="what a release had to leave behind")

    @classmethod
    def of_record(cls, adoption: records.Adoption | None) -> Self | None:
        if adoption is None:
            return None
        return cls.of(
            adoption, nodes={key: AdoptedNode.of(one) for key, one in adoption.nodes.items()}
        )


#: A cluster that others made is never deleted: these are its words for the same.
RELEASED: dict[str, str] = {"Deleting": "Releasing", "Deleted": "Released"}


class AdoptionPlanView(View):
    """What an adoption would mean; nothing was done."""

    spec: ClusterSpec = Field(description="the cluster, as Trainyard would treat it")
    roles: list[str] = Field(description="of its nodes; each must allow what policy says")
    policy: dict[str, Any] = Field(
        description="a policy of IAM: what agent and jobs need besides what nodes need anyway"
    )

    @classmethod
    def of_plan(cls, plan: AdoptionPlan) -> Self:
        return cls.made(spec=plan.cluster.spec, roles=list(plan.roles), policy=dict(plan.policy))
