"""Whether events of HyperPod and of our agents come, and are what we read."""

from __future__ import annotations

from ..function_logs import logged
from ..node_reports import stories
from ..register import look
from ..verdicts import Seen, broken, held, unseen
from ..world import World

ON_FACT = "OnFactLogs"


@look("A-042", after="ready")
def nodes_reach_the_services_that_they_call(world: World) -> Seen:
    told = {
        story.stream: story.facts["reached"]
        for story in stories(world)
        if story.facts.get("reached")
    }
    cut = sorted(
        {service for reached in told.values() for service, there in reached.items() if not there}
    )
    if cut:
        return broken(
            "A-042",
            f"nodes could not connect to {', '.join(cut)}",
            (
                "Give the subnets a NAT gateway or interface endpoints for these services "
                "(network.yaml makes them)"
            ),
        )
    if not told:
        return unseen("A-042", "no node told what it reaches")
    return held(
        "A-042", f"{len(told)} nodes connected to {', '.join(sorted(next(iter(told.values()))))}"
    )


@look("A-022", after="ready")
def nodes_may_put_events_on_our_bus(world: World) -> Seen:
    if heard := world.agent_heard_at:
        return held("A-022", f"the controller's agent was heard at {heard}")
    controllers = [story for story in stories(world, "controller") if story.finished]
    if not controllers:
        return unseen(
            "A-022", "the controller's lifecycle scripts did not finish, so its agent never ran"
        )
    return broken(
        "A-022",
        (
            "the controller's lifecycle scripts finished and started the agent, and no event of it "
            "came; the bus's service can be reached"
        ),
        "Look at the agent's log on the controller (/var/log/trainyard); "
        "PutEvents on the bus must be allowed to the node's role, "
        "with events:source trainyard.agent",
    )


@look("A-047", after=("ready", "train"))
def hyperpods_events_have_the_detail_types_that_we_read(world: World) -> Seen:
    if world.described is None:
        return unseen("A-047", "AWS has no such cluster")
    if world.stage == "ready" and world.failure is None:
        return unseen(
            "A-047",
            "logs come later than what they tell: it is looked at after the first checkpoint",
        )
    lines = logged(world, ON_FACT)
    if not lines:
        return unseen("A-047", "on-fact logged nothing, or its log is elsewhere")
    ours = [
        line
        for line in lines
        if line.get("type") == "ClusterState" and line.get("cluster") == world.cluster_name
    ]
    if ours:
        return held("A-047", f"{len(ours)} state changes of the cluster were recorded")
    return broken(
        "A-047",
        (
            f"DescribeCluster says {world.described['ClusterStatus']}, and no state change of the "
            "cluster ever reached on-fact"
        ),
        "Runs go on, since the cluster is asked each minute; "
        "look at the default bus for events of aws.sagemaker and correct "
        "the rules in template.yaml and backends/hyperpod/events.py",
    )


@look("A-017", after=("ready", "export"))
def hyperpods_events_can_be_read(world: World) -> Seen:
    lines = logged(world, ON_FACT)
    if not lines:
        return unseen("A-017", "on-fact logged nothing yet, or its log is elsewhere")
    malformed = sorted(
        {
            str(line.get("reason"))
            for line in lines
            if str(line.get("reason")).startswith("malformed")
        }
    )
    if malformed:
        return broken(
            "A-017",
            f"on-fact dropped events that it could not read: {'; '.join(malformed)}",
            "Report the events' shape; what they would have told is asked for each minute",
        )
    return held("A-017", f"none of {len(lines)} events was malformed")


@look("A-016", after="ready")
def an_event_of_the_cluster_can_be_described(world: World) -> Seen:
    listed = world.asked("sagemaker", "ListClusterEvents", ClusterName=world.cluster_name)
    events = (listed or {}).get("Events") or []
    if not events:
        return unseen("A-016", "AWS lists no event of the cluster")
    found = world.asked(
        "sagemaker",
        "DescribeClusterEvent",
        ClusterName=world.cluster_name,
        EventId=events[0]["EventId"],
    )
    if found is None:
        return broken(
            "A-016",
            "DescribeClusterEvent knows none of the ids that ListClusterEvents gives",
            "Reasons of failures are then in CloudWatch only; correct HyperPod.event_reason",
        )
    metadata = (found["EventDetails"].get("EventDetails") or {}).get("EventMetadata")
    return held(
        "A-016", f"it was described by its EventId, {'with' if metadata else 'without'} metadata"
    )
