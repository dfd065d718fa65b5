"""Packages of one job's own."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import Self

from .base import Strict, matching, rule
from .cluster_parts import Requirement


class JobPythonEnvironment(Strict):
    """Packages of one job's own.

    Built once on the shared filesystem, on top of the cluster's environment, before the job's first
    attempt.
    """

    kind: Literal["venv", "uv", "conda"] = Field(
        default="venv", description="'uv' and 'conda' need that program on the nodes"
    )
    python: (
        Annotated[str, matching(r"^3\.[0-9]{1,2}$", "must be a version of Python such as 3.11")]
        | None
    ) = Field(
        default=None,
        description="version such as '3.11', for uv and conda; "
        "default: that of the cluster's environment",
    )
    requirements: list[Requirement] = Field(
        min_length=1, max_length=200, description="packages to install for the job"
    )

    @rule
    def _version(self) -> Self:
        if self.kind == "venv" and self.python is not None:
            raise ValueError(
                "python: a venv has the Python of the cluster's environment; "
                "use kind 'uv' or 'conda' for another version"
            )
        return self
