"""Answers for the web console's tests, made by the API's own classes; job texts are hostile."""

from __future__ import annotations

import hashlib
import json
import math
from datetime import datetime, timedelta
from typing import Any

import httpx
from pydantic import BaseModel
from tests.support import records as made

from trainyard.domain import records
from trainyard.http import (
    approvals,
    cluster_cost_views,
    cluster_summaries,
    cluster_views,
    cost_totals,
    cost_views,
    curve_views,
    export_views,
    metrics_views,
    node_views,
    output_views,
    people,
    plan_views,
    price_views,
    run_summaries,
    run_views,
    timeline_views,
)
from trainyard_contracts.events import RunSample
from trainyard_contracts.people import Person

RUN, ENDED, COSTLY = (f"run-01jd000000000000000000000{number}" for number in "123")
#: Would run if anything of a job were read as HTML.
SCRIPT = "<img src=x onerror=\"document.title='stolen'\"><script>document.title='stolen'</script>"
NOW: datetime = made.NOW


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


#: (attempt, first step, last step, when it began); twenty seconds a step.
ATTEMPTS = ((1, 0, 60, 120), (2, 50, 140, 1500))


def a_run_of_two(run_id: str = RUN, **changes: Any) -> records.Run:
    nodes = ["ip-10-0-0-11", "ip-10-0-0-12"]
    attempts = [
        records.Attempt(
            number=number,
            submitted_at=at(began - 20),
            started_at=at(began),
            first_step_at=at(began + 5),
            job_id=str(number),
            nodes=nodes if number == 1 else [nodes[0], "ip-10-0-0-13"],
            ended_at=at(1330) if number == 1 else None,
            outcome="lost" if number == 1 else None,
            began_with="" if number == 1 else "step 50",
        )
        for number, _, _, began in ATTEMPTS
    ]
    incident = records.Incident(
        cause="node-lost",
        attempt=1,
        fact_id="f1",
        started_at=at(1320),
        resumed_at=at(1505),
        actions=["exclude"],
        node="ip-10-0-0-12",
        reason="Node ip-10-0-0-12 is lost: its agent is silent and Slurm says that it does not "
        "respond. The run goes on on the spare from step 50.",
    )
    kept: dict[str, Any] = {
        "id": run_id,
        "name": "llm-pretrain",
        "status": "Running",
        "labels": {"team": "vision", "exp": "7"},
        "attempts": attempts,
        "incidents": [incident],
        "reason": "Training on 2 nodes, attempt 2",
        **changes,
    }
    found: records.Run = made.run(**kept)
    return found


def others() -> list[records.Run]:
    problem = records.Problem(
        code="user-error", title="The program failed", detail=SCRIPT, next_step="Mend train.py"
    )
    return [
        a_run_of_two(ENDED, name=SCRIPT, status="Failed", outcome="failed", finished_at=at(900),
            reason=SCRIPT, problem=problem, labels={}),
        a_run_of_two(COSTLY, name="bert-finetune", status="Succeeded", outcome="succeeded",
            finished_at=at(4000), reason="Exported and verified"),
    ]  # fmt: skip


def sample(step: int, attempt: int) -> RunSample:
    loss = 0.4 + 5 * math.exp(-step / 40) + 0.12 * math.sin(step * 2.3)
    return RunSample(run_id=RUN, attempt=attempt, job_state="RUNNING", step=step, loss=loss)


def series(request: httpx.Request) -> metrics_views.MetricsView:
    """The run's losses, or what it reported under the name that is asked for."""
    asked = request.url.params.get("name", "loss")
    steps = [
        (number, step, at(began + 20 * (step - first)))
        for number, first, last, began in ATTEMPTS
        for step in range(first, last)
    ]
    run = [
        metrics_views.TimedRunSample.model_construct(**dict(sample(step, number)), at=when)
        for number, step, when in steps
    ]
    points = [
        curve_views.CurvePoint.made(
            at=when, attempt=number, step=step,
            value=sample(step, number).loss if asked == "loss" else step / 200,
        )
        for number, step, when in steps if asked in ("loss", "accuracy")
    ]  # fmt: skip
    names = [
        curve_views.CurveName.made(
            name=name, reports=139, not_finite=0, last=0.6, lowest=0.4, highest=5.2
        )
        for name in ("loss", "accuracy", SCRIPT)
    ]
    return metrics_views.MetricsView.made(
        nodes={}, run=run, thinned=False, node_count=3, name=asked, points=points, names=names,
        names_left_out=0,
    )  # fmt: skip


