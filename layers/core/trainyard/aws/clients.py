"""Clients of AWS, made on first use and kept: loading a service model is slower than most calls."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botocore.session import Session

#: A function's own time limit is short: fail fast and let Step Functions repeat the step.
_TIMEOUTS = {"connect_timeout": 3, "read_timeout": 10}
_ATTEMPTS = 3
#: A price is a courtesy in a dry run, which must not wait for it.
_ATTEMPTS_OF = {"pricing": 1}
#: botocore's own choice for a URL that others use: in us-east-1 a signature that leaves the headers
#: out, and a host that sends buckets of other regions elsewhere.
_ONLY_FOR: Mapping[str, Mapping[str, Any]] = {
    "s3": {"signature_version": "s3v4", "s3": {"addressing_style": "virtual"}}
}


@cache
def session() -> Session:
    """One session a process: it caches the loaded models and the credentials.

    botocore's own: boto3 adds a second folder of models to search, which costs time at a cold start
    and is not used here.
    """
    import botocore.session

    return botocore.session.Session()


@cache
def client(service: str, region: str) -> Any:
    """The client of a service.

    The region is always named: Lambda sets AWS_REGION, which botocore does not read.
    """
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS_OF.get(service, _ATTEMPTS)},
        max_pool_connections=16,
        **_TIMEOUTS,
        **_ONLY_FOR.get(service, {}),
    )
    return session().create_client(service, region_name=region, config=config)


class Lazy:
    """A client that is made on the first call: a function pays only for services it uses."""

    def __init__(self, service: str, region: str) -> None:
        self._service = service
        self._region = region

    def __getattr__(self, name: str) -> Any:
        value = getattr(client(self._service, self._region), name)
        if not name.startswith("__"):
            self.__dict__[name] = value
        return value
