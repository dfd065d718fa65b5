"""Reads the secrets that a job asks for from Secrets Manager, with the node's own role.

The controller's agent looks whether they are there before it submits the job. Each node's launcher
then reads them for itself (`trainyard-agent read-secrets`), so that no value is ever written to a
disk or handed to Slurm. No message here has a secret's value, or any part of one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, TextIO

from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.signed_http import SignedHttp

#: A node that boots may have no credentials for a moment, and thousands may ask at once.
PAUSES_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)

_HEADERS = {
    "Content-Type": "application/x-amz-json-1.1",
    "X-Amz-Target": "secretsmanager.GetSecretValue",
}


class SecretRefused(Exception):
    """A secret is not there, or not for this cluster; the message says which and what would help.

    It may be read by somebody who must not know the secret.
    """


class Secrets:
    """Secrets Manager in one region."""

    def __init__(self, region: str) -> None:
        self._region = region
        self._http: SignedHttp | None = None

    def read(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """The values of `name` or `name:key` by variable. Raises SecretRefused and Unreachable."""
        texts: dict[str, str] = {}
        found = {}
        for variable, reference in wanted.items():
            name, _, key = reference.partition(":")
            if name not in texts:
                texts[name] = self._ask(name)
            found[variable] = value_of(texts[name], name, key)
        return found

    def _ask(self, name: str) -> str:
        self._http = self._http or SignedHttp("secretsmanager", self._region)
        body = json.dumps({"SecretId": name}).encode()
        digest = sha256(body).hexdigest()
        try:
            answer = self._http.request(
                "POST", "/", headers=_HEADERS, payload_sha256=digest, body=body
            )
        except Refused as refused:
            raise SecretRefused(_why(name, str(refused))) from None
        if answer.status == 404:  # moto's; AWS documents 400
            raise SecretRefused(_why(name, "ResourceNotFoundException"))
        if answer.status != 200:
            raise Unreachable(f"Secrets Manager answered {answer.status}")
        return _text(answer.body, name)


def value_of(text: str, name: str, key: str) -> str:
    """The secret, or one value of one that holds a JSON object. Raises SecretRefused."""
    value: Any = text
    if key:
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise SecretRefused(
                f"secret '{name}' holds no JSON object, so it has no key '{key}'; "
                f"ask for '{name}' alone"
            )
        if not isinstance(document.get(key), str):
            raise SecretRefused(f"secret '{name}' has no text under the key '{key}'")
        value = document[key]
    if "\x00" in value:
        raise SecretRefused(f"secret '{name}' holds a NUL character, which no variable can hold")
    return str(value)


def _text(body: bytes, name: str) -> str:
    try:
        text = json.loads(body).get("SecretString")
    except (ValueError, AttributeError):
        raise Unreachable("Secrets Manager's answer cannot be read") from None
    if not isinstance(text, str):
        raise SecretRefused(f"secret '{name}' holds binary data; a variable needs text")
    return text


def _why(name: str, refused: str) -> str:
    if "ResourceNotFoundException" in refused:
        return (
            f"there is no secret '{name}' in Secrets Manager in this cluster's region and account"
        )
    if "AccessDenied" in refused:
        return (
            f"the cluster's nodes may not read secret '{name}': it must be in jobSecrets of the "
            "cluster's spec and match the stack's parameter JobSecrets"
        )
    return f"Secrets Manager refuses secret '{name}': {refused[:300]}"


def answer(
    request: TextIO, read: Callable[[str, Mapping[str, str]], dict[str, str]] | None = None
) -> dict[str, Any]:
    """What `trainyard-agent read-secrets` prints: `{values}`, or `error` and `message`."""
    asked = json.loads(request.read())
    reader = read or (lambda region, wanted: Secrets(region).read(wanted))
    for pause in (*PAUSES_SECONDS, None):
        try:
            return {"values": reader(asked["region"], asked["secrets"])}
        except SecretRefused as refused:
            return {"error": "secret-refused", "message": str(refused)}
        except Unreachable as error:
            if pause is None:
                return {"error": "unreachable", "message": str(error)}
            time.sleep(pause)
    raise AssertionError("unreachable")


def main() -> int:
    said = answer(sys.stdin)
    print(json.dumps(said))
    return 1 if "error" in said else 0
