"""The tools that read: nothing is changed by them, and no text is longer than a model can read."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from trainyard_sdk.client import Client, Json

from ..times import moment
from .tools import Arguments, Tool

Run = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="id of the run, the beginning of one, a name that one run has, or latest",
    ),
]
Cluster = Annotated[str, Field(min_length=1, max_length=200, description="name of the cluster")]
Since = Annotated[
    str | None,
    Field(description="only what was created since then: 2d, 12h, 2026-11-01"),
]
AtMost = Annotated[int, Field(ge=1, le=100, description="at most so many, newest first")]
Seconds = Annotated[int | None, Field(ge=1, le=86400 * 14, description="of the last so many")]
Spec = Annotated[
    dict[str, Any],
    Field(description="a run's spec, the fields of RunSpec in docs/reference/specs.md"),
]
#: Of a series so many points are shown, its first and its newest among them.
POINTS = 60
#: Attempts and incidents, the newest; there may be hundreds.
NEWEST = 20


class ListRuns(Arguments):
    status: list[str] | None = Field(None, description="only these, such as Running and Failed")
    name: str | None = Field(None, description="only of this name; * at its end for any letters")
    label: list[str] | None = Field(None, description="only with all of these, KEY or KEY=VALUE")
    cluster: str | None = Field(None, description="only on the cluster of this name")
    since: Since = None
    mine: bool = Field(False, description="only runs of the person whose credentials these are")
    at_most: AtMost = 20


def list_runs(client: Client, asked: ListRuns) -> Json:
    runs = client.runs(
        at_most=asked.at_most,
        status=",".join(asked.status) if asked.status else None,
        name=asked.name,
        label=asked.label,
        cluster=asked.cluster,
        since=moment(asked.since) if asked.since else None,
        mine="true" if asked.mine else None,
    )
    return {"runs": runs}


class ShowRun(Arguments):
    run: Run
    timeline_entries: int = Field(
        40, ge=0, le=200, description="so many entries of the timeline, the newest"
    )


def show_run(client: Client, asked: ShowRun) -> Json:
    found = client.run(asked.run)
    for name in ("attempts", "incidents"):
        found[name] = found.get(name, [])[-NEWEST:]
    # By the id: 'latest' may be another one by now.
    events = client.events(found["id"]) if asked.timeline_entries else []
    shown = [
        {name: event.get(name) for name in ("at", "kind", "type", "message", "attempt")}
        for event in events[-asked.timeline_entries :]
    ]
    return {"run": found, "timeline": shown, "timelineLeftOut": len(events) - len(shown)}


class TailLogs(Arguments):
    run: Run
    lines: int = Field(100, ge=1, le=1000, description="so many lines, the newest")
    contains: str | None = Field(None, description="only lines with this text")
    since_seconds: Seconds = None
    attempt: int | None = Field(None, ge=1, description="of this attempt; default: the newest")
    rank: int | None = Field(None, ge=0, description="only what this rank printed")
    node: str | None = Field(None, description="only what the ranks of this node printed")
    kind: str = Field(
        "job", description="job: of the program; lifecycle: of the scripts that set up nodes"
    )


def tail_logs(client: Client, asked: TailLogs) -> Json:
    found = client.logs(
        asked.run,
        lines=asked.lines,
        contains=asked.contains,
        since_seconds=asked.since_seconds,
        attempt=asked.attempt,
        rank=asked.rank,
        node=asked.node,
        kind=asked.kind,
    )
    return {**found, "text": found["text"].splitlines()}


class RunMetrics(Arguments):
    run: Run
    since_seconds: int = Field(
        3600, ge=1, le=86400 * 7, description="of the last so many; the points are of all its time"
    )
    name: str | None = Field(
        None, max_length=100, description="whose points, as `names` lists them; default: the loss"
    )


def run_metrics(client: Client, asked: RunMetrics) -> Json:
    found = client.metrics(asked.run, since_seconds=asked.since_seconds, name=asked.name)
    series = found.get("run", [])
    points = found.get("points", [])
    return {
        "name": found.get("name", "loss"),
        "points": thinned(points),
        "pointsFound": len(points),
        "names": found.get("names", []),
        "run": thinned(series),
        "runPoints": len(series),
        "newestOfNodes": {name: samples[-1:] for name, samples in found.get("nodes", {}).items()},
    }


def thinned(series: list[Json]) -> list[Json]:
    """At most POINTS of it, evenly, the first and the newest among them."""
    if len(series) <= POINTS:
        return series
    return [series[round(n * (len(series) - 1) / (POINTS - 1))] for n in range(POINTS)]


class OfRun(Arguments):
    run: Run


class OfCluster(Arguments):
    cluster: Cluster


class ListClusters(Arguments):
    status: list[str] | None = Field(None, description="only these, such as Ready and Creating")
    at_most: AtMost = 20


def list_clusters(client: Client, asked: ListClusters) -> Json:
    status = ",".join(asked.status) if asked.status else None
    return {"clusters": client.clusters(at_most=asked.at_most, status=status)}


def list_nodes(client: Client, asked: OfCluster) -> Json:
    return {"nodes": client.nodes(asked.cluster)}


class Costs(Arguments):
    by: str = Field("owner", description="owner, cluster, run, or label:KEY such as label:team")
    since: Since = None


def costs(client: Client, asked: Costs) -> Json:
    return client.costs(by=asked.by, since=moment(asked.since) if asked.since else None)


class OfSpec(Arguments):
    spec: Spec


READING: tuple[Tool[Any], ...] = (
    Tool(
        "list_runs",
        "Runs, newest first: status, reason, cluster, owner, cost.",
        ListRuns,
        list_runs,
    ),
    Tool(
        "show_run",
        "One run: its spec, status and the reason for it, attempts, incidents, checkpoint, "
        "problem with its next step, and the newest entries of its timeline, which say what was "
        "decided and why.",
        ShowRun,
        show_run,
    ),
    Tool("tail_logs", "The newest lines that a run printed.", TailLogs, tail_logs),
    Tool(
        "run_metrics",
        "The loss of a run, or another number that it reported, of all its time; its newest steps "
        f"and the newest sample of each node. At most {POINTS} points of each.",
        RunMetrics,
        run_metrics,
    ),
    Tool(
        "run_cost",
        "What a run has cost so far, and what its time was for: useful, lost, waited.",
        OfRun,
        lambda client, asked: client.run_cost(asked.run),
    ),
    Tool("costs", "What runs cost, added up by owner, cluster, run or label.", Costs, costs),
    Tool("list_clusters", "Clusters, newest first.", ListClusters, list_clusters),
    Tool(
        "show_cluster",
        "One cluster: its spec, status and the reason for it.",
        OfCluster,
        lambda client, asked: client.cluster(asked.cluster),
    ),
    Tool("list_nodes", "The nodes of a cluster, with their state and load.", OfCluster, list_nodes),
    Tool(
        "plan_run",
        "A dry run: what submitting a spec would do, with its price and warnings. Nothing is done.",
        OfSpec,
        lambda client, asked: client.plan_run(asked.spec),
    ),
)
