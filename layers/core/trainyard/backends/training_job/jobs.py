"""Training jobs of this stack at SageMaker: made, described, found, stopped, and their pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from trainyard.backends.training_job.deployment import JobDeployment
from trainyard.backends.training_job.refusals import Ended, Gone, translated
from trainyard_contracts.places import CLUSTER_TAG, STAGE_TAG

_PAGE = 100
#: Of a run's jobs, the newest are looked at.
_NEWEST = 10
#: Of a cluster that was made for a run, so many characters of its name are the run's.
_OF_THE_RUN = 6

Summary = Mapping[str, Any]


class Jobs:
    """Each method is one question or one wish; all may be repeated."""

    def __init__(self, sagemaker: Any, deployment: JobDeployment) -> None:
        self._sagemaker = sagemaker
        self._deployment = deployment

    def create(self, request: Mapping[str, Any]) -> None:
        """Raises NameInUse, errors.BackendRejected, errors.NoCapacity, errors.RetryableError."""
        with translated("create the training job", new_role=str(request["RoleArn"])):
            self._sagemaker.create_training_job(**request)

    def describe(self, name: str) -> dict[str, Any] | None:
        """None where there is no such job."""
        try:
            with translated("describe the training job"):
                return dict(self._sagemaker.describe_training_job(TrainingJobName=name))
        except Gone:
            return None

    def tags(self, arn: str) -> dict[str, str]:
        with translated("read a training job's tags"):
            answer = self._sagemaker.list_tags(ResourceArn=arn, MaxResults=_PAGE)
        return {tag["Key"]: tag["Value"] for tag in answer.get("Tags", [])}

    def stop(self, name: str) -> None:
        """Ask the job to end; one that is over is fine."""
        try:
            with translated("stop the training job"):
                self._sagemaker.stop_training_job(TrainingJobName=name)
        except (Ended, Gone):
            pass

    def release(self, name: str) -> None:
        """Give up the nodes that AWS keeps after the job, which are paid for until then."""
        with translated("release the nodes of a training job"):
            self._sagemaker.update_training_job(
                TrainingJobName=name, ResourceConfig={"KeepAlivePeriodInSeconds": 0}
            )

    def of_run(self, run_id: str) -> list[Summary]:
        """The newest jobs of a run, the newest attempt first."""
        found = self._pages(
            NameContains=run_id.removeprefix("run-"), SortBy="CreationTime", SortOrder="Descending"
        )
        attempts = [
            (attempt[1], one)
            for one in islice(found, _NEWEST)
            if (attempt := self._attempt(one)) is not None and attempt[0] == run_id
        ]
        return [one for _, one in sorted(attempts, key=lambda each: each[0], reverse=True)]

    def running(self, cluster: str) -> list[Summary]:
        """Jobs of the cluster that are not over."""
        return [
            one
            for status in ("InProgress", "Stopping")
            for one in self._of_cluster(cluster, StatusEquals=status)
        ]

    def pools(self, cluster: str) -> list[Summary]:
        """Jobs of the cluster whose nodes AWS still keeps."""
        return list(self._of_cluster(cluster, WarmPoolStatusEquals="Available"))

    def _of_cluster(self, cluster: str, **wanted: Any) -> Iterator[Summary]:
        """By the end of the cluster's name, which is that of its run, and by the job's tags."""
        for one in self._pages(NameContains=f"{cluster[-_OF_THE_RUN:]}-", **wanted):
            if self._attempt(one) is None:
                continue
            tags = self.tags(one["TrainingJobArn"])
            ours = tags.get(STAGE_TAG) == self._deployment.stage
            if ours and tags.get(CLUSTER_TAG) == cluster:
                yield one

    def _attempt(self, one: Summary) -> tuple[str, int] | None:
        return self._deployment.attempt_of(one["TrainingJobName"])

    def _pages(self, **request: Any) -> Iterator[Summary]:
        """A page may be empty and not the last: AWS takes the status out after it made the page."""
        while True:
            with translated("list training jobs"):
                answer = self._sagemaker.list_training_jobs(**request, MaxResults=_PAGE)
            yield from answer.get("TrainingJobSummaries", [])
            if not (token := answer.get("NextToken")):
                return
            request["NextToken"] = token
