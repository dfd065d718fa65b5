"""What training, a replaced node and the export show of Slurm, HyperPod and S3."""

from __future__ import annotations

from ..node_reports import stories
from ..register import look
from ..verdicts import Seen, broken, held, unseen
from ..world import Json, World


@look("A-019", after=("create", "ready", "export"))
def the_nodes_role_needs_no_more(world: World) -> Seen:
    refused = [
        line
        for story in stories(world)
        for line in story.lines
        if "AccessDenied" in line or "not authorized to perform" in line
    ]
    if refused:
        return broken(
            "A-019",
            f"a node was refused: {refused[0]}",
            "Add the action to backends/hyperpod/role.py and to NodeBoundary in template.yaml",
        )
    if (world.run or {}).get("export", {}).get("state") == "verified":
        return held(
            "A-019",
            "scripts, secret, events, job bundle and export went through under the cluster's role",
        )
    done = sum(story.finished for story in stories(world))
    return (
        held("A-019", f"scripts and secret were read on {done} nodes")
        if done
        else unseen("A-019", "no node came so far")
    )


@look("A-014", after="resume")
def replacing_tells_each_node_apart(world: World) -> Seen:
    if world.disturbed is None:
        return unseen("A-014", f"no node was replaced: {world.failure}")
    return held(
        "A-014",
        "BatchReplaceClusterNodes named the one node as successful; a call of 26 was not tried",
    )


@look("A-039", after=("resume", "export"))
def a_replacement_is_another_instance(world: World) -> Seen:
    before = world.disturbed
    if before is None:
        return unseen("A-039", "no node was replaced")
    now = {node["instanceId"]: node for node in world.nodes if node["group"] == before["group"]}
    if before["instanceId"] in now and now[before["instanceId"]]["status"] == "Running":
        return unseen("A-039", "the old instance still runs")
    names = [node.get("name") for node in now.values()]
    kept = (
        "has the name and address of the old one"
        if before.get("name") in names
        else "has not come yet, or has another name"
    )
    return held("A-039", f"the old instance is gone; the new one {kept}")


@look("A-023", after="export")
def s3_keeps_the_checksum_that_was_sent(world: World) -> Seen:
    found = _exported(world)
    if found is None:
        return unseen("A-023", "nothing was exported")
    answer = world.account.call("s3", "HeadObject", **found, ChecksumMode="ENABLED")
    if answer.get("ChecksumSHA256"):
        return held("A-023", f"HEAD answers with the SHA-256 of {found['Key'].rpartition('/')[2]}")
    return broken(
        "A-023",
        (
            f"HEAD of {found['Key'].rpartition('/')[2]} answers without a SHA-256, though it was "
            "sent with one"
        ),
        (
            "Look at the bucket's encryption: with a KMS key, kms:Decrypt is needed to be told a "
            "checksum; exports are sent twice and not verified so"
        ),
    )


def _exported(world: World) -> Json | None:
    """Where one exported object lies."""
    run = world.run
    if run is None:
        return None
    bucket = world.account.outputs["DataBucketName"]
    page = world.account.call(
        "s3", "ListObjectsV2", Bucket=bucket, Prefix=f"{run['objectsPrefix']}/export/"
    )
    keys = sorted(str(one["Key"]) for one in page.get("Contents") or [])
    return {"Bucket": bucket, "Key": keys[0]} if keys else None


@look("A-050", after="export")
def the_tables_conditions_order_all_writes(world: World) -> Seen:
    run = world.run
    if run is None or run["status"] != "Succeeded":
        return unseen("A-050", "no run came to its end")
    ids = [entry["id"] for entry in world.timeline()]
    if len(set(ids)) < len(ids):
        return broken(
            "A-050",
            "an entry of the run's timeline is there twice",
            "Look at the table's conditional writes (aws/table.py)",
        )
    return held(
        "A-050",
        f"the run came to its end, and each of {len(ids)} entries of its timeline was written once",
    )


@look("A-051", after="export")
def state_machines_wait_by_token(world: World) -> Seen:
    run = world.run
    if run is None or run["status"] != "Succeeded":
        return unseen("A-051", "no run came to its end")
    return held(
        "A-051", "the run's machine waited for the cluster's facts by tokens, and was woken"
    )
