"""GET /v1/runs/{id}/logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.runs.read_logs import read_logs
from trainyard.app.runs.whose_logs import Whose
from trainyard.http.answers import answer, documented
from trainyard.http.identifiers import RunPath
from trainyard.http.identifiers import run_id as known
from trainyard.http.paging import WholeNumber
from trainyard.http.run_verbs import TAGS
from trainyard.http.timeline_views import LogView
from trainyard.ports import Ports
from trainyard_contracts.base import told
from trainyard_contracts.commands import ALL_RANKS, HIGHEST_RANK, LONGEST_SECONDS, NODE_NAME

AttemptAsked = Annotated[
    WholeNumber | None, Query(ge=1, le=1_000_000, description="default: the newest")
]
Lines = Annotated[WholeNumber, Query(ge=1, le=1000)]
Kind = Literal["job", "lifecycle"]
Contains = Annotated[
    str,
    Query(max_length=100, description="only lines with this text, wherever in the log"),
]
SinceSeconds = Annotated[
    WholeNumber | None,
    Query(
        alias="sinceSeconds",
        ge=1,
        le=LONGEST_SECONDS,
        description="only what was printed in so many last seconds, of an ended attempt "
        "before its end; some seconds more may come with it",
    ),
]
RankAsked = Annotated[
    WholeNumber | None,
    Query(
        ge=0,
        le=HIGHEST_RANK,
        description="only what this rank printed; the job's launchers print elsewhere",
    ),
]
NodeAsked = Annotated[
    str | None,
    Query(
        pattern=told(
            f"^{NODE_NAME.pattern}$",
            "must be the name of a Slurm node as the run shows it, such as ip-10-0-0-3",
        ),
        description="only what the ranks of this node printed, `lines` of each below a "
        "line such as `==> rank 3 on ip-10-0-0-3 <==`",
    ),
]


def log(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/runs/<runId>/logs",
        tags=TAGS,
        operation_id="getRunLog",
        summary="The tail of the job's or the lifecycle script's log",
        responses=documented(200, LogView, "The tail", 404, 409, 429, 502, 503),
    )
    def logs(
        run_id: RunPath,
        attempt: AttemptAsked = None,
        lines: Lines = 100,
        kind: Kind = "job",
        contains: Contains = "",
        since_seconds: SinceSeconds = None,
        rank: RankAsked = None,
        node: NodeAsked = None,
    ) -> Response[str]:
        found = read_logs(
            ports(),
            known(ports(), run_id),
            kind=kind,
            attempt=attempt,
            lines=lines,
            contains=contains,
            since_seconds=since_seconds or 0,
            whose=Whose(ALL_RANKS if rank is None else rank, node or ""),
        )
        return answer(
            LogView(kind=found.kind, attempt=found.attempt, source=found.source, text=found.text)
        )
