"""The Python SDK: one thin method for each call of the API, signed, retried where a repeat is safe.

client = Client.connect()
run = client.submit_run(spec)
"""

from __future__ import annotations

import json
import random
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from .connection import Connection, state_directory
from .problems import ApiProblem, InvalidInput, Unreachable
from .terminal_text import plain_document

Json = dict[str, Any]

#: Throttled, or no answer from the function. The call may not have happened; the API is made for
#: repeats.
RETRIED = frozenset({429, 500, 502, 503, 504})
TRIES = 5
LONGEST_WAIT_SECONDS = 10.0
#: What the API takes, and a header carries unchanged.
_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,126}[\x21-\x7e])?")


class Client:
    """Calls of one Trainyard API. Safe to share among threads. Raises ApiProblem and Unreachable.

    With `reason` each call that changes something says why; one that takes a reason itself may say
    another. With `for_terminal` every text of an answer is safe to print: control codes of jobs and
    nodes are spelt out.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        timeout_seconds: float = 35.0,
        transport: httpx.BaseTransport | None = None,
        for_terminal: bool = False,
        reason: str | None = None,
    ) -> None:
        self.connection = connection
        self._for_terminal = for_terminal
        self._why = {} if reason is None else {"trainyard-reason": _encoded(reason)}
        # The API gives up after 30 seconds, so that its answer and not our timeout ends a slow
        # call.
        timeout = httpx.Timeout(timeout_seconds, connect=5.0)
        # Reading the system's certificates takes a tenth of a second. Plain loopback has no use for
        # it, nor for a proxy.
        self._http = httpx.Client(
            timeout=timeout,
            transport=transport,
            verify=connection.api_url.startswith("https:"),
            trust_env=connection.local is None,
        )

    @classmethod
    def connect(
        cls,
        endpoint: str | None = None,
        state_dir: str | Path | None = None,
        *,
        context: str | None = None,
        for_terminal: bool = False,
        reason: str | None = None,
    ) -> Client:
        """As `Connection.find` finds it."""
        found = Connection.find(endpoint, state_dir, context=context)
        return cls(found, for_terminal=for_terminal, reason=reason)

    @classmethod
    def from_state_dir(cls, state_dir: str | Path) -> Client:
        """The local cloud of this state directory, whatever the environment says."""
        return cls(Connection.of_local(state_directory(state_dir)))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Json:
        """Any call, by its path and query. Only what changes nothing, or has a key, is repeated."""
        repeat = method in ("GET", "PUT", "DELETE") or key is not None
        return self._call(method, path, body=body, key=key, repeat=repeat)

    # Runs

    def submit_run(self, spec: Mapping[str, Any], *, idempotency_key: str | None = None) -> Json:
        """Submit a run.

        The same key with the same spec always gives the same run, however often it is sent. Without
        a key the call makes one of its own.
        """
        return self._call("POST", "/v1/runs", body=spec, key=_sendable(idempotency_key))

    def plan_run(self, spec: Mapping[str, Any]) -> Json:
        """What submitting would do: backend request, files, batch script, price, warnings.

        Nothing is done.
        """
        return self._call("POST", "/v1/runs", {"dryrun": "true"}, body=spec)

    def run(self, run_id: str) -> Json:
        return self._call("GET", f"/v1/runs/{_segment(run_id)}")

    def runs(
        self, *, status: str | Sequence[str] | None = None, at_most: int = 1000, **filters: Any
    ) -> list[Json]:
        """Newest first. `filters` are the list's parameters, such as label, name and since.

        A parameter with several values is a list.
        """
        return self._all("/v1/runs", "runs", {"status": status, **filters}, at_most)

    def label_run(self, run_id: str, changes: Mapping[str, str | None]) -> Json:
        """Set labels; None takes one away. A repetition changes nothing."""
        path = f"/v1/runs/{_segment(run_id)}"
        return self._call("PATCH", path, body={"labels": dict(changes)})

    def set_priority(self, run_id: str, priority: int) -> Json:
        """From -100 to 100; a higher one has its turn first on a shared cluster."""
        return self._call("PATCH", f"/v1/runs/{_segment(run_id)}", body={"priority": priority})

    def events(self, run_id: str) -> list[Json]:
        """The timeline, oldest first."""
        return self._all(f"/v1/runs/{_segment(run_id)}/events", "events")

    def event_page(self, run_id: str, token: str | None = None) -> Json:
        """One page of the timeline: {events, nextToken}."""
        return self._call(
            "GET", f"/v1/runs/{_segment(run_id)}/events", {"limit": "100", "nextToken": token}
        )

    def checkpoints(self, run_id: str) -> list[Json]:
        """Newest step first."""
        return self._all(f"/v1/runs/{_segment(run_id)}/checkpoints", "checkpoints")

    def logs(
        self,
        run_id: str,
        *,
        attempt: int | None = None,
        lines: int = 100,
        kind: str = "job",
        contains: str | None = None,
        since_seconds: int | None = None,
        rank: int | None = None,
        node: str | None = None,
    ) -> Json:
        """{kind, attempt, source, text}: the tail of the job's or the lifecycle scripts' log.

        `contains`: of its lines with this text. `since_seconds`: of what was printed in them.
        `rank`: of what that rank printed; `node`: of what each rank of it printed.
        """
        return self._call(
            "GET",
            f"/v1/runs/{_segment(run_id)}/logs",
            {
                "attempt": attempt,
                "lines": lines,
                "kind": kind,
                "contains": contains or None,
                "sinceSeconds": since_seconds,
                "rank": rank,
                "node": node,
            },
        )

    def metrics(self, run_id: str, *, since_seconds: int = 3600, name: str | None = None) -> Json:
        """{nodes: {name: [sample]}, run: [sample], name, points: [{at, attempt, step, value}],
        names: [{name, last, lowest, highest, ...}]}, oldest first.

        `since_seconds`: how far back nodes and run go. `name`: whose points are asked for, of all
        the run's time; default: the loss.
        """
        return self._call(
            "GET",
            f"/v1/runs/{_segment(run_id)}/metrics",
            {"sinceSeconds": since_seconds, "name": name},
        )

    def run_cost(self, run_id: str) -> Json:
        """What it has cost so far: {usd, prices, ledger, budget, ...}; usd is None if unknown."""
        return self._call("GET", f"/v1/runs/{_segment(run_id)}/cost")

    def costs(self, *, by: str = "owner", **filters: Any) -> Json:
        """What runs cost, added up by owner, cluster, run or label:KEY; `filters` as in `runs`."""
        return self._call("GET", "/v1/costs", {"by": by, **filters})

    def cancel_run(self, run_id: str, *, reason: str | None = None) -> Json:
        query = {"reason": reason or None}
        return self._call("POST", f"/v1/runs/{_segment(run_id)}:cancel", query)

    def resume_run(
        self, run_id: str, *, filesystem: str | None = None, reason: str | None = None
    ) -> Json:
        """`filesystem`: another one for the run's own cluster, DNS name/mount name."""
        path = f"/v1/runs/{_segment(run_id)}:resume"
        return self._call("POST", path, {"filesystem": filesystem, "reason": reason or None})

    def export_run(self, run_id: str, *, reason: str | None = None) -> Json:
        query = {"reason": reason or None}
        return self._call("POST", f"/v1/runs/{_segment(run_id)}:export", query)

    def outputs(self, run_id: str, *, urls: bool = False) -> Iterator[Json]:
        """Pages of what the verified export holds: {uri, outputs, nextToken}.

        With `urls` each output has a URL that anybody can read it by for a while.
        """
        query = {"limit": 1000, "urls": "true" if urls else None}
        return self._pages(f"/v1/runs/{_segment(run_id)}/outputs", query)

    def output_page(self, run_id: str, token: str | None) -> Json:
        """The page of that token, with URLs that begin to live now."""
        query = {"limit": 1000, "urls": "true", "nextToken": token}
        return self._call("GET", f"/v1/runs/{_segment(run_id)}/outputs", query)

    # Approvals

    def approvals(self, *, state: str | None = None, at_most: int = 1000) -> list[Json]:
        """What waits for people and what they decided, newest first; `state`: such as pending."""
        return self._all("/v1/approvals", "approvals", {"state": state}, at_most)

    def approval(self, approval_id: str) -> Json:
        return self._call("GET", f"/v1/approvals/{_segment(approval_id)}")

    def approve(self, approval_id: str, *, reason: str | None = None) -> Json:
        """Your word for it. Once more by the same person changes nothing."""
        path = f"/v1/approvals/{_segment(approval_id)}:approve"
        return self._call("POST", path, {"reason": reason}, repeat=True)

    def deny(self, approval_id: str, *, reason: str | None = None) -> Json:
        """Your word against it: the run that waits ends."""
        path = f"/v1/approvals/{_segment(approval_id)}:deny"
        return self._call("POST", path, {"reason": reason}, repeat=True)

    # Webhooks

    def webhooks(self, *, at_most: int = 1000) -> list[Json]:
        """Receivers of events, newest first."""
        return self._all("/v1/webhooks", "webhooks", {}, at_most)

    def webhook(self, webhook_id: str) -> Json:
        """One of them, with what became of the newest deliveries."""
        return self._call("GET", f"/v1/webhooks/{_segment(webhook_id)}")

    def add_webhook(self, spec: Mapping[str, Any], *, idempotency_key: str | None = None) -> Json:
        """With the `secret` that signs, which no other answer has.

        It is null if the first answer was lost on the way: then rotate it.
        """
        return self._call("POST", "/v1/webhooks", body=spec, key=_sendable(idempotency_key))

    def rotate_webhook(self, webhook_id: str, *, reason: str | None = None) -> Json:
        """With a new `secret`; the one before it signs for a day more."""
        path = f"/v1/webhooks/{_segment(webhook_id)}:rotate"
        return self._call("POST", path, {"reason": reason}, repeat=False)

    def redeliver(self, webhook_id: str, delivery_id: str, *, reason: str | None = None) -> Json:
        """Have a delivery sent once more; a webhook that was disabled is active again."""
        path = f"/v1/webhooks/{_segment(webhook_id)}:redeliver"
        return self._call("POST", path, {"delivery": delivery_id, "reason": reason})

    def remove_webhook(self, webhook_id: str, *, reason: str | None = None) -> Json:
        return self._call("DELETE", f"/v1/webhooks/{_segment(webhook_id)}", {"reason": reason})

    # Budgets that runs share

    def budgets(self, *, at_most: int = 1000) -> list[Json]:
        """Newest first."""
        return self._all("/v1/budgets", "budgets", {}, at_most)

    def budget(self, name: str) -> Json:
        """What is spent, held back and to be expected."""
        return self._call("GET", f"/v1/budgets/{_segment(name)}")

    def set_budget(self, name: str, spec: Mapping[str, Any]) -> Json:
        """Make it, or change it: label or cluster, maxUsd, per, warnAt, tailSeconds. For admins."""
        return self._call("PUT", f"/v1/budgets/{_segment(name)}", body=spec)

    def remove_budget(self, name: str, *, reason: str | None = None) -> Json:
        return self._call("DELETE", f"/v1/budgets/{_segment(name)}", {"reason": reason})

    # People

    def whoami(self) -> Json:
        """{person, role, everybodyIsAdmin}: who signs these calls."""
        return self._call("GET", "/v1/whoami")

    def audit(
        self,
        *,
        since: str | None = None,
        who: str | None = None,
        what: str | None = None,
        subject: str | None = None,
        at_most: int = 1000,
    ) -> list[Json]:
        """Who changed what, newest first; `since` is an RFC 3339 time, 7 days ago by default."""
        query = {"since": since, "who": who, "what": what, "subject": subject}
        return self._all("/v1/audit", "entries", query, at_most)

    def share(
        self, kind: str, name: str, with_arns: list[str], *, reason: str | None = None
    ) -> Json:
        """Let others change a 'run', 'cluster', 'filesystem', 'array' or 'schedule'; [] = none."""
        path = f"/v1/{kind}s/{_segment(name)}:share"
        return self._call("POST", path, {"reason": reason}, body={"sharedWith": with_arns})

    def transfer(
        self, kind: str, name: str, to: str | None = None, *, reason: str | None = None
    ) -> Json:
        """Give it to the one with this ARN; without, take it."""
        path = f"/v1/{kind}s/{_segment(name)}:transfer"
        return self._call("POST", path, {"reason": reason}, body={} if to is None else {"to": to})

    # Uploads

    def create_upload(self, spec: Mapping[str, Any]) -> Json:
        """Begin or go on with an upload: {id, state, missing, missingCount, expiresAt}.

        `missing` has at most 200 of what is not there yet, each with the URL and the headers of its
        PUT. Again after those until `state` is 'Complete'.
        """
        return self._call("POST", "/v1/uploads", body=spec)

    def upload(self, upload_id: str) -> Json:
        """The state of an upload."""
        return self._call("GET", f"/v1/uploads/{_segment(upload_id)}")

    # Clusters and nodes

    def create_cluster(self, spec: Mapping[str, Any]) -> Json:
        """Create a cluster; a repetition after a lost answer makes no second one."""
        return self._call("POST", "/v1/clusters", body=spec, key=uuid.uuid4().hex)

    def plan_cluster(self, spec: Mapping[str, Any]) -> Json:
        """What creating would do, with nothing done."""
        return self._call("POST", "/v1/clusters", {"dryrun": "true"}, body=spec)

    def update_cluster(self, name: str, spec: Mapping[str, Any], *, dryrun: bool = False) -> Json:
        """Give the cluster another spec; a repetition changes nothing."""
        query = {"dryrun": "true"} if dryrun else None
        return self._call("PUT", f"/v1/clusters/{_segment(name)}", query, body=spec)

    def stop_cluster(self, name: str, *, force: bool = False, reason: str | None = None) -> Json:
        query = {"force": "true" if force else None, "reason": reason or None}
        return self._call("POST", f"/v1/clusters/{_segment(name)}:stop", query)

    def start_cluster(self, name: str) -> Json:
        return self._call("POST", f"/v1/clusters/{_segment(name)}:start")

    def keep_cluster(self, name: str, *, reason: str | None = None) -> Json:
        """Let its idle time begin anew."""
        query = {"reason": reason or None}
        return self._call("POST", f"/v1/clusters/{_segment(name)}:keep", query)

    def adopt_cluster(self, spec: Mapping[str, Any]) -> Json:
        """Adopt a cluster that others made; a repetition after a lost answer is the same."""
        return self._call("POST", "/v1/clusters:adopt", body=spec, key=uuid.uuid4().hex)

    def plan_adoption(self, spec: Mapping[str, Any]) -> Json:
        """What adopting would take, with nothing done."""
        return self._call("POST", "/v1/clusters:adopt", {"dryrun": "true"}, body=spec)

    def release_cluster(self, name: str, *, force: bool = False, reason: str | None = None) -> Json:
        query = {"force": "true" if force else None, "reason": reason or None}
        return self._call("POST", f"/v1/clusters/{_segment(name)}:release", query)

    def cluster(self, name: str) -> Json:
        return self._call("GET", f"/v1/clusters/{_segment(name)}")

    def clusters(self, *, at_most: int = 1000, **filters: Any) -> list[Json]:
        """Newest first, without their specs; `filters` as in `runs`."""
        return self._all("/v1/clusters", "clusters", filters, at_most)

    def cluster_cost(self, name: str) -> Json:
        """What it has cost so far, by run, and idle."""
        return self._call("GET", f"/v1/clusters/{_segment(name)}/cost")

    def label_cluster(self, name: str, changes: Mapping[str, str | None]) -> Json:
        """As label_run."""
        path = f"/v1/clusters/{_segment(name)}"
        return self._call("PATCH", path, body={"labels": dict(changes)})

    def share_fairly(self, name: str, sharing: Mapping[str, Any]) -> Json:
        """Set who has a turn when on the cluster (fairBy, limits), in place of what was there."""
        path = f"/v1/clusters/{_segment(name)}"
        return self._call("PATCH", path, body={"sharing": dict(sharing)})

    def delete_cluster(self, name: str, *, force: bool = False, reason: str | None = None) -> Json:
        query = {"force": "true" if force else None, "reason": reason or None}
        return self._call("DELETE", f"/v1/clusters/{_segment(name)}", query)

    # Filesystems

    def submit_array(self, spec: Mapping[str, Any], *, idempotency_key: str | None = None) -> Json:
        """As submit_run: the same key and spec give the same array."""
        return self._call("POST", "/v1/arrays", body=spec, key=_sendable(idempotency_key))

    def plan_array(self, spec: Mapping[str, Any]) -> Json:
        """Members, waves, prices and what would be refused. Nothing is done."""
        return self._call("POST", "/v1/arrays", {"dryrun": "true"}, body=spec)

    def array(self, array_id: str) -> Json:
        return self._call("GET", f"/v1/arrays/{_segment(array_id)}")

    def arrays(self, *, at_most: int = 1000) -> list[Json]:
        """Newest first."""
        return self._all("/v1/arrays", "arrays", {}, at_most)

    def array_members(self, array_id: str) -> list[Json]:
        """By their numbers, with their runs."""
        return self._all(f"/v1/arrays/{_segment(array_id)}/members", "members")

    def cancel_array(self, array_id: str, *, reason: str | None = None) -> Json:
        query = {"reason": reason or None}
        return self._call("POST", f"/v1/arrays/{_segment(array_id)}:cancel", query)

    def create_schedule(self, spec: Mapping[str, Any]) -> Json:
        """The same spec again is the same schedule."""
        return self._call("POST", "/v1/schedules", body=spec)

    def plan_schedule(self, spec: Mapping[str, Any]) -> Json:
        """Its next times, prices and what would be refused. Nothing is done."""
        return self._call("POST", "/v1/schedules", {"dryrun": "true"}, body=spec)

    def schedule(self, name: str) -> Json:
        return self._call("GET", f"/v1/schedules/{_segment(name)}")

    def schedules(self, *, at_most: int = 1000) -> list[Json]:
        """Newest first."""
        return self._all("/v1/schedules", "schedules", {}, at_most)

    def pause_schedule(self, name: str, *, reason: str | None = None) -> Json:
        query = {"reason": reason or None}
        return self._call("POST", f"/v1/schedules/{_segment(name)}:pause", query)

    def resume_schedule(self, name: str) -> Json:
        return self._call("POST", f"/v1/schedules/{_segment(name)}:resume")

    def delete_schedule(self, name: str, *, reason: str | None = None) -> Json:
        query = {"reason": reason or None}
        return self._call("DELETE", f"/v1/schedules/{_segment(name)}", query)

    def create_filesystem(
        self, spec: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Json:
        """As submit_run: the same key and spec give the same filesystem."""
        return self._call("POST", "/v1/filesystems", body=spec, key=_sendable(idempotency_key))

    def plan_filesystem(self, spec: Mapping[str, Any]) -> Json:
        """The requests that creating it would send, and its price a month. Nothing is done."""
        return self._call("POST", "/v1/filesystems", {"dryrun": "true"}, body=spec)

    def filesystem(self, name: str) -> Json:
        return self._call("GET", f"/v1/filesystems/{_segment(name)}")

    def filesystems(self, *, at_most: int = 1000) -> list[Json]:
        return self._all("/v1/filesystems", "filesystems", at_most=at_most)

    def export_filesystem(self, name: str) -> Json:
        return self._call("POST", f"/v1/filesystems/{_segment(name)}:export")

    def delete_filesystem(
        self, name: str, *, discard: str | None = None, reason: str | None = None
    ) -> Json:
        """What it holds is exported first; `discard` is why it may be given up instead."""
        given = {"reason": reason or None}
        query = {"discard": "true", "reason": discard} if discard is not None else given
        return self._call("DELETE", f"/v1/filesystems/{_segment(name)}", query)

    # Nodes

    def nodes(self, cluster: str) -> list[Json]:
        """By group and instance."""
        # Without a limit: an API of an older version takes none.
        pages = self._pages(f"/v1/clusters/{_segment(cluster)}/nodes", {})
        return [node for page in pages for node in page["nodes"]]

    def replace_node(self, cluster: str, instance_id: str, *, reason: str | None = None) -> Json:
        """{successful, failed}."""
        return self._call(
            "POST",
            f"/v1/clusters/{_segment(cluster)}/nodes/{_segment(instance_id)}:replace",
            {"reason": reason or None},
            repeat=False,
        )

    def reboot_node(self, cluster: str, instance_id: str, *, reason: str | None = None) -> Json:
        """{successful, failed}."""
        return self._call(
            "POST",
            f"/v1/clusters/{_segment(cluster)}/nodes/{_segment(instance_id)}:reboot",
            {"reason": reason or None},
            repeat=False,
        )

    # The local cloud only

    def fault(
        self,
        kind: str,
        cluster: str,
        *,
        node: str | None = None,
        run: str | None = None,
        seconds: float | None = None,
        **more: int | str | bool | None,
    ) -> Json:
        """Inject a fault into the local cloud; `more` holds the fault's own parameters.

        Raises InvalidInput on AWS, where no faults can be injected.
        """
        given = {"node": node, "run": run, "seconds": seconds, **more}
        return self._inject({"kind": kind, "cluster": cluster, **_given(given)})

    def job_fault(
        self,
        kind: str,
        *,
        job: str | None = None,
        host: str | None = None,
        instance_type: str | None = None,
        seconds: float | None = None,
    ) -> Json:
        """Inject a fault into a training job of the local cloud, or into what jobs run on.

        Raises InvalidInput on AWS, where no faults can be injected.
        """
        given = {"job": job, "host": host, "instanceType": instance_type, "seconds": seconds}
        return self._inject({"kind": kind, **_given(given)})

    def _inject(self, body: Json) -> Json:
        local = self.connection.local
        if local is None:
            raise _no_faults(self.connection.api_url)
        headers = {
            "content-type": "application/json",
            "x-trainyard-token": local.get("adminToken", ""),
        }
        answer = self._send(
            "POST", f"{local['endpoint']}/_trainyard/fault", json.dumps(body).encode(), headers
        )
        return self._read(answer)

    # How calls travel

    def _all(
        self, path: str, name: str, query: Mapping[str, Any] | None = None, at_most: int = 1_000_000
    ) -> list[Json]:
        found: list[Json] = []
        for page in self._pages(path, {"limit": min(100, at_most), **(query or {})}):
            found += page[name]
            if len(found) >= at_most:
                break
        return found[:at_most]

    def _pages(self, path: str, query: Mapping[str, Any]) -> Iterator[Json]:
        token = None
        while True:
            page = self._call("GET", path, {**query, "nextToken": token})
            yield page
            token = page.get("nextToken")
            if not token:
                return

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        body: Mapping[str, Any] | None = None,
        key: str | None = None,
        repeat: bool = True,
    ) -> Json:
        """One call, repeated with the same Idempotency-Key while the API is throttled or away.

        With repeat=False (the act is not idempotent) a call is repeated only after answers which
        say that nothing was done.
        """
        content = b"" if body is None else json.dumps(body).encode()
        headers = {
            **({"content-type": "application/json"} if body is not None else {}),
            **({"idempotency-key": key} if key else {}),
            **(self._why if method != "GET" else {}),
        }
        url = self.connection.api_url + path + _query(query or {})
        return self._read(self._patiently(method, url, content, headers, repeat=repeat))

    def _patiently(
        self, method: str, url: str, content: bytes, headers: dict[str, str], *, repeat: bool
    ) -> httpx.Response:
        retried = RETRIED if repeat else frozenset({429, 503})
        for attempt in range(1, TRIES):
            wait = None
            try:
                answer = self._signed(method, url, content, headers)
                if answer.status_code not in retried:
                    return answer
                wait = answer.headers.get("retry-after")
            except Unreachable:
                if not repeat:
                    raise
            time.sleep(_pause(attempt, wait))
        return self._signed(method, url, content, headers)

    def _signed(
        self, method: str, url: str, content: bytes, headers: dict[str, str]
    ) -> httpx.Response:
        signed = self.connection.signed(method, url, content, headers)
        return self._send(method, url, content, signed)

    def _read(self, answer: httpx.Response) -> Json:
        document: Json = (
            plain_document(_document(answer)) if self._for_terminal else _document(answer)
        )
        return document

    def _send(
        self, method: str, url: str, content: bytes, headers: Mapping[str, str]
    ) -> httpx.Response:
        try:
            return self._http.request(method, url, content=content, headers=dict(headers))
        except httpx.InvalidURL as error:
            raise InvalidInput(
                "The request cannot be sent",
                f"{method}: what it asks for is longer than an address may be ({len(url)} "
                "characters), or no address",
                "Ask for less: shorter texts, fewer values",
            ) from error
        except httpx.TransportError as error:
            hint = (
                "Is it running? trainyard local status"
                if self.connection.local
                else "Check the address and the network."
            )
            raise Unreachable(
                "The API cannot be reached",
                f"{method} {url.split('?', maxsplit=1)[0]}: {error or type(error).__name__}",
                hint,
            ) from error


