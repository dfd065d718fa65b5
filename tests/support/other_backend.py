"""A second backend's spec as it would join, with what every one has to answer and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from trainyard_contracts.cluster_base import ClusterBase, GroupBase


class OtherSpec(ClusterBase):
    """It has groups, and a number that no other backend knows."""

    backend: Literal["other"]
    instance_groups: list[GroupBase]
    shelves: int = Field(default=1, ge=1)

    def groups(self) -> Sequence[GroupBase]:
        return self.instance_groups

    def count_field(self, group: GroupBase) -> str:
        return f"instanceGroups.{self.instance_groups.index(group)}.count"

    @property
    def shared_path(self) -> str:
        return "/shared"

    @property
    def filesystem(self) -> str:
        return ""
