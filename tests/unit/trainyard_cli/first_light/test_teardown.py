"""first-light's teardown: whatever answers, no machine is left, and if one is, it is said."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.first_light_world import (
    API_URL,
    AnsweringApi,
    Clock,
    Json,
)
from tests.support.recorded_account import NUMBER, RecordedAccount

from trainyard_cli.doctor.account import NotAnswered
from trainyard_cli.first_light import stages
from trainyard_cli.first_light.engine import Interrupted
from trainyard_cli.first_light.teardown import nothing_left, tear_down
from trainyard_cli.first_light.watch import StageFailed, Watch
from trainyard_cli.first_light.world import World
from trainyard_cli.problems import ApiProblem, CliError, Unreachable
from trainyard_sdk.connection import Connection


class StubbornApi(AnsweringApi):
    """It never deletes the cluster."""

    def cluster(self, name: str) -> Json:
        return {"name": name, "status": "Ready", "arn": None}

    def runs(self, *, status: str | None = None, at_most: int = 1000) -> list[Json]:
        return []

    def delete_cluster(self, name: str, *, force: bool = False) -> Json:
        raise ApiProblem(409, {"title": "In use", "detail": "somebody's job runs there"})


def torn_down(
    world: World, account: RecordedAccount, delete: Any
) -> tuple[Callable[[], str], list[str]]:
    """The teardown of a cluster that AWS has until DeleteCluster is taken, with what it told."""
    there = {
        "ClusterArn": f"arn:aws:sagemaker:us-west-2:{NUMBER}:cluster/abcdefghijkl",
        "ClusterStatus": "InService",
        "InstanceGroups": [],
    }
    gone = NotAnswered("sagemaker:DescribeCluster", "ResourceNotFound", "none")

    def taken(request: Json) -> Json:
        account.answers["sagemaker:DescribeCluster"] = gone
        return {"ClusterArn": there["ClusterArn"]}

    account.answers |= {
        "sagemaker:DescribeCluster": there,
        "sagemaker:DeleteCluster": taken if delete is None else delete,
    }
    world.api = StubbornApi(Connection(API_URL, "us-west-2"))
    told: list[str] = []
    clock = Clock()
    watch = Watch(100, 5, clock=clock, sleep=clock.sleep)
    return lambda: tear_down(world, watch, told.append, force=True, patience=50), told


def test_machines_go_even_where_our_api_never_deletes_the_cluster(
    world: World, account: RecordedAccount
) -> None:
    act, told = torn_down(world, account, None)
    with pytest.raises(
        StageFailed, match=r"AWS has the cluster no more, .* but our API does not call it deleted"
    ):
        act()
    assert told == [
        "our API does not delete the cluster yet: In use: somebody's job runs there",
        "our API did not delete the cluster; SageMaker was asked itself",
    ]
    assert account.asked.count("sagemaker:DeleteCluster") == 1


class LateApi(AnsweringApi):
    """It answers no request for a cluster, which comes `late` seconds after teardown begins."""

    def __init__(self, clock: Clock, late: float) -> None:
        super().__init__(Connection(API_URL, "us-west-2"))
        self._clock, self._late, self.status = clock, late, "Ready"

    def cluster(self, name: str) -> Json:
        if self._clock() < self._late:
            raise ApiProblem(404, {"title": "There is no such cluster"})
        return {"name": name, "status": self.status}

    def runs(self, *, status: str | None = None, at_most: int = 1000) -> list[Json]:
        return []

    def delete_cluster(self, name: str, *, force: bool = False) -> Json:
        self.status = "Deleted"
        return {}


@pytest.mark.parametrize(("in_doubt", "late", "status", "spent"), [
    (True, 15, "Deleted", 20),  # it came after all, and was deleted
    (True, 1000, "Ready", 35),  # nobody makes it any more
    (False, 1000, "Ready", 0),
])  # fmt: skip
def test_a_cluster_that_was_asked_for_without_an_answer_may_come_while_it_is_torn_down(
    world: World, account: RecordedAccount, in_doubt: bool, late: float, status: str, spent: float
) -> None:
    account.answers["sagemaker:DescribeCluster"] = NotAnswered(
        "sagemaker:DescribeCluster", "ResourceNotFound", "none"
    )
    clock = Clock()
    world.api, world.in_doubt = LateApi(clock, late), in_doubt
    tear_down(
        world,
        Watch(100, 5, clock=clock, sleep=clock.sleep),
        lambda _words: None,
        force=True,
        patience=50,
    )
    assert (world.api.status, clock.now) == (status, spent)


@pytest.mark.parametrize(
    ("answer", "in_doubt"),
    [(Unreachable("gone"), True), (Interrupted("SIGINT"), True),
     (ApiProblem(503, {"title": "later"}), True),
     (ApiProblem(422, {"title": "wrong"}), False), (None, False)],
)  # fmt: skip
def test_whether_a_cluster_may_still_be_made_is_known_by_the_answer(
    world: World, answer: BaseException | None, in_doubt: bool
) -> None:
    class Api(AnsweringApi):
        def create_cluster(self, spec: Any) -> Json:
            if answer is not None:
                raise answer
            return {}

        def cluster(self, name: str) -> Json:
            return {"name": name, "status": "InService", "arn": "arn"}

    world.api = Api(Connection(API_URL, "us-west-2"))
    with contextlib.suppress(CliError, Interrupted):
        stages.create(world, Watch(10, 5))
    assert world.in_doubt is in_doubt


def test_a_cluster_that_nobody_may_delete_is_told_with_the_command_that_does(
    world: World, account: RecordedAccount
) -> None:
    act, told = torn_down(
        world, account, NotAnswered("sagemaker:DeleteCluster", "AccessDenied", "no")
    )
    with pytest.raises(StageFailed) as failure:
        act()
    assert failure.value.next_step.endswith(
        "aws sagemaker delete-cluster --cluster-name first-light-abcdefgh"
    )
    assert any("AccessDenied" in words for words in told)


def test_what_is_left_is_named_in_the_file_and_in_the_words(
    world: World, account: RecordedAccount
) -> None:
    refused = NotAnswered("one", "AccessDenied", "no")
    asked = ("sagemaker:ListClusterNodes", "secretsmanager:DescribeSecret", "iam:ListRoles",
             "stepfunctions:ListExecutions", "s3:ListObjectsV2")  # fmt: skip
    account.answers |= dict.fromkeys(asked, refused)
    account.answers["sagemaker:DescribeCluster"] = {"ClusterStatus": "Deleting"}
    clock = Clock()
    with pytest.raises(StageFailed) as failure:
        nothing_left(world, Watch(10, 5, clock=clock, sleep=clock.sleep))
    assert str(failure.value).startswith("Something is left: cluster first-light-abcdefgh is")
    assert failure.value.title == "Something is left"
    assert "--clean FILE" in failure.value.next_step
