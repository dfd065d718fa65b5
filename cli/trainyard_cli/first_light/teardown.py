"""Takes down what a first light made, in any state, and proves that nothing of it is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from trainyard_contracts import places

from ..doctor.account import NotAnswered
from ..problems import ApiProblem, CliError, Unreachable
from ..screen.snapshot import TERMINAL
from .watch import StageFailed, Watch
from .world import Json, World

Tell = Callable[[str], None]
#: So long our API may work on a request whose answer nobody waited for (template.yaml: 29 s).
UNANSWERED_SECONDS = 31


def tear_down(world: World, watch: Watch, tell: Tell, *, force: bool, patience: float) -> str:
    """Through our API, and after `patience` seconds through SageMaker too: machines that cost money
    go first.

    Raises StageFailed when AWS still has the cluster, and when our API never says that it is
    deleted.
    """
    tries = _Teardown(world, tell, force)
    try:
        watch.until(
            "the cluster is gone",
            lambda: tries.step(spent=watch.spent, late=watch.spent >= patience),
        )
    except StageFailed as failure:
        if tries.gone_from_aws():
            detail = (
                "AWS has the cluster no more, so that it costs nothing, but our API does not "
                f"call it deleted: {failure.detail}"
            )
            raise StageFailed(
                failure.title,
                detail,
                "Look at the teardown machine's executions, and at what its function logged",
            ) from None
        by_hand = f"aws sagemaker delete-cluster --cluster-name {world.cluster_name}"
        raise StageFailed(
            failure.title, failure.detail, f"Delete it by hand: {by_hand}"
        ) from failure
    return "the cluster is deleted" + (
        "; our API did not do it alone, DeleteCluster was called beside it" if tries.by_hand else ""
    )


class _Teardown:
    """Each step is idempotent, and says once what delays it."""

    def __init__(self, world: World, tell: Tell, force: bool) -> None:
        self._world, self._tell, self._force = world, tell, force
        self._told: set[str] = set()
        self.by_hand = False

    def step(self, *, spent: float, late: bool) -> bool | None:
        """True once our API and AWS have no such cluster; `spent` are seconds since the start."""
        try:
            gone = self._ask_api(spent)
        except (ApiProblem, Unreachable) as error:
            gone = False
            self._say(f"our API does not delete the cluster yet: {error}")
        if late and not self.gone_from_aws():
            self._delete_by_hand()
        return True if gone and self.gone_from_aws() else None

    def _ask_api(self, spent: float) -> bool:
        world = self._world
        try:
            found = world.api.cluster(world.cluster_name)
        except ApiProblem as problem:
            if problem.status != 404:
                raise
            if world.in_doubt and spent < UNANSWERED_SECONDS:
                self._say(
                    "waiting whether our API still makes the cluster, of which it gave no answer"
                )
                return False
            return True
        if found["status"] == "Deleted":
            return True
        for run in self._active():
            if self._force:
                with suppress(ApiProblem):
                    world.api.cancel_run(run["id"])
            self._say(f"waiting for run {run['id']} to end")
            return False
        if found["status"] != "Deleting":
            world.api.delete_cluster(world.cluster_name, force=self._force)
        return False

    def _active(self) -> list[Json]:
        runs = self._world.api.runs(at_most=1000)
        return [
            run
            for run in runs
            if run["clusterName"] == self._world.cluster_name and run["status"] not in TERMINAL
        ]

    def _delete_by_hand(self) -> None:
        """DeleteCluster of exactly the cluster that was made here."""
        try:
            self._world.account.change(
                "sagemaker", "DeleteCluster", ClusterName=self._world.cluster_name
            )
            self.by_hand = True
            self._say("our API did not delete the cluster; SageMaker was asked itself")
        except NotAnswered as error:
            self._say(f"SageMaker does not delete the cluster yet: {error}")

    def gone_from_aws(self) -> bool:
        """Raises NotAnswered where nobody may look."""
        self._world.forget()
        found = self._world.described
        return found is None or bool(found["ClusterStatus"] == "Deleted")

    def _say(self, words: str) -> None:
        if words not in self._told:
            self._told.add(words)
            self._tell(words)


@dataclass(frozen=True)
class Left:
    """`what` is one plain line; with `kept` it stays on purpose."""

    what: str
    kept: bool = False


def nothing_left(world: World, watch: Watch) -> tuple[str, list[str]]:
    """What is gone, and what is kept on purpose. Raises StageFailed with what is left."""
    last: list[Left] = []

    def look() -> list[Left] | None:
        world.forget()
        last[:] = list(leftovers(world))
        return None if any(not one.kept for one in last) else list(last)

    try:
        found = watch.until("nothing of the cluster is left", look)
    except StageFailed as late:
        told = "; ".join(one.what for one in last if not one.kept)
        raise StageFailed(
            "Something is left",
            told or late.detail,
            "Run again: trainyard first-light --clean FILE; or delete by hand what belongs to "
            f"{world.cluster_name}",
        ) from late
    return "no cluster, node, role, secret and running state machine of it is left", [
        one.what for one in found
    ]


def leftovers(world: World) -> Iterator[Left]:
    """Everything with the cluster's name; what we have no permission to read counts as left."""
    for look in (_cluster, _secret, _roles, _executions, _objects):
        try:
            yield from look(world)
        except (NotAnswered, CliError) as error:
            yield Left(f"nobody could look whether something is left: {error}")


def _cluster(world: World) -> Iterator[Left]:
    found = world.described
    if found is not None and found["ClusterStatus"] != "Deleted":
        yield Left(f"cluster {world.cluster_name} is {found['ClusterStatus']}")
    for node in world.backend_nodes:
        yield Left(f"node {node['InstanceId']} is {node['InstanceStatus']['Status']}")


def _secret(world: World) -> Iterator[Left]:
    prefix = places.secret_prefix(world.account.stack_name)
    name = places.agent_key_secret(prefix, world.cluster_name)
    found = world.asked("secretsmanager", "DescribeSecret", SecretId=name)
    # AWS still names a secret for a moment that was deleted without a time to recover it.
    if found is not None and not found.get("DeletedDate"):
        yield Left(f"secret {name}")


def _roles(world: World) -> Iterator[Left]:
    path = places.cluster_roles_path(world.account.stack_name, world.cluster_name)
    for role in world.account.call("iam", "ListRoles", PathPrefix=path)["Roles"]:
        yield Left(f"role {role['RoleName']}")


def _executions(world: World) -> Iterator[Left]:
    wanted = [("cluster", world.cluster_name), ("teardown", world.cluster_name)]
    for machine, name in wanted + ([("run", world.run_id)] if world.run_id else []):
        for execution in world.executions(machine, name):
            yield Left(f"execution {execution['name']} of the {machine} machine runs")


def _objects(world: World) -> Iterator[Left]:
    bucket, prefix = world.output("DataBucketName"), places.cluster_prefix(world.cluster_name)
    page = world.account.call("s3", "ListObjectsV2", Bucket=bucket, Prefix=prefix)
    found = page.get("Contents") or []
    if found:
        more = " at least" if page.get("IsTruncated") else ""
        size = sum(int(one["Size"]) for one in found)
        yield Left(
            (
                f"{len(found)} objects{more} ({size} bytes) below s3://{bucket}/{prefix} are kept: "
                "the run's files and results, and what nodes were made with"
            ),
            kept=True,
        )
    if world.cluster_id and world.log_streams:
        yield Left(f"the log group {world.log_group} is kept", kept=True)
