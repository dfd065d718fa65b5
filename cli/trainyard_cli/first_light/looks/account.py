"""What the account itself shows before anything is made."""

from __future__ import annotations

from ..register import look
from ..verdicts import Seen, broken, held, unseen
from ..world import World


@look("A-045", after="account")
def quotas_of_nodes_are_called_as_we_look_for_them(world: World) -> Seen:
    if world.local:
        return unseen("A-045", "the local cloud has no quotas")
    found = [finding for finding in world.findings if finding["check"] == "quotas"]
    unclear = [finding for finding in found if finding["severity"] == "unknown"]
    if unclear:
        return unseen("A-045", unclear[0]["problem"])
    missing = [finding for finding in found if "lists no" in finding["problem"]]
    if missing:
        return broken("A-045", missing[0]["problem"], missing[0]["remedy"])
    types = sorted({group["instanceType"] for group in world.cluster_spec["instanceGroups"]})
    return held("A-045", f"doctor found the quotas of {', '.join(types)}")