def events() -> timeline_views.EventPage:
    told = [
        ("status", "Submitting", "The cluster is ready"),
        ("fact", "AttemptStarted", "Attempt 1 began on 2 nodes"),
        ("fact", "CheckpointCommitted", "Checkpoint of step 50 is whole"),
        ("fact", "NodeUnhealthy", SCRIPT),
        ("fact", "NodeLost", "Node ip-10-0-0-12 does not answer"),
        ("decision", "Resume", a_run_of_two().incidents[0].reason),
        ("status", "Running", "Attempt 2 trains"),
    ]
    entries = [
        records.TimelineEntry(
            id=f"e{number}", at=at(100 + 230 * number), kind=kind, type=name, message=message,
            attempt=1 + number // 6,
        )
        for number, (kind, name, message) in enumerate(told)
    ]  # fmt: skip
    return timeline_views.EventPage.made(
        events=[timeline_views.TimelineEntry.of(one) for one in entries]
    )


def many_events(begin: int, end: int, most: int) -> timeline_views.EventPage:
    """A page of a long timeline; its token is where the next one begins."""
    entries = [
        records.TimelineEntry(
            id=f"e{number}", at=at(number), kind="fact", type="CheckpointCommitted",
            message=f"Entry {number}",
        )
        for number in range(begin, end)
    ]  # fmt: skip
    token = str(end) if end < most else None
    found = [timeline_views.TimelineEntry.of(one) for one in entries]
    return timeline_views.EventPage.made(events=found, next_token=token)


def cost(run_id: str = RUN) -> cost_views.RunCostView:
    lines = (("useful", 2900), ("creation", 420), ("start", 60), ("detection", 12),
             ("restart", 173), ("recomputation", 200), ("saving", 40))  # fmt: skip
    ledger = [
        price_views.LedgerLine.made(cause=c, seconds=s, node_seconds=2 * s, usd=s * 0.0123)
        for c, s in lines
    ]
    span = price_views.PriceSpan.made(
        since=at(0),
        until=at(3800),
        ended=False,
        hourly_usd=44.28,
        source="list",
        nodes=4,
        share=1.0,
    )
    total = sum(line.usd or 0 for line in ledger)
    return cost_views.RunCostView.made(
        run_id=run_id, usd=total, reason="", at=at(3800), final=False, node_seconds=7610,
        prices=[span], ledger=ledger, budget=None,
    )  # fmt: skip


def checkpoints() -> export_views.CheckpointPage:
    found = [
        records.Checkpoint(step=step, attempt=2, path=f"/fsx/runs/{RUN}/ckpt/step-{step}",
                           bytes=2_400_000_000, files=18, committed_at=at(1500 + 20 * step),
                           status=status, reason=reason)
        for step, status, reason in ((130, "rejected", "model.pt: its hash is another one"),
                                     (120, "whole", ""), (50, "pruned", ""))
    ]  # fmt: skip
    return export_views.CheckpointPage.made(
        checkpoints=[export_views.Checkpoint.of(one) for one in found]
    )


def outputs() -> output_views.OutputPage:
    key, digest = f"model/{SCRIPT}.safetensors", hashlib.sha256(b"").hexdigest()
    harmful = output_views.Output.made(key=key, bytes=1, sha256=digest, url="javascript:alert(1)")
    good = output_views.Output.made(
        key="model/model.safetensors", bytes=512_000_000, sha256=digest,
        url="https://bucket.s3.amazonaws.com/model.safetensors",
    )  # fmt: skip
    return output_views.OutputPage.made(
        uri="s3://bucket/prefix/", outputs=[good, harmful], source="export", synced_at=None,
        urls_expire_at=None, next_token=None,
    )  # fmt: skip


