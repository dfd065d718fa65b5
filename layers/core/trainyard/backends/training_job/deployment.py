"""What a deployment adds to every training job: its names, its bucket, its account."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.domain import names
from trainyard.domain.records import Cluster
from trainyard_contracts import places


@dataclass(frozen=True)
class JobDeployment:
    """Of one stack, in one region."""

    stage: str
    region: str
    bucket: str
    event_bus: str
    secret_prefix: str
    node_boundary_arn: str

    @property
    def partition(self) -> str:
        return self.node_boundary_arn.split(":")[1]

    def account_arn(self, service: str, region: str | None = None) -> str:
        """The beginning of an ARN of this account, up to its resource."""
        account = self.node_boundary_arn.split(":")[4]
        where = self.region if region is None else region
        return f"arn:{self.partition}:{service}:{where}:{account}"

    def role_path(self, cluster: Cluster) -> str:
        return names.job_role_path(self.stage, cluster.name, cluster.generation, cluster.created_at)

    def role_name(self, cluster: Cluster) -> str:
        return names.node_role(self.stage, cluster.name, cluster.generation)

    def role_arn(self, cluster: Cluster) -> str:
        """Of the role that the cluster's jobs act under; it is the cluster's own ARN, too."""
        return self.found_role_arn(self.role_path(cluster), self.role_name(cluster))

    def found_role_arn(self, path: str, name: str) -> str:
        return f"{self.account_arn('iam', '')}:role{path}{name}"

    def job_name(self, run_id: str, attempt: int) -> str:
        return places.job_name(self.stage, run_id, attempt)

    def attempt_of(self, job_name: str) -> tuple[str, int] | None:
        """Run and attempt of a job; None for one that is not this stack's."""
        return places.attempt_of_job(self.stage, job_name)

    def data_uri(self, cluster: str, run_id: str) -> str:
        """Where a run has its directory in S3; ends with a slash."""
        return f"s3://{self.bucket}/{places.directory_prefix(cluster, run_id)}"

    def source_key(self, cluster: Cluster, name: str) -> str:
        """Of the archive with the container's program."""
        return f"{places.lifecycle_prefix(cluster.name, cluster.generation)}/{name}"
