"""Where the API is, and the credentials for it: the local cloud's own, or the normal AWS ones."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from ..problems import InvalidInput, Refused, Unreachable

#: What of local.json the client lives on.
_NEEDED = ("endpoint", "apiUrl", "region", "accessKeyId", "secretAccessKey")
_EXECUTE_API = re.compile(r"\.execute-api\.([a-z0-9-]+)\.amazonaws\.com")
DEFAULT_STATE_DIR = ".trainyard"
#: Names a user of the local cloud, who signs the calls in place of its owner.
LOCAL_USER = "TRAINYARD_LOCAL_USER"


def state_directory(given: str | Path | None = None) -> Path:
    """The local cloud's state directory: as given, TRAINYARD_STATE_DIR, or ./.trainyard."""
    return Path(given or os.environ.get("TRAINYARD_STATE_DIR") or DEFAULT_STATE_DIR)


def read_local(state_dir: Path) -> dict[str, Any] | None:
    """The local cloud's local.json; None if there is none."""
    try:
        return _whole(json.loads((state_dir / "local.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Unreachable(
            "The local cloud's file cannot be read",
            f"{state_dir / 'local.json'}: {error}",
            "Run: trainyard local down, then trainyard local up",
        ) from error


def _whole(document: Any) -> dict[str, Any]:
    missing = [
        name
        for name in _NEEDED
        if not isinstance(document, dict) or not isinstance(document.get(name), str)
    ]
    if missing:
        raise ValueError(f"it has no {' and no '.join(missing)}")
    return dict(document)


@dataclass(frozen=True)
class Connection:
    """One API. `local` is the local cloud's local.json, None for a deployment on AWS."""

    api_url: str
    region: str
    local: dict[str, Any] | None = None

    @classmethod
    def find(cls, endpoint: str | None = None, state_dir: str | Path | None = None) -> Connection:
        """By `endpoint`, TRAINYARD_API_URL, or the local cloud in the state directory.

        Raises InvalidInput for an endpoint that is no URL, Unreachable if the API's place is not
        known.
        """
        given = endpoint or os.environ.get("TRAINYARD_API_URL")
        if not given:
            return cls.of_local(state_directory(state_dir))
        url = _checked(given)
        local = read_local(state_directory(state_dir))
        # The local cloud's keys go to the local cloud only.
        ours = local if local and urlsplit(url).netloc == urlsplit(local["apiUrl"]).netloc else None
        return cls(url, _region(url, ours), ours)

    @classmethod
    def of_local(cls, state_dir: Path) -> Connection:
        """The local cloud in that directory. The environment is not read.

        Raises Unreachable if none is there.
        """
        local = read_local(state_dir)
        if local is None:
            raise Unreachable(
                "No Trainyard to talk to",
                f"there is no local cloud in {state_dir}",
                (
                    "Start one with: trainyard local up; or name the directory of one that is up "
                    "with --state-dir or TRAINYARD_STATE_DIR; or give a stack's ApiUrl with "
                    "--endpoint or TRAINYARD_API_URL"
                ),
            )
        return cls(local["apiUrl"].rstrip("/"), local["region"], local)

    @cached_property
    def credentials(self) -> Any:
        """botocore credentials that sign the calls; botocore refreshes those that expire.

        Raises Refused.
        """
        from botocore.credentials import Credentials
        from botocore.session import Session

        if self.local is not None:
            if user := os.environ.get(LOCAL_USER):
                state_dir = Path(self.local.get("stateDir") or DEFAULT_STATE_DIR)
                return Credentials(*_keys_of(user, state_dir))
            return Credentials(
                self.local["accessKeyId"],
                self.local["secretAccessKey"],
                self.local.get("sessionToken"),
            )
        with usable_credentials():
            found = Session().get_credentials()
        if found is None:
            raise Refused(
                "No AWS credentials",
                (
                    f"{self.api_url} takes signed calls only, and neither the environment nor "
                    "~/.aws has credentials"
                ),
                "Run: aws configure sso, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            )
        return found

    def signed(self, method: str, url: str, body: bytes, headers: dict[str, str]) -> dict[str, str]:
        """Headers with a SigV4 signature for execute-api. Raises Refused."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest(method=method, url=url, data=body, headers=headers)
        with usable_credentials():
            credentials = self.credentials.get_frozen_credentials()
        SigV4Auth(credentials, "execute-api", self.region).add_auth(request)
        return dict(request.headers.items())


def _keys_of(user: str, state_dir: Path) -> tuple[str, str]:
    """The key that `trainyard local user add` wrote. Raises Refused."""
    path = state_dir / "people" / f"{user}.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8")) if "/" not in user else {}
        return str(document["accessKeyId"]), str(document["secretAccessKey"])
    except (OSError, ValueError, KeyError):
        raise Refused(
            "The local cloud has no such user",
            f"{LOCAL_USER} is '{user}', whose key is not in {state_dir / 'people'}",
            f"Make the user with: trainyard local user add NAME; or unset {LOCAL_USER}",
        ) from None


@contextmanager
def usable_credentials() -> Iterator[None]:
    """A missing profile or an expired login is for the user to mend, in botocore's words."""
    from botocore.exceptions import BotoCoreError

    try:
        yield
    except BotoCoreError as error:
        raise Refused(
            "The AWS credentials cannot be used",
            str(error),
            "Check AWS_PROFILE and ~/.aws/config, or log in again: aws sso login",
        ) from error


def _checked(given: str) -> str:
    """The API's URL without a slash at its end. Raises InvalidInput for what is none."""
    wrong = _mistake(given)
    if wrong:
        raise InvalidInput(
            "The endpoint is not the URL of an API",
            f"--endpoint or TRAINYARD_API_URL: '{given}' {wrong}",
            (
                "Give the stack's ApiUrl, such as "
                "https://abc123.execute-api.us-east-1.amazonaws.com; "
                "without one the local cloud is used"
            ),
        )
    return given.rstrip("/")


def _mistake(given: str) -> str | None:
    try:
        url = httpx.URL(given)
    except httpx.InvalidURL as error:
        return f"is not a URL: {error}"
    if url.scheme not in ("http", "https"):
        return "does not begin with https:// (or http://)"
    if not url.host:
        return "names no host"
    if url.userinfo or url.query or url.fragment:
        return "has more than scheme, host and path"
    return None


def _region(url: str, local: dict[str, Any] | None) -> str:
    if local:
        return str(local["region"])
    named = _EXECUTE_API.search(url)
    return (
        named[1]
        if named
        else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    )
