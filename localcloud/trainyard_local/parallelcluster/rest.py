"""ParallelCluster's REST API, below `<endpoint>/_parallelcluster`.

API Gateway checks the signature and the right to call it; the rest is the API's function.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from sam_on_moto.iam.access import Denied
from sam_on_moto.iam.signatures import Rejected, SignedRequest, verify
from sam_on_moto.wire.messages import Request, Response, json_response
from trainyard_local.parallelcluster import views
from trainyard_local.parallelcluster.clusters import Clusters, Invalid, Missing
from trainyard_local.parallelcluster.judging import BadRequest, Conflict
from trainyard_local.parallelcluster.logs import events_of, streams_of
from trainyard_local.parallelcluster.updates import Refused

PREFIX = "/_parallelcluster"
_PAGE = 100
_STAYS = "Request would have succeeded, but DryRun flag is set."
Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One call of the API."""

    clusters: Clusters
    names: tuple[str, ...]
    query: Mapping[str, str]
    body: Json = field(default_factory=dict)

    @property
    def dry(self) -> bool:
        return self.query.get("dryrun") == "true"

    def page(self, items: list[Any]) -> tuple[list[Any], Json]:
        begin = int(self.query.get("nextToken") or 0)
        more = begin + _PAGE < len(items)
        return items[begin : begin + _PAGE], {"nextToken": str(begin + _PAGE)} if more else {}


class Api:
    """Answers requests."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    def handle(self, request: Request) -> Response:
        path = request.raw_path.removeprefix(PREFIX)
        try:
            self._authorize(request, path)
        except (Rejected, Denied) as refused:
            return json_response(403, {"message": str(refused)})
        found = _route(request.method, path)
        if found is None:
            return json_response(403, {"message": "Missing Authentication Token"})
        answer, names = found
        query = {key: values[-1] for key, values in parse_qs(request.query).items()}
        try:
            call = Call(self._clusters, names, query, _body(request))
            self._check_region(query)
            return answer(call)
        except Missing as missing:
            return json_response(404, {"message": str(missing)})
        except BadRequest as bad:
            return json_response(400, {"message": str(bad)})
        except Conflict as conflict:
            return json_response(409, {"message": str(conflict)})
        except Refused as refusal:
            return _refused_update(refusal)
        except Invalid as invalid:
            return json_response(
                400,
                {
                    "message": str(invalid),
                    "configurationValidationErrors": [one.told() for one in invalid.findings],
                },
            )

    def _check_region(self, query: Mapping[str, str]) -> None:
        own = self._clusters.cloud.region
        if (given := query.get("region", own)) != own:
            raise BadRequest(f"Bad Request: invalid or unsupported region '{given}'")

    def _authorize(self, request: Request, path: str) -> None:
        """Raises Rejected, Denied. The API's id is the first word of its address, as on AWS."""
        cloud = self._clusters.cloud
        query = f"?{request.query}" if request.query else ""
        url = cloud.endpoint + request.raw_path + query
        signed = SignedRequest(request.method, url, request.headers, request.body)
        moment = datetime.now(timezone.utc)
        principal = verify(
            signed,
            cloud.access.principal,
            region=cloud.region,
            service="execute-api",
            now=moment,
        )
        api = str(urlsplit(cloud.endpoint).hostname).partition(".")[0]
        arn = f"arn:aws:execute-api:{cloud.region}:{cloud.account_id}:{api}"
        cloud.access.require(principal, "execute-api:Invoke", f"{arn}/prod/{request.method}{path}")


