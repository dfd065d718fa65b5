"""How runs, clusters and filesystems come to be others', too: `:share` and `:transfer`."""

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.filesystems.show_filesystem import shown
from trainyard.app.people.ownership import load
from trainyard.app.runs.list_outputs import uri
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.records import Cluster, Run
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.cluster_views import ClusterView
from trainyard.http.filesystem_views import FilesystemView
from trainyard.http.identifiers import (
    ClusterPath,
    FilesystemPath,
    RunPath,
    cluster_name,
    filesystem_name,
    run_to_change,
)
from trainyard.http.people_views import ShareSpec, TransferSpec
from trainyard.http.reasons import Reason
from trainyard.http.receivers import SHARE, TAGS, TRANSFER, patterns, receiver
from trainyard.http.run_views import RunView
from trainyard.ports import Ports


def add_to(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    """Their routes."""
    _of_runs(router, ports)
    _of_clusters(router, ports)
    _of_filesystems(router, ports)


def _run(ports: Ports, run: Run) -> Response[str]:
    return answer(RunView.of(run, uri=uri(ports, run)))


def _of_runs(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    responses = documented(200, RunView, "The run", 403, 404, 409)

    @router.post(
        "/v1/runs/<runId>:share",
        tags=TAGS,
        operation_id="shareRun",
        summary=SHARE,
        responses=responses,
    )
    def share(
        run: RunPath, spec: Annotated[ShareSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Run = load(ports(), "run", run_to_change(ports(), run))
        return _run(ports(), asking(router, ports).share(found, patterns(spec), reason=reason))

    @router.post(
        "/v1/runs/<runId>:transfer",
        tags=TAGS,
        operation_id="transferRun",
        summary=TRANSFER,
        responses=responses,
    )
    def transfer(
        run: RunPath, spec: Annotated[TransferSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Run = load(ports(), "run", run_to_change(ports(), run))
        return _run(ports(), asking(router, ports).transfer(found, receiver(spec), reason=reason))


def _of_clusters(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    responses = documented(200, ClusterView, "The cluster", 403, 404, 409)

    @router.post(
        "/v1/clusters/<clusterName>:share",
        tags=TAGS,
        operation_id="shareCluster",
        summary=SHARE,
        responses=responses,
    )
    def share(
        cluster: ClusterPath, spec: Annotated[ShareSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Cluster = load(ports(), "cluster", cluster_name(cluster))
        changed = asking(router, ports).share(found, patterns(spec), reason=reason)
        return answer(ClusterView.of(changed))

    @router.post(
        "/v1/clusters/<clusterName>:transfer",
        tags=TAGS,
        operation_id="transferCluster",
        summary=TRANSFER,
        responses=responses,
    )
    def transfer(
        cluster: ClusterPath, spec: Annotated[TransferSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Cluster = load(ports(), "cluster", cluster_name(cluster))
        changed = asking(router, ports).transfer(found, receiver(spec), reason=reason)
        return answer(ClusterView.of(changed))


def _of_filesystems(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    responses = documented(200, FilesystemView, "The filesystem", 403, 404, 409)

    @router.post(
        "/v1/filesystems/<filesystemName>:share",
        tags=TAGS,
        operation_id="shareFilesystem",
        summary=SHARE,
        responses=responses,
    )
    def share(
        filesystem: FilesystemPath, spec: Annotated[ShareSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Filesystem = load(ports(), "filesystem", filesystem_name(filesystem))
        changed = asking(router, ports).share(found, patterns(spec), reason=reason)
        return answer(FilesystemView.of_shown(shown(ports(), changed)))

    @router.post(
        "/v1/filesystems/<filesystemName>:transfer",
        tags=TAGS,
        operation_id="transferFilesystem",
        summary=TRANSFER,
        responses=responses,
    )
    def transfer(
        filesystem: FilesystemPath, spec: Annotated[TransferSpec, Body()], reason: Reason = ""
    ) -> Response[str]:
        found: Filesystem = load(ports(), "filesystem", filesystem_name(filesystem))
        changed = asking(router, ports).transfer(found, receiver(spec), reason=reason)
        return answer(FilesystemView.of_shown(shown(ports(), changed)))