def shown(found: records.Run) -> run_views.RunView:
    return run_views.RunView.of(found, latest=sample(139, 2))


def nodes() -> node_views.NodeList:
    """Twelve hundred, of which some are in trouble."""
    found = [
        records.ClusterNode(
            instance_id=f"i-{number:017x}",
            group="workers",
            role="worker",
            instance_type="ml.p5.48xlarge",
            status="Running" if number % 90 else "Pending",
            message=SCRIPT if number == 1 else "",
            name=f"ip-10-0-{number // 250}-{number % 250}",
            agent="silent" if number % 200 == 7 else "linked",
            scheduler="allocated" if number % 3 else "idle",
            sample={"at": at(3790).isoformat(), "cpuPercent": 31.5, "memoryUsedBytes": 2**30,
                    "memoryTotalBytes": 2**32, "gpus": []},
        )
        for number in range(1200)
    ]  # fmt: skip
    return node_views.NodeList.of_nodes(found)


def of_clusters() -> dict[str, Any]:
    ready = made.cluster(ready_at=at(420), last_used_at=at(3700), last_heartbeat_at=at(3790))
    making = made.cluster(name="demo-2", status="Creating", owner_run=RUN)
    span = cost().prices
    share = cluster_cost_views.ClusterShare.made(run_id=RUN, usd=46.8)
    money = cluster_cost_views.ClusterCostView.made(
        cluster_name="demo-1", usd=61.2, reason="", at=at(3800), node_seconds=15200, prices=span,
        runs=[share], idle_usd=14.4,
    )  # fmt: skip
    found: dict[str, Any] = {
        "GET /v1/clusters": cluster_summaries.ClusterPage.made(
            clusters=[cluster_summaries.ClusterSummary.of(one) for one in (ready, making)],
            next_token=None,
        )
    }
    for one, its in ((ready, nodes()), (making, node_views.NodeList.of_nodes([]))):
        path = f"GET /v1/clusters/{one.name}"
        found |= {
            path: cluster_views.ClusterView.of(one),
            f"{path}/nodes": its,
            f"{path}/cost": money,
        }
    return found


def totals() -> cost_totals.CostTotals:
    rows = [
        cost_totals.CostTotal.made(
            key=key, runs=runs, usd=usd, unpriced=0, useful_usd=usd * 0.8, node_seconds=9e4
        )
        for key, runs, usd in (("ann", 12, 812.5), (SCRIPT, 3, 120.25), ("", 1, 4.5))
    ]
    return cost_totals.CostTotals.made(by="owner", at=at(3800), totals=rows, left_out=False)


def audit() -> people.AuditPage:
    ann = person("ann")
    entries = [
        people.AuditEntryView.made(
            id=f"a{number}", at=at(60 * number), who=who, what=what, subject=subject, reason=reason,
            source_ip=None, user_agent=None, outcome=outcome, detail="",
        )
        for number, (who, what, subject, reason, outcome) in enumerate([
            (ann, "run.cancel", f"run/{RUN}", SCRIPT, "done"),
            (None, "cluster.delete", "cluster/demo-1", "idle for an hour", "decided"),
            (ann, "node.replace", "node/demo-1/i-1", "", "refused"),
        ])
    ]  # fmt: skip
    return people.AuditPage.made(entries=entries, next_token=None)


def person(name: str) -> Person:
    arn = f"arn:aws:iam::111122223333:user/{name}"
    return Person(id=f"AIDA{name}", arn=arn, account="111122223333", name=name, kind="user")