def _body(request: Request) -> Json:
    if not request.body:
        return {}
    try:
        found = json.loads(request.body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadRequest("Bad Request: request body is not a JSON object")
    return found


def _dry_run(**more: Any) -> Response:
    return json_response(412, {"message": _STAYS, "validationMessages": [], **more})


def _refused_update(refusal: Refused) -> Response:
    body = {
        "message": str(refusal),
        "changeSet": [one.told() for one in refusal.changes],
        "updateValidationErrors": [one.error() for one in refusal.changes if one.refusal],
    }
    return json_response(400, body)


def _text(call: Call) -> str:
    text = call.body.get("clusterConfiguration")
    if not isinstance(text, str) or not text:
        raise BadRequest("Bad Request: 'clusterConfiguration' is a required property")
    return text


def _create(call: Call) -> Response:
    name, text = str(call.body.get("clusterName") or ""), _text(call)
    if call.dry:
        call.clusters.judge(name, text)
        return _dry_run()
    rollback = call.query.get("rollbackOnFailure", "true") != "false"
    cluster = call.clusters.create(name, text, rollback=rollback)
    return json_response(202, {"cluster": views.summary(cluster)})


def _list(call: Call) -> Response:
    part, token = call.page([views.summary(one) for one in call.clusters.all()])
    return json_response(200, {"clusters": part, **token})


def _describe(call: Call) -> Response:
    return json_response(200, views.description(call.clusters.find(call.names[0])))


def _update(call: Call) -> Response:
    cluster = call.clusters.find(call.names[0])
    changes = [one.told() for one in call.clusters.judge_update(cluster, _text(call))]
    if call.dry:
        return _dry_run(changeSet=changes)
    call.clusters.update(cluster, _text(call))
    return json_response(202, {"cluster": views.summary(cluster), "changeSet": changes})


def _delete(call: Call) -> Response:
    cluster = call.clusters.find(call.names[0])
    call.clusters.delete(cluster)
    return json_response(202, {"cluster": views.summary(cluster)})


def _fleet(call: Call) -> Response:
    cluster = call.clusters.find(call.names[0])
    at = cluster.updated_at.isoformat()
    return json_response(200, {"status": cluster.fleet, "lastStatusUpdatedTime": at})


def _set_fleet(call: Call) -> Response:
    cluster, wanted = call.clusters.find(call.names[0]), call.body.get("status")
    if wanted not in ("START_REQUESTED", "STOP_REQUESTED"):
        raise BadRequest(
            "Bad Request: the update compute fleet status can only be set to "
            "`START_REQUESTED` or `STOP_REQUESTED` for Slurm clusters."
        )
    running = wanted == "START_REQUESTED"
    if "IN_PROGRESS" in cluster.stack:
        words = "start/enable" if running else "stop/disable"
        raise BadRequest(
            f"Bad Request: Cannot {words} compute fleet while stack is in {cluster.stack} status."
        )
    if cluster.fleet == "UNKNOWN":
        raise BadRequest("Bad Request: the compute fleet's status is not known yet")
    cluster.request_fleet(running=running)
    return _fleet(call)


def _instances(call: Call) -> Response:
    cluster = call.clusters.find(call.names[0])
    found = [views.instance(node) for node in cluster.instances()]
    for key in ("queueName", "nodeType"):
        if wanted := call.query.get(key):
            found = [one for one in found if one.get(key) == wanted]
    part, token = call.page(found)
    return json_response(200, {"instances": part, **token})


def _stack_events(call: Call) -> Response:
    part, token = call.page(call.clusters.find(call.names[0]).stack_events[::-1])
    return json_response(200, {"events": part, **token})


def _streams(call: Call) -> Response:
    cluster = call.clusters.find(call.names[0])
    part, token = call.page(streams_of(cluster))
    return json_response(200, {"logStreams": part, **token})


def _log_events(call: Call) -> Response:
    cluster, stream = call.clusters.find(call.names[0]), unquote(call.names[1])
    limit = int(call.query.get("limit") or 10_000)
    head = call.query.get("startFromHead") == "true"
    found = events_of(cluster, stream, limit, head=head)
    if found is None:
        raise Missing(f"The specified log stream {stream} does not exist.")
    return json_response(200, {"events": found})


_NAME = "/v3/clusters/([^/]+)"
_ROUTES: Mapping[tuple[str, str], Callable[[Call], Response]] = {
    ("POST", "/v3/clusters"): _create,
    ("GET", "/v3/clusters"): _list,
    ("GET", _NAME): _describe,
    ("PUT", _NAME): _update,
    ("DELETE", _NAME): _delete,
    ("GET", f"{_NAME}/computefleet"): _fleet,
    ("PATCH", f"{_NAME}/computefleet"): _set_fleet,
    ("GET", f"{_NAME}/instances"): _instances,
    ("GET", f"{_NAME}/stackevents"): _stack_events,
    ("GET", f"{_NAME}/logstreams"): _streams,
    ("GET", f"{_NAME}/logstreams/([^/]+)"): _log_events,
}


def _route(method: str, path: str) -> tuple[Callable[[Call], Response], tuple[str, ...]] | None:
    for (known, pattern), answer in _ROUTES.items():
        if known == method and (found := re.fullmatch(pattern, path)):
            return answer, found.groups()
    return None
