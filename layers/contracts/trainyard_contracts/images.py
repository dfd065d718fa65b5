"""What `job.image` may be: an image of a registry, by the grammar of OCI references, or a file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from .base import judged

#: Where Docker's clients look for an image whose name begins with no registry.
DOCKER_HUB = "registry-1.docker.io"
MOST_CHARACTERS = 1024

_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::[0-9]{1,5})?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:(?P<registry>{_HOST})/)?(?P<repository>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_FILE = re.compile(r"(?:/[A-Za-z0-9_.-]+)+\.sqsh")
_WANTED = (
    "must be an image such as 763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-training:2.7 "
    "(REGISTRY/NAME with :TAG, @sha256:DIGEST or both), or the absolute path of a .sqsh file on "
    "the shared filesystem such as /fsx/images/train.sqsh"
)


@dataclass(frozen=True)
class Reference:
    """An image of a registry; `version` is what to ask the registry for."""

    registry: str
    repository: str
    tag: str
    digest: str

    @property
    def version(self) -> str:
        return self.digest or self.tag or "latest"


def is_file(image: str) -> bool:
    """Whether it is a file on the shared filesystem, and not an image of a registry."""
    return image.startswith("/")


def reference(image: str) -> Reference:
    """Raises ValueError."""
    found = _REFERENCE.fullmatch(image)
    if found is None or len(image) > MOST_CHARACTERS:
        raise ValueError(_WANTED)
    registry, repository = found["registry"] or "", found["repository"]
    # As Docker reads it: without a dot or a port, the first part is no registry.
    if registry and registry != "localhost" and not set(registry) & {".", ":"}:
        registry, repository = "", f"{registry}/{repository}"
        if re.fullmatch(rf"{_PART}(?:/{_PART})*", repository) is None:
            raise ValueError(_WANTED)
    if registry in ("", "docker.io", "index.docker.io", DOCKER_HUB):
        registry = DOCKER_HUB
        repository = repository if "/" in repository else f"library/{repository}"
    return Reference(registry, repository, found["tag"] or "", found["digest"] or "")


def image_name(image: str) -> str:
    """The same, if it is a name that an image may have. Raises ValueError."""
    if not is_file(image):
        reference(image)
    elif not _FILE.fullmatch(image) or {".", ".."} & set(image.split("/")):
        raise ValueError(_WANTED)
    return image


ImageName = Annotated[str, judged(image_name)]
