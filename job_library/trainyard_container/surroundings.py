"""Where this container is: its run and attempt, its host among the job's hosts, and where what the
run makes goes. Read once, from variables and SageMaker's own file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trainyard_contracts import places

#: What SageMaker lays out, and where the run's directory is below it.
ML = Path("/opt/ml")
_RESOURCES = "input/config/resourceconfig.json"
_RUNS = "trainyard/runs"
#: The courier's ports, beside those of the rendezvous.
FIRST_PORT, PORTS = 20000, 10000


class Unfit(Exception):
    """The container cannot do its work. The message says what is missing and what would help.

    `lasting`: another attempt would meet the same.
    """

    def __init__(self, words: str, *, lasting: bool = False) -> None:
        super().__init__(words)
        self.lasting = lasting


@dataclass(frozen=True)
class Place:
    """A bucket and the beginning of keys in it; '' or with a slash at its end."""

    bucket: str
    prefix: str

    @classmethod
    def of(cls, uri: str, name: str) -> Place:
        """From s3://bucket/prefix/. Raises Unfit, which names the variable."""
        parts = urlsplit(uri)
        if parts.scheme != "s3" or not parts.netloc:
            raise Unfit(f"{name}: '{uri}' is no S3 URI; give s3://BUCKET/PREFIX")
        return cls(parts.netloc, parts.path.lstrip("/"))


@dataclass(frozen=True)
class Surroundings:
    """`hosts` are in the order of their ranks; the first one commits and reports."""

    run_id: str
    attempt: int
    bundle: Place
    bundle_sha256: str
    data: Place
    event_bus: str
    cluster: str
    cluster_arn: str
    key_secret: str
    region: str
    job_name: str
    host: str
    hosts: tuple[str, ...]
    interface: str
    ml: Path = ML

    @property
    def is_first(self) -> bool:
        return self.host == self.hosts[0]

    @property
    def run_dir(self) -> Path:
        return self.ml / _RUNS / self.run_id

    @property
    def attempt_dir(self) -> Path:
        return self.run_dir / places.ATTEMPTS / str(self.attempt)

    @property
    def courier_port(self) -> int:
        """Of the attempt's own, as its rendezvous has."""
        digest = hashlib.sha256(f"courier/{self.run_id}/{self.attempt}".encode()).digest()
        return FIRST_PORT + int.from_bytes(digest[:4], "big") % PORTS


def read(environment: Mapping[str, str], ml: Path = ML) -> Surroundings:
    """Raises Unfit."""
    resources = _resources(ml / _RESOURCES)
    hosts = tuple(sorted(map(str, resources["hosts"]), key=_number))
    number = _variable(environment, "TRAINYARD_ATTEMPT")
    if not number.isdigit() or int(number) < 1:
        raise Unfit(f"TRAINYARD_ATTEMPT: '{number}' is no attempt; give a whole number from 1 on")
    data = Place.of(_variable(environment, "TRAINYARD_DATA"), "TRAINYARD_DATA")
    return Surroundings(
        run_id=_variable(environment, "TRAINYARD_RUN_ID"),
        attempt=int(number),
        bundle=Place.of(_variable(environment, "TRAINYARD_BUNDLE"), "TRAINYARD_BUNDLE"),
        bundle_sha256=_variable(environment, "TRAINYARD_BUNDLE_SHA256"),
        data=Place(data.bucket, data.prefix.rstrip("/") + "/"),
        event_bus=_variable(environment, "TRAINYARD_EVENT_BUS"),
        cluster=_variable(environment, "TRAINYARD_CLUSTER"),
        cluster_arn=_variable(environment, "TRAINYARD_CLUSTER_ARN"),
        key_secret=_variable(environment, "TRAINYARD_KEY_SECRET"),
        region=environment.get("AWS_REGION") or _variable(environment, "AWS_DEFAULT_REGION"),
        job_name=environment.get("TRAINING_JOB_NAME", ""),
        host=str(resources["current_host"]),
        hosts=hosts,
        interface=str(resources.get("network_interface_name") or "eth0"),
        ml=ml,
    )


def _variable(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise Unfit(f"{name} is not set; Trainyard sets it in the job's Environment")
    return value


def _resources(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
        if found["current_host"] not in found["hosts"]:
            raise ValueError("current_host is none of its hosts")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unfit(f"{path} cannot be read: {error!r}; SageMaker writes it") from None
    return dict(found)


def _number(host: str) -> tuple[int, str]:
    """algo-2 comes before algo-10."""
    number = host.rpartition("-")[2]
    return (int(number) if number.isdigit() else 0, host)