def _encoded(reason: str) -> str:
    """As the header carries it. Raises InvalidInput."""
    _check_text(reason)
    return quote(reason, safe="")


def _sendable(key: str | None) -> str:
    """The key, or a new one for none. Raises InvalidInput for one that no header carries."""
    if key is None:
        return uuid.uuid4().hex
    if not _KEY.fullmatch(key):
        raise InvalidInput(
            "The idempotency key cannot be sent",
            (
                f"idempotencyKey: {key[:200]!r} is not 1 to 128 printable ASCII characters "
                "without a space at its ends"
            ),
            "Give one such as a UUID, or none",
        )
    return key


def _given(parameters: Mapping[str, Any]) -> Json:
    return {name: value for name, value in parameters.items() if value}


def _no_faults(api_url: str) -> InvalidInput:
    return InvalidInput(
        "No faults here",
        f"faults can be injected into the local cloud only, and {api_url} is none",
        (
            "Leave out --endpoint and unset TRAINYARD_API_URL; "
            "faults then go to the local cloud of --state-dir"
        ),
    )


def _query(given: Mapping[str, Any]) -> str:
    texts = [
        (name, str(one))
        for name, value in given.items()
        for one in (value if isinstance(value, (list, tuple)) else [value])
        if one is not None
    ]
    for _, text in texts:
        _check_text(text)
    return "?" + urlencode(texts, quote_via=quote) if texts else ""


