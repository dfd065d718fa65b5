"""Which nodes are gone, and how that is known."""

from collections.abc import Iterable

from trainyard_contracts.events import AttemptEnded, Fact, NodeEvidence, NodeLost, NodesChanged


def gone_nodes(change: NodesChanged, names: Iterable[str]) -> set[str]:
    """Those of the names that Slurm no longer had after this change of its list.

    The whole of a long list is stored only for the newest change; an older change has its removals.
    """
    return set(names) - set(change.nodes) if change.nodes else set(names) & set(change.removed)


def evidence_of(fact: Fact) -> list[NodeEvidence]:
    """Every NodeEvidence that a fact carries."""
    if isinstance(fact, NodeLost):
        return [fact.about]
    return list(fact.nodes) if isinstance(fact, AttemptEnded) else []


def is_dead(evidence: NodeEvidence) -> bool:
    """Unreachable is not dead: it takes two independent signals."""
    return evidence.agent == "silent" and evidence.scheduler == "down"
