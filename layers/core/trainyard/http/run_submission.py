"""POST /v1/runs: submit a run, or see what it would do."""

from __future__ import annotations

from collections.abc import Callable

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.runs.dry_run import dry_run_run
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.dry_runs import DryRun
from trainyard.http.identifiers import IdempotencyKey
from trainyard.http.plan_views import PlanView
from trainyard.http.run_verbs import TAGS, accepted
from trainyard.http.run_views import RunView
from trainyard.ports import Ports
from trainyard_contracts.specs import RunSpec


def submission(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/runs",
        tags=TAGS,
        operation_id="submitRun",
        summary="Submit a run, or with dryrun=true see exactly what it would do",
        responses=documented(
            202, RunView, "Accepted; follow the run", 403, 409, 413, 415, 422, also={200: PlanView}
        ),
    )
    def submit(
        spec: RunSpec,
        dryrun: DryRun = False,
        idempotency_key: IdempotencyKey = None,
    ) -> Response[str]:
        asker = asking(router, ports)
        if dryrun:
            return answer(PlanView.of_plan(dry_run_run(ports(), spec, by=asker.person)))
        run = asker.submit_run(spec, idempotency_key=idempotency_key)
        return accepted(ports(), run)
