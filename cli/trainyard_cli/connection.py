"""Where the API is and with which credentials it is called: the local cloud's own, or the normal AWS ones."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .problems import Unreachable

_EXECUTE_API = re.compile(r"\.execute-api\.([a-z0-9-]+)\.amazonaws\.com")
DEFAULT_STATE_DIR = ".trainyard"


def state_directory(given: str | Path | None = None) -> Path:
    """The local cloud's state directory: as given, TRAINYARD_STATE_DIR, or ./.trainyard."""
    return Path(given or os.environ.get("TRAINYARD_STATE_DIR") or DEFAULT_STATE_DIR)


def read_local(state_dir: Path) -> dict[str, Any] | None:
    """The local cloud's local.json; None if there is none."""
    try:
        return dict(json.loads((state_dir / "local.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Unreachable(
            "The local cloud's file cannot be read",
            f"{state_dir / 'local.json'}: {error}",
            "Run: trainyard local down, then trainyard local up",
        ) from error


@dataclass(frozen=True)
class Connection:
    """One API. `local` is the local cloud's local.json, None for a deployment on AWS."""

    api_url: str
    region: str
    local: dict[str, Any] | None = None

    @classmethod
    def find(cls, endpoint: str | None = None, state_dir: str | Path | None = None) -> Connection:
        """By `endpoint`, TRAINYARD_API_URL, or the local cloud in the state directory. Raises Unreachable if none is there."""
        url = endpoint or os.environ.get("TRAINYARD_API_URL")
        local = read_local(state_directory(state_dir))
        if url:
            url = url.rstrip("/")
            # The local cloud's keys go to the local cloud only.
            ours = local if local and urlsplit(url).netloc == urlsplit(str(local["apiUrl"])).netloc else None
            return cls(url, _region(url, ours), ours)
        if local is None:
            raise Unreachable(
                "No Trainyard to talk to",
                f"there is no local cloud in {state_directory(state_dir)}, and TRAINYARD_API_URL is not set",
                "Start one with: trainyard local up; or give the stack's ApiUrl with --endpoint or TRAINYARD_API_URL",
            )
        return cls(str(local["apiUrl"]).rstrip("/"), str(local["region"]), local)

    @cached_property
    def credentials(self) -> Any:
        """botocore credentials that sign the calls; refreshed by botocore where they expire."""
        from botocore.credentials import Credentials
        from botocore.session import Session

        if self.local is not None:
            return Credentials(self.local["accessKeyId"], self.local["secretAccessKey"], self.local.get("sessionToken"))
        found = Session().get_credentials()
        if found is None:
            raise Unreachable(
                "No AWS credentials",
                "the API takes signed calls only, and neither the environment nor ~/.aws has credentials",
                "Run: aws configure sso, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            )
        return found

    def signed(self, method: str, url: str, body: bytes, headers: dict[str, str]) -> dict[str, str]:
        """Headers with a SigV4 signature for execute-api."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest(method=method, url=url, data=body, headers=headers)
        SigV4Auth(self.credentials.get_frozen_credentials(), "execute-api", self.region).add_auth(request)
        return dict(request.headers.items())


def _region(url: str, local: dict[str, Any] | None) -> str:
    if local:
        return str(local["region"])
    named = _EXECUTE_API.search(url)
    return named[1] if named else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
