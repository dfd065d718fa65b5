"""Which cluster a run uses."""

from pydantic import Field
from typing_extensions import Self

from .base import Name, Strict, rule
from .cluster_specs import ClusterSpec


class ClusterRef(Strict):
    """The cluster a run uses: an existing one by `name`, or one made for it from `spec`."""

    name: Name | None = Field(default=None, description="of a cluster that is there")
    spec: ClusterSpec | None = Field(
        default=None, description="of a cluster that is made for this run"
    )
    otherwise: list[ClusterSpec] = Field(
        default_factory=list,
        max_length=5,
        description="whole specs, of other backends too, that are tried in this order while AWS "
        "has no capacity for any way of spec; each may have capacity of its own",
    )

    @rule
    def _others(self) -> Self:
        if self.otherwise and self.spec is None:
            raise ValueError("otherwise: is for a cluster that is made for the run; give spec, too")
        for number, other in enumerate(self.otherwise):
            if self.spec is not None and other.name != self.spec.name:
                raise ValueError(
                    f"otherwise.{number}.name: it is the same cluster, made elsewhere; give it the "
                    f"name of spec, '{self.spec.name}'"
                )
        return self

    @rule
    def _one(self) -> Self:
        if (self.name is None) == (self.spec is None):
            raise ValueError(
                "give one of 'name' (an existing cluster) and 'spec' (a cluster made for this run)"
            )
        return self
