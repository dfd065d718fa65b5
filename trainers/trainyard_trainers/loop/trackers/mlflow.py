"""MLflow's REST API, as far as a training needs it; the package mlflow is not needed.

https://mlflow.org/docs/latest/api_reference/rest-api.html
"""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

from .tracker import Point, Refused, Unreachable

#: By this tag of MLflow's run an attempt finds what an earlier one made.
TAG = "trainyard.run"
_SECONDS = 10.0
_NO_SUCH, _TOO_MANY, _SERVER = 404, 429, 500
#: log-batch takes so many.
_METRICS = 1000


class Mlflow:
    """One run there for all attempts of a run here."""

    def __init__(self, run_id: str, environment: Mapping[str, str]) -> None:
        self._name, self._run = run_id, ""
        self._url, self._authorization = _server(environment)
        self._experiment_id = environment.get("MLFLOW_EXPERIMENT_ID", "")
        self._experiment = environment.get("MLFLOW_EXPERIMENT_NAME") or "Default"
        self._open = urllib.request.build_opener(_NoRedirects()).open

    def begin(self) -> None:
        experiment = self._experiment_id or self._experiment_of_its_name()
        wanted = {
            "experiment_ids": [experiment],
            "filter": f"tags.`{TAG}` = '{self._name}'",
            "max_results": 1,
        }
        found = self._call("runs/search", wanted)
        if found.get("runs"):
            with _as_documented("runs/search"):
                self._run = str(found["runs"][0]["info"]["run_id"])
            self._call("runs/update", {"run_id": self._run, "status": "RUNNING"})
            return
        made = {
            "experiment_id": experiment,
            "run_name": self._name,
            "start_time": int(time.time() * 1000),
            "tags": [{"key": TAG, "value": self._name}],
        }
        created = self._call("runs/create", made)
        with _as_documented("runs/create"):
            self._run = str(created["run"]["info"]["run_id"])

    def _experiment_of_its_name(self) -> str:
        try:
            return self._experiment_there()
        except _NoSuch:
            try:
                made = self._call("experiments/create", {"name": self._experiment})
            except Refused as error:  # another run may just have made it
                try:
                    return self._experiment_there()
                except _NoSuch:
                    raise error from None
        with _as_documented("experiments/create"):
            return str(made["experiment_id"])

    def _experiment_there(self) -> str:
        named = {"experiment_name": self._experiment}
        found = self._call("experiments/get-by-name", named, verb="GET")
        with _as_documented("experiments/get-by-name"):
            return str(found["experiment"]["experiment_id"])

    def add(self, points: Sequence[Point]) -> None:
        metrics = [
            {
                "key": name,
                "value": value,
                "timestamp": int(point.at * 1000),
                "step": point.step,
            }
            for point in points
            for name, value in point.values.items()
        ]
        for start in range(0, len(metrics), _METRICS):
            body = {"run_id": self._run, "metrics": metrics[start : start + _METRICS]}
            self._call("runs/log-batch", body)

    def end(self, how: str) -> None:
        body = {"run_id": self._run, "status": how, "end_time": int(time.time() * 1000)}
        self._call("runs/update", body)

    def _call(self, what: str, body: Mapping[str, Any], verb: str = "POST") -> dict[str, Any]:
        url, data = f"{self._url}/api/2.0/mlflow/{what}", None
        if verb == "GET":
            url += f"?{urlencode(body)}"
        else:
            data = json.dumps(body).encode()
        request = urllib.request.Request(url, data, method=verb)  # noqa: S310 - see _server
        request.add_header("Content-Type", "application/json")
        if self._authorization:
            request.add_header("Authorization", self._authorization)
        try:
            with self._open(request, timeout=_SECONDS) as answer:
                found = json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise _refusal(what, error) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            words = _one_line(str(error)) or type(error).__name__
            raise Unreachable(f"no answer to {what}: {words}") from None
        if not isinstance(found, dict):
            raise Unreachable(f"the answer to {what} is not MLflow's")
        return found


@contextmanager
def _as_documented(what: str) -> Iterator[None]:
    """Another server may answer at this address, and MLflow's later."""
    try:
        yield
    except (KeyError, IndexError, TypeError):
        raise Unreachable(f"the answer to {what} is not MLflow's") from None


class _NoSuch(Refused):
    """What was asked for is not there."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The credentials are for the server that was named."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _refusal(what: str, error: urllib.error.HTTPError) -> Exception:
    try:
        said = _one_line(error.read(500).decode(errors="replace"))
    except (OSError, ValueError, http.client.HTTPException):
        said = "nothing that can be read"
    words = f"{what} was answered with {error.code}: {said}"
    if error.code == _TOO_MANY or error.code >= _SERVER:
        return Unreachable(words)
    if error.code == _NO_SUCH and "RESOURCE_DOES_NOT_EXIST" in said:
        return _NoSuch(words)
    advice = "; look at MLFLOW_TRACKING_URI and the variables of its credentials"
    return Refused(words + advice)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _server(environment: Mapping[str, str]) -> tuple[str, str]:
    """The server's address, and what the header Authorization says to it. Raises Refused."""
    try:
        parts = urlsplit(environment["MLFLOW_TRACKING_URI"].strip())
        _ = parts.port
    except ValueError:  # whose words may quote the password
        raise Refused(
            "MLFLOW_TRACKING_URI cannot be read as an address; write signs of its password that "
            "are no letters or digits as %XX"
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused(
            f"MLFLOW_TRACKING_URI begins with '{parts.scheme}:'; it must be the address of a "
            "tracking server, http://HOST:PORT or https://HOST"
        )
    host = parts.netloc.rpartition("@")[2]
    url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
    # A secret often ends with a line's end; http.client would quote it in its refusal.
    if token := "".join(environment.get("MLFLOW_TRACKING_TOKEN", "").split()):
        return url, f"Bearer {token}"
    user = environment.get("MLFLOW_TRACKING_USERNAME") or unquote(parts.username or "")
    password = environment.get("MLFLOW_TRACKING_PASSWORD", "").rstrip("\r\n")
    password = password or unquote(parts.password or "")
    if not user:
        return url, ""
    return url, "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
