"""/v1/uploads: directories that become the working directory of runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.runs.uploads import show_upload
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.identifiers import UploadPath
from trainyard.http.identifiers import upload_id as known
from trainyard.ports import Ports
from trainyard_contracts.trees import Upload, UploadSpec

TAGS = ["uploads"]


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of uploads."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]

    @router.post(
        "/v1/uploads",
        tags=TAGS,
        operation_id="requestUpload",
        summary="Say what is to be uploaded, and learn what of it is missing; again until Complete",
        responses=documented(
            200, Upload, "What is missing, with a URL for each", 403, 413, 415, 429
        ),
    )
    def request(spec: Annotated[UploadSpec, Body()]) -> Response[str]:
        return answer(asking(router, ports).request_upload(spec))

    @router.get(
        "/v1/uploads/<uploadId>",
        tags=TAGS,
        operation_id="getUpload",
        summary="Show the state of an upload",
        responses=documented(200, Upload, "The upload, without URLs", 404, 429),
    )
    def show(upload: UploadPath) -> Response[str]:
        return answer(show_upload(ports(), known(upload)))

    return router
