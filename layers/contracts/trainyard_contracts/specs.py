"""What a user may ask for: a run, validated field by field before anything is created."""

from typing import Literal

from pydantic import Field
from typing_extensions import Self

from .base import Name, RunId, Strict, rule
from .checkpoint_spec import CheckpointSpec, StartSpec
from .cluster_ref import ClusterRef
from .cluster_specs import ClusterSpec
from .export_spec import ExportSpec
from .inputs import InputSpec, RunOutputs, meeting
from .job_python import JobPythonEnvironment
from .job_spec import JobSpec
from .job_words import EnvironmentName, ModuleName, SecretReference, TextOrNumber
from .labels import Labels
from .run_bounds import BudgetSpec, LimitSpec, RecoverySpec
from .run_fit import given, unfit_input
from .sharing import Priority
from .watching import ProgressSetting

__all__ = [
    "BudgetSpec",
    "CheckpointSpec",
    "ClusterRef",
    "EnvironmentName",
    "ExportSpec",
    "JobPythonEnvironment",
    "JobSpec",
    "LimitSpec",
    "ModuleName",
    "RecoverySpec",
    "SecretReference",
    "StartSpec",
    "TextOrNumber",
]


class RunSpec(Strict):
    """One training job's whole life: cluster, job, checkpoints, export, teardown."""

    name: Name = Field(description="for people; an id tells runs apart")
    labels: Labels = Field(default_factory=dict)
    cluster: ClusterRef = Field(description="where it runs")
    job: JobSpec = Field(description="what runs there")
    inputs: list[InputSpec] = Field(
        default_factory=list,
        max_length=16,
        description="data that the program finds when it starts",
    )
    after: list[RunId] = Field(
        default_factory=list,
        max_length=16,
        description="runs that must have ended before this one begins; until then it is Waiting, "
        "has no cluster of its own, and its limits do not count",
    )
    after_policy: Literal["success", "end"] = Field(
        default="success",
        description="success: the run fails as soon as one of 'after' does not succeed; end: it "
        "begins when all of them have ended, however they did",
    )
    priority: Priority = 0
    checkpoint: CheckpointSpec = Field(
        default=CheckpointSpec(), description="when its state is saved on the cluster"
    )
    progress: ProgressSetting = Field(
        default="auto",
        description="where the steps of a program that reports none are read; auto: in its log, as "
        "the usual programs print them; none: nowhere. What a program reports itself comes first",
    )
    export: ExportSpec = Field(default=ExportSpec(), description="what is copied to S3")
    recovery: RecoverySpec = Field(
        default=RecoverySpec(), description="how often it is tried again after failures"
    )
    limits: LimitSpec = Field(default=LimitSpec(), description="how long it may take")
    budget: BudgetSpec | None = Field(
        default=None,
        description="what it may cost; refused where no price is known, and none is given in the "
        "cluster's hourlyUsd",
    )
    teardown: Literal["always", "on-success", "never"] | None = Field(
        default=None,
        description="whether the run's end deletes its cluster; default: 'always' for a cluster "
        "made for this run, 'never' for an existing one",
    )

    @rule
    def _apart(self) -> Self:
        if problem := meeting(self.inputs, self.job.files):
            raise ValueError(problem)
        return self

    @rule
    def _chained(self) -> Self:
        for number, run_id in enumerate(self.after):
            if run_id in self.after[:number]:
                raise ValueError(f"after.{number}: {run_id} is named twice; name each run once")
        if self.after_policy == "end" and not self.after:
            raise ValueError(
                "afterPolicy: is for a run that waits for others; name them in 'after'"
            )
        for number, one in enumerate(self.inputs):
            outputs = RunOutputs.of(one.source)
            if outputs is not None and outputs.run_id not in self.after:
                raise ValueError(
                    f"inputs.{number}.source: reads what {outputs.run_id} exports; name that run "
                    "in 'after', too"
                )
        return self

    @rule
    def _fits(self) -> Self:
        spec = self.cluster.spec
        if spec is None:
            if self.teardown not in (None, "never"):
                raise ValueError(
                    "teardown: a run never deletes a cluster that it did not create; use 'never'"
                )
            return self
        if unfit := self.unfit(spec):
            raise ValueError(f"{unfit[0]}: {unfit[1]}{self._or_more(unfit[0], spec)}")
        for number, other in enumerate(self.cluster.otherwise):
            if unfit := self.on(other).unfit(other):
                raise ValueError(
                    f"cluster.otherwise.{number}: this run cannot be of backend "
                    f"'{other.backend}': {unfit[0]}: {unfit[1]}"
                )
        return self

    def on(self, cluster: ClusterSpec) -> Self:
        """The same run with one spec only, which may be one of `cluster.otherwise`."""
        return self.changed(cluster=self.cluster.changed(spec=cluster, otherwise=[]))

    def _or_more(self, field: str, cluster: ClusterSpec) -> str:
        """The other way out, where the run's own cluster has too few nodes."""
        workers = cluster.workers(self.job.partition)
        enough = self.job.nodes <= cluster.worker_count(self.job.partition)
        if field != "job.nodes" or not workers or enough:
            return ""
        return (
            f", or give group '{workers[0].name}' of its cluster more: "
            f"cluster.spec.{cluster.count_field(workers[0])}"
        )

    def unfit(self, cluster: ClusterSpec) -> tuple[str, str] | None:
        """Why the cluster can never run this: the field that is wrong, and a sentence."""
        if self.cluster.name is not None and cluster.nodes_come_with_jobs:
            return (
                "cluster.name",
                f"cluster '{cluster.name}' was made for one run and has no nodes between its jobs; "
                "give cluster.spec",
            )
        for field, words in cluster.not_for_runs().items():
            if given(self, field):
                return field, words
        if found := self.job.unfit(cluster):
            return f"job.{found[0]}", found[1]
        for number, one in enumerate(self.inputs):
            if found := unfit_input(one, cluster):
                return f"inputs.{number}.{found[0]}", found[1]
        return None

    @property
    def teardown_policy(self) -> Literal["always", "on-success", "never"]:
        """The teardown in force, defaults applied."""
        return self.teardown or ("always" if self.cluster.spec is not None else "never")
