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
from trainyard.http import cost_views, views
from trainyard_contracts.events import RunSample

RUN, ENDED, COSTLY = (f"run-01jd000000000000000000000{number}" for number in "123")
#: Would run if anything of a job were read as HTML.
SCRIPT = "<img src=x onerror=\"document.title='stolen'\"><script>document.title='stolen'</script>"
NOW: datetime = made.NOW


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


#: (attempt, first step, last step, when it began); twenty seconds a step.
ATTEMPTS = ((1, 0, 60, 120), (2, 50, 140, 1500))


def run(run_id: str = RUN, **changes: Any) -> records.Run:
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
        run(ENDED, name=SCRIPT, status="Failed", outcome="failed", finished_at=at(900),
            reason=SCRIPT, problem=problem, labels={}),
        run(COSTLY, name="bert-finetune", status="Succeeded", outcome="succeeded",
            finished_at=at(4000), reason="Exported and verified"),
    ]  # fmt: skip


def sample(step: int, attempt: int) -> RunSample:
    loss = 0.4 + 5 * math.exp(-step / 40) + 0.12 * math.sin(step * 2.3)
    return RunSample(run_id=RUN, attempt=attempt, job_state="RUNNING", step=step, loss=loss)


def series() -> views.MetricsView:
    found = [
        views.TimedRunSample.model_construct(
            **dict(sample(step, number)), at=at(began + 20 * (step - first))
        )
        for number, first, last, began in ATTEMPTS
        for step in range(first, last)
    ]
    return views.MetricsView.made(nodes={}, run=found, thinned=False, node_count=3)


def events() -> views.EventPage:
    told = [
        ("status", "Submitting", "The cluster is ready"),
        ("fact", "AttemptStarted", "Attempt 1 began on 2 nodes"),
        ("fact", "CheckpointCommitted", "Checkpoint of step 50 is whole"),
        ("fact", "NodeUnhealthy", SCRIPT),
        ("fact", "NodeLost", "Node ip-10-0-0-12 does not answer"),
        ("decision", "Resume", run().incidents[0].reason),
        ("status", "Running", "Attempt 2 trains"),
    ]
    entries = [
        records.TimelineEntry(
            id=f"e{number}", at=at(100 + 230 * number), kind=kind, type=name, message=message,
            attempt=1 + number // 6,
        )
        for number, (kind, name, message) in enumerate(told)
    ]  # fmt: skip
    return views.EventPage.made(events=[views.TimelineEntry.of(one) for one in entries])


def cost(run_id: str = RUN) -> cost_views.RunCostView:
    lines = (("useful", 2900), ("creation", 420), ("start", 60), ("detection", 12),
             ("restart", 173), ("recomputation", 200), ("saving", 40))  # fmt: skip
    ledger = [
        cost_views.LedgerLine.made(cause=c, seconds=s, node_seconds=2 * s, usd=s * 0.0123)
        for c, s in lines
    ]
    span = cost_views.PriceSpan.made(
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


def checkpoints() -> views.CheckpointPage:
    found = [
        records.Checkpoint(step=step, attempt=2, path=f"/fsx/runs/{RUN}/ckpt/step-{step}",
                           bytes=2_400_000_000, files=18, committed_at=at(1500 + 20 * step),
                           status=status, reason=reason)
        for step, status, reason in ((130, "rejected", "model.pt: its hash is another one"),
                                     (120, "whole", ""), (50, "pruned", ""))
    ]  # fmt: skip
    return views.CheckpointPage.made(checkpoints=[views.Checkpoint.of(one) for one in found])


def outputs() -> views.OutputPage:
    key, digest = f"model/{SCRIPT}.safetensors", hashlib.sha256(b"").hexdigest()
    harmful = views.Output.made(key=key, bytes=1, sha256=digest, url="javascript:alert(1)")
    good = views.Output.made(
        key="model/model.safetensors", bytes=512_000_000, sha256=digest,
        url="https://bucket.s3.amazonaws.com/model.safetensors",
    )  # fmt: skip
    return views.OutputPage.made(
        uri="s3://bucket/prefix/", outputs=[good, harmful], source="export", synced_at=None,
        urls_expire_at=None, next_token=None,
    )  # fmt: skip


def shown(found: records.Run) -> views.RunView:
    return views.RunView.of(found, latest=sample(139, 2))


def answers() -> dict[str, Any]:
    """By method and path: a view, or a status and a problem."""
    runs = [run(), *others()]
    of_one: dict[str, Any] = {}
    for one in runs:
        path = f"GET /v1/runs/{one.id}"
        log = views.LogView(kind="job", attempt=2, source="ip-10-0-0-11",
                            text=f"step 138 loss 0.61\n{SCRIPT}\nstep 139 loss 0.6\n")  # fmt: skip
        of_one |= {
            path: shown(one),
            f"{path}/events": events(),
            f"{path}/metrics": series(),
            f"{path}/cost": cost(one.id),
            f"{path}/checkpoints": checkpoints(),
            f"{path}/logs": log,
            f"{path}/outputs": outputs(),
        }
    page = views.RunPage.made(runs=[views.RunSummary.of(one) for one in runs], next_token=None)
    return {"GET /v1/runs": page, **of_one}


class Scene:
    """An API that answers so; a test may change what it answers. ETags are as the API's."""

    def __init__(self) -> None:
        self.answers = answers()
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
        etag = f'"1-{hashlib.sha256(text.encode()).hexdigest()[:16]}"'
        if request.headers.get("if-none-match") == etag:
            return httpx.Response(304, headers={"etag": etag})
        headers = {"content-type": "application/json", "etag": etag}
        return httpx.Response(200, text=text, headers=headers)