def _segment(text: str) -> str:
    """One path segment; whatever a caller puts in stays one segment. Raises InvalidInput."""
    if text in ("", ".", ".."):
        raise InvalidInput(
            "There is nothing of that name",
            f"'{text}' is no name and no id: in an address it means another place",
            "Give the whole name, or the id, as a list shows it",
        )
    _check_text(text)
    return quote(text, safe="")


def _check_text(text: str) -> None:
    """Raises InvalidInput for half of a character, as bytes that are no UTF-8 come in."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            "The request cannot be sent",
            f"{text[:200]!a} is no text: it has bytes that are no UTF-8, or half of a character",
            "Write it again, in UTF-8",
        ) from None


def _pause(attempt: int, retry_after: str | None) -> float:
    if retry_after and retry_after.isdigit():
        return min(float(retry_after), LONGEST_WAIT_SECONDS)
    return min(0.2 * 2.0**attempt, LONGEST_WAIT_SECONDS) * random.uniform(0.5, 1.0)


def _document(answer: httpx.Response) -> Json:
    document = _object(answer)
    if answer.is_success and document is not None:
        return document
    # Trainyard answers in JSON, and its refusals have a code. An answer without a code is not from
    # Trainyard: what answers there does not know the path.
    if not answer.is_error or (answer.status_code in (404, 501) and "code" not in (document or {})):
        raise Unreachable(
            "This is not Trainyard's API",
            (
                f"{str(answer.url).partition('?')[0]} answers with HTTP status "
                f"{answer.status_code} and nothing of ours"
            ),
            (
                "Give the whole ApiUrl of the stack, its stage included; "
                "that of a local cloud is in: trainyard local status"
            ),
        )
    raise ApiProblem(
        answer.status_code,
        document or {"title": f"HTTP status {answer.status_code}", "detail": answer.text[:500]},
    )


def _object(answer: httpx.Response) -> Json | None:
    """The body's JSON object, {} for no body, None for anything else."""
    try:
        document = answer.json() if answer.content else {}
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