def waiting() -> approvals.ApprovalPage:
    """One that waits for its second word, and one that was denied."""
    vote = approvals.VoteView.made(by=person("bob"), at=at(30), reason=SCRIPT)
    found = [
        approvals.ApprovalView.made(
            id=f"apr-01jd000000000000000000000{number}-1", action="run.begin",
            subject=f"run/{run}", run_id=run, run_name=name, because=SCRIPT, usd=usd,
            requester=person("ann"), needed=2, approvers=[vote], denied=denied, state=state,
            created_at=at(0), expires_at=at(90000), decided_at=None,
        )
        for number, (run, name, usd, denied, state) in enumerate([
            (RUN, "llm-pretrain", 812.5, None, "pending"), (ENDED, SCRIPT, None, vote, "denied"),
        ])
    ]  # fmt: skip
    return approvals.ApprovalPage.made(approvals=found, next_token=None)


def plan() -> plan_views.PlanView:
    return plan_views.PlanView(
        operation="CreateCluster", request={"ClusterName": SCRIPT}, files={"job.sh": 812},
        batch_script=f"#!/bin/bash\n# {SCRIPT}\n", hourly_usd=44.28, warnings=[SCRIPT],
        backend="hyperpod", expected_usd=22.14, most_usd=177.12,
    )  # fmt: skip


def submitted(request: httpx.Request) -> Any:
    """The plan of a dry run, a new run, or what is wrong with the spec."""
    if b"wrong" in request.content:
        error = {"field": "job.nodes", "message": f"must be 1 or more, not {SCRIPT}"}
        problem = {"title": "The spec is not valid", "detail": "1 field is wrong", "status": 422}
        return httpx.Response(422, json={**problem, "errors": [error]})
    if request.url.query == b"dryrun=true":
        return plan()
    return httpx.Response(202, json={"id": RUN, "warnings": []})


def answers() -> dict[str, Any]:
    """By method and path: a view, or a status and a problem."""
    runs = [a_run_of_two(), *others()]
    of_one: dict[str, Any] = {}
    for one in runs:
        path = f"GET /v1/runs/{one.id}"
        log = timeline_views.LogView(kind="job", attempt=2, source="ip-10-0-0-11",
                            text=f"step 138 loss 0.61\n{SCRIPT}\nstep 139 loss 0.6\n")  # fmt: skip
        of_one |= {
            path: shown(one),
            f"{path}/events": events(),
            f"{path}/metrics": series,
            f"{path}/cost": cost(one.id),
            f"{path}/checkpoints": checkpoints(),
            f"{path}/logs": log,
            f"{path}/outputs": outputs(),
        }
    page = run_summaries.RunPage.made(
        runs=[run_summaries.RunSummary.of(one) for one in runs], next_token=None
    )
    return {
        "GET /v1/runs": page,
        "GET /v1/costs": totals(),
        "GET /v1/audit": audit(),
        "GET /v1/approvals": waiting(),
        "GET /v1/whoami": people.WhoamiView.made(
            person=person("ann"), role="member", everybody_is_admin=False
        ),
        "POST /v1/runs": submitted,
        **of_one,
        **of_clusters(),
    }


class Scene:
    """An API that answers so; a test may change what it answers. ETags are as the API's.

    `words` stand in place of the hostile text, for pictures.
    """

    def __init__(self) -> None:
        self.answers = answers()
        self.words = json.dumps(SCRIPT)[1:-1]
        self.requests: list[httpx.Request] = []

    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self.answer)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        found = self.answers.get(f"{request.method} {request.url.path}")
        if callable(found):
            found = found(request)
        if found is None:
            problem = {"title": "Not found", "detail": request.url.path, "status": 404}
            return httpx.Response(404, json=problem)
        if isinstance(found, httpx.Response):
            return found
        text = found.model_dump_json(by_alias=True) if isinstance(found, BaseModel) else found
        if not isinstance(text, str):
            text = json.dumps(text)
        text = text.replace(json.dumps(SCRIPT)[1:-1], self.words)
        etag = f'"1-{hashlib.sha256(text.encode()).hexdigest()[:16]}"'
        if request.headers.get("if-none-match") == etag:
            return httpx.Response(304, headers={"etag": etag})
        headers = {"content-type": "application/json", "etag": etag}
        return httpx.Response(200, text=text, headers=headers)
