"""What AWS says of a cluster that is deleted."""

from __future__ import annotations

from trainyard_contracts import places

from ..register import look
from ..verdicts import Seen, broken, held, unseen
from ..world import World


@look("A-012", after="teardown")
def a_deleted_cluster_is_not_found(world: World) -> Seen:
    found = world.described
    if found is None:
        return held("A-012", "DescribeCluster answers ResourceNotFound")
    if found["ClusterStatus"] == "Deleted":
        return broken(
            "A-012",
            (
                "DescribeCluster answers with the status Deleted, where ResourceNotFound was to be "
                "expected"
            ),
            (
                "Trainyard takes that for gone, too; report it, since the service's model has no "
                "such status"
            ),
        )
    return unseen("A-012", f"the cluster is {found['ClusterStatus']}")


@look("A-049", after="nothing-left")
def a_secret_is_gone_a_while_after_its_deletion(world: World) -> Seen:
    prefix = places.secret_prefix(world.account.stack_name)
    name = places.agent_key_secret(prefix, world.cluster_name)
    found = world.asked("secretsmanager", "DescribeSecret", SecretId=name)
    if found is None:
        return held("A-049", "the secret is not found any more")
    if found.get("DeletedDate"):
        return held("A-049", "the secret is still told of, with the date of its deletion")
    return unseen("A-049", "the secret is not deleted")
