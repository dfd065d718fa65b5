"""A client of ParallelCluster's official API: HTTP requests that botocore signs, nothing more.

The API is a stack of AWS's own in the account (API Gateway and a function). A dry run that succeeds
is HTTP 412, since nothing was done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError
from botocore.httpsession import URLLib3Session
from pydantic import BaseModel, ValidationError

from trainyard.backends.parallelcluster import answers, refusals
from trainyard.backends.parallelcluster.refusals import Refused
from trainyard.domain import errors

#: API Gateway waits 29 seconds for its function, whose own limit is 30.
TIMEOUT_SECONDS = 31.0
#: Somebody waits for the answer to a dry run, through a function that has 29 seconds itself.
DRY_RUN_SECONDS = 22.0
_CONNECT_SECONDS = 3.0
_DRY_RUN_SUCCEEDED = 412
A = TypeVar("A", bound=BaseModel)
P = TypeVar("P", bound=answers.Page)


@dataclass(frozen=True)
class Reply:
    """What came back, before anybody judged it."""

    status: int
    body: bytes


class Transport(Protocol):
    """Sends one signed request. Raises errors.RetryableError where no answer comes."""

    def __call__(self, request: AWSRequest) -> Reply: ...


@dataclass(frozen=True)
class DryRun:
    """A configuration that would be taken, and what ParallelCluster says of it all the same."""

    findings: Sequence[answers.ValidationMessage] = field(default_factory=list)


def over_http(timeout: float = TIMEOUT_SECONDS) -> Transport:
    """The transport of a deployment."""
    session = URLLib3Session(timeout=(_CONNECT_SECONDS, timeout))

    def send(request: AWSRequest) -> Reply:
        try:
            answer = session.send(request.prepare())
        except BotoCoreError as broken:
            raise errors.RetryableError(
                f"ParallelCluster's API at {request.url.partition('/v3/')[0]} gave no answer: "
                f"{broken}"
            ) from broken
        return Reply(answer.status_code, answer.content)

    return send


class ParallelClusterApi:
    """The operations that Trainyard uses. `credentials` gives botocore's, fresh at each call.

    Every method raises what `refusals.refused` makes of an answer that is none.
    """

    def __init__(
        self, url: str, region: str, credentials: Callable[[], Any], send: Transport | None = None
    ) -> None:
        self._url = url.rstrip("/")
        self._region = region
        self._credentials = credentials
        self._send = send or over_http()
        self._send_dry = send or over_http(DRY_RUN_SECONDS)

    def create(self, name: str, configuration: str, *, rollback: bool = True) -> answers.Accepted:
        body = {"clusterName": name, "clusterConfiguration": configuration}
        query = {"rollbackOnFailure": _word(rollback)}
        return self._asked("POST", "/v3/clusters", answers.Accepted, query, body)

    def dry_run(self, name: str, configuration: str) -> DryRun:
        """Whether create would be taken; nothing is made."""
        body = {"clusterName": name, "clusterConfiguration": configuration}
        return self._dry("POST", "/v3/clusters", body)

    def update(self, name: str, configuration: str) -> answers.Accepted:
        body = {"clusterConfiguration": configuration}
        return self._asked("PUT", _path(name), answers.Accepted, {}, body)

    def update_dry_run(self, name: str, configuration: str) -> DryRun:
        return self._dry("PUT", _path(name), {"clusterConfiguration": configuration})

    def describe(self, name: str) -> answers.ClusterDescription:
        return self._asked("GET", _path(name), answers.ClusterDescription)

    def clusters(self) -> Iterator[answers.ClusterSummary]:
        for page in self._pages("/v3/clusters", answers.ClusterPage):
            yield from page.clusters

    def delete(self, name: str) -> answers.Deleted:
        return self._asked("DELETE", _path(name), answers.Deleted)

    def fleet(self, name: str) -> answers.Fleet:
        return self._asked("GET", _path(name, "computefleet"), answers.Fleet)

    def set_fleet(self, name: str, *, running: bool) -> answers.Fleet:
        wanted = {"status": "START_REQUESTED" if running else "STOP_REQUESTED"}
        return self._asked("PATCH", _path(name, "computefleet"), answers.Fleet, {}, wanted)

    def instances(self, name: str, queue: str | None = None) -> Iterator[answers.Instance]:
        query = {"queueName": queue} if queue else {}
        for page in self._pages(_path(name, "instances"), answers.InstancePage, query):
            yield from page.instances

    def stack_events(self, name: str) -> Iterator[answers.StackEvent]:
        """Newest first."""
        for page in self._pages(_path(name, "stackevents"), answers.EventPage):
            yield from page.events

    def log_streams(self, name: str) -> Iterator[answers.LogStream]:
        for page in self._pages(_path(name, "logstreams"), answers.StreamPage):
            yield from page.log_streams

    def log_tail(self, name: str, stream: str, lines: int) -> list[answers.LogEvent]:
        """The last lines of one log."""
        query = {"limit": str(lines), "startFromHead": "false"}
        path = _path(name, "logstreams", stream)
        return self._asked("GET", path, answers.LogPage, query).events

    def _pages(
        self, path: str, model: type[P], query: Mapping[str, str] | None = None
    ) -> Iterator[P]:
        asked = dict(query or {})
        while True:
            page = self._asked("GET", path, model, asked)
            yield page
            if not page.next_token:
                return
            asked["nextToken"] = page.next_token

    def _dry(self, method: str, path: str, body: Mapping[str, Any]) -> DryRun:
        reply = self._request(method, path, {"dryrun": "true"}, body, self._send_dry)
        said = Refused.of(f"{method} {path}", reply.status, reply.body)
        if reply.status != _DRY_RUN_SUCCEEDED:
            raise refusals.refused(said)
        return DryRun(said.findings)

    def _asked(
        self,
        method: str,
        path: str,
        model: type[A],
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> A:
        reply = self._request(method, path, query or {}, body)
        refusal = Refused.of(f"{method} {path}", reply.status, reply.body)
        if reply.status not in (200, 202):
            raise refusals.refused(refusal)
        try:
            return model.model_validate_json(reply.body)
        except ValidationError as unread:
            raise refusals.unreadable(refusal, unread) from unread

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None,
        send: Transport | None = None,
    ) -> Reply:
        words = urlencode({"region": self._region, **query}, quote_via=quote, safe="")
        data = b"" if body is None else json.dumps(body).encode()
        request = AWSRequest(
            method,
            f"{self._url}{path}?{words}",
            data=data,
            headers={"content-type": "application/json", "accept": "application/json"},
        )
        SigV4Auth(self._credentials(), "execute-api", self._region).add_auth(request)
        return (send or self._send)(request)


def _path(name: str, *more: str) -> str:
    return "/".join(["/v3/clusters", *(quote(part, safe="") for part in (name, *more))])


def _word(flag: bool) -> str:
    return "true" if flag else "false"
