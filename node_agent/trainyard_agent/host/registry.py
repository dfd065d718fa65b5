"""Asks a registry which image a reference names now: its digest, and whether it is for these nodes.

Enroot could ask, too; but its answers differ between versions, and it begins to import an image of
another architecture before it says so. The protocol is the OCI Distribution Specification's.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.signed_http import SignedHttp
from trainyard_contracts.images import Reference

TIMEOUT_SECONDS = 20.0
#: Manifests have at most 4 MiB (OCI Distribution Specification); configurations are smaller.
MOST_BYTES = 4 * 1024 * 1024
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ECR = re.compile(r"^([0-9]{12})\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
#: What the kernel calls a processor, and what images do.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class ImageRefused(Exception):
    """The image is not there, may not be pulled, or is not for these nodes, in words."""


@dataclass(frozen=True)
class Login:
    """A registry's user and password. The password is in no representation of it."""

    user: str
    password: str = field(repr=False)

    @property
    def header(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def ecr_region(registry: str) -> str | None:
    """The region of a private registry of Amazon ECR; None for any other registry."""
    found = _ECR.match(registry)
    return found[2] if found else None


def login(registry: str) -> Login | None:
    """What this node's role may pull with; None for a registry that is not ECR's.

    Raises Unreachable and ImageRefused.
    """
    region = ecr_region(registry)
    if region is None:
        return None
    headers = {
        "Content-Type": "application/x-amz-json-1.1",
        "X-Amz-Target": "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken",
    }
    digest = hashlib.sha256(b"{}").hexdigest()
    try:
        answer = SignedHttp("ecr", region).request(
            "POST", "/", headers=headers, payload_sha256=digest, body=b"{}"
        )
        token = json.loads(answer.body)["authorizationData"][0]["authorizationToken"]
        user, _, password = base64.b64decode(token).decode().partition(":")
    except Refused as refused:
        raise ImageRefused(
            f"the cluster's nodes may not log in to {registry}: HTTP {refused.status}; a cluster "
            "that was made by an older version of Trainyard has no permission to pull images, so "
            "make a new one"
        ) from None
    except (ValueError, KeyError, IndexError, TypeError):  # its text may hold the token
        raise Unreachable("Amazon ECR's answer to the login cannot be read") from None
    return Login(user, password)


class _Denied(Exception):
    """401: who asks must say who it is, in the way that the header names."""

    def __init__(self, challenge: str) -> None:
        super().__init__(challenge)
        self.challenge = challenge


class Registry:
    """One image of one registry."""

    def __init__(self, image: Reference, who: Login | None = None, scheme: str = "https") -> None:
        self._image, self._who = image, who
        self._top = f"{scheme}://{image.registry}/v2/{image.repository}"
        self._name = f"{image.registry}/{image.repository}"
        self._authorization = who.header if who else ""

    def digest(self, architecture: str) -> str:
        """The digest of the image for this kind of processor.

        Raises ImageRefused and Unreachable.
        """
        body = self._ask(f"manifests/{self._image.version}", ", ".join(_INDEXES + _MANIFESTS))
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if self._image.digest and digest != self._image.digest:
            raise Unreachable(f"{self._image.registry} answered with another image than asked for")
        manifest = _document(body)
        if isinstance(manifest.get("manifests"), list):
            return self._of_index(manifest["manifests"], architecture)
        config = manifest.get("config")
        if not isinstance(config, dict) or not isinstance(config.get("digest"), str):
            raise ImageRefused("its manifest is of a kind that is not known; push it anew")
        about = _document(self._ask(f"blobs/{config['digest']}", "*/*"))
        self._require(architecture, {str(about.get("architecture") or architecture)})
        return digest

    def _of_index(self, entries: list[Any], architecture: str) -> str:
        found = {
            str(platform.get("architecture")): str(entry.get("digest"))
            for entry in reversed(entries)  # of several for one architecture the first counts
            if isinstance(entry, dict) and isinstance(platform := entry.get("platform"), dict)
            if platform.get("os") == "linux"
        }
        self._require(architecture, found)
        return found[architecture]

    def _require(self, architecture: str, there: Mapping[str, str] | set[str]) -> None:
        if architecture not in there:
            raise ImageRefused(
                f"it is for {', '.join(sorted(there)) or 'no Linux'}, and the job's nodes are "
                f"{architecture}; build it for linux/{architecture}, too"
            )

    # -- HTTP -------------------------------------------------------------------------------------
    def _ask(self, path: str, accept: str) -> bytes:
        try:
            return self._get(path, accept)
        except _Denied as denied:
            self._authorization = self._token(denied.challenge)
        try:
            return self._get(path, accept)
        except _Denied:
            raise self._forbidden(401) from None

    def _get(self, path: str, accept: str) -> bytes:
        request = urllib.request.Request(  # noqa: S310 - the scheme is ours
            f"{self._top}/{path}", headers={"Accept": accept}
        )
        if self._authorization:  # not to the storage that a registry sends us on to
            request.add_unredirected_header("Authorization", self._authorization)
        try:
            return _body(request)
        except urllib.error.HTTPError as error:
            challenge = error.headers.get("WWW-Authenticate") or ""
            if error.code == 401 and challenge.lower().startswith("bearer "):
                raise _Denied(challenge) from None
            raise self._forbidden(error.code) from None

    def _forbidden(self, status: int) -> Exception:
        if status == 404:
            return ImageRefused(f"{self._name} has no image '{self._image.version}'")
        if status in (401, 403):
            why = (
                "the cluster's nodes may not pull it: the stack's parameter JobImages and the "
                "policy of the repository decide"
                if ecr_region(self._image.registry)
                else "it is not there, or not public; of private registries only Amazon ECR's "
                "are known"
            )
            return ImageRefused(f"{self._name} refuses '{self._image.version}': {why}")
        return Unreachable(f"{self._image.registry} answered {status}")

    def _token(self, challenge: str) -> str:
        """What anybody may have; no password goes to where a registry's answer points."""
        given = dict(_PARAMETER.findall(challenge))
        realm = given.get("realm", "")
        query = {name: given[name] for name in ("service", "scope") if name in given}
        secure = self._top.startswith("http://") or realm.startswith("https://")
        if not realm.startswith(("https://", "http://")) or not secure:
            raise self._forbidden(401)
        request = urllib.request.Request(  # noqa: S310 - only the two schemes above
            f"{realm}?{urllib.parse.urlencode(query)}"
        )
        try:
            said = _document(_body(request))
        except urllib.error.HTTPError as error:
            raise self._forbidden(error.code) from None
        return f"Bearer {said.get('token') or said.get('access_token') or ''}"


def _body(request: urllib.request.Request) -> bytes:
    """Raises HTTPError, and Unreachable where there is no answer."""
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            body: bytes = answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{request.host} does not answer: {error}") from error
    if len(body) > MOST_BYTES:
        raise ImageRefused(f"{request.host} answered with more than {MOST_BYTES} bytes")
    return body


def _document(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unreachable("the registry's answer cannot be read")
    return found
