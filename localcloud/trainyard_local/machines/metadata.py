"""The instance metadata service of machine nodes: the role's temporary credentials.

A node gets them if it asks as version 2 of the service demands.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone

from trainyard_local.machines.bridge_server import Answer, Asked, BridgeServer

CREDENTIALS = "/latest/meta-data/iam/security-credentials/"
ROLE = "node"
VALID = timedelta(hours=6)

#: Environment variables of a role's credentials, for the node with this address. None if there is
#: no such node.
CredentialsOf = Callable[[str], Mapping[str, str] | None]


class Metadata(BridgeServer):
    """Answers only requests with a token, and gives a token only for a named time."""

    def __init__(self, host: str, credentials_of: CredentialsOf) -> None:
        self._credentials_of = credentials_of
        self._tokens: set[str] = set()
        super().__init__(host, "metadata", self._answer)

    def _answer(self, asked: Asked) -> Answer:
        if asked.method == "PUT":
            return self._token(asked)
        if asked.headers.get("X-aws-ec2-metadata-token") not in self._tokens:
            return Answer(401)
        if asked.path == CREDENTIALS:
            return Answer(200, ROLE.encode())
        if asked.path == CREDENTIALS + ROLE and (found := self._credentials_of(asked.address)):
            return Answer(200, json.dumps(_document(found)).encode())
        return Answer(404)

    def _token(self, asked: Asked) -> Answer:
        if asked.path != "/latest/api/token":
            return Answer(404)
        if not (asked.headers.get("X-aws-ec2-metadata-token-ttl-seconds") or "").isdecimal():
            return Answer(400)
        token = secrets.token_urlsafe(24)
        self._tokens.add(token)
        return Answer(200, token.encode())


def _document(credentials: Mapping[str, str]) -> dict[str, str]:
    now = datetime.now(timezone.utc)
    return {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "LastUpdated": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "Expiration": f"{now + VALID:%Y-%m-%dT%H:%M:%SZ}",
        "AccessKeyId": credentials["AWS_ACCESS_KEY_ID"],
        "SecretAccessKey": credentials["AWS_SECRET_ACCESS_KEY"],
        "Token": credentials["AWS_SESSION_TOKEN"],
    }
