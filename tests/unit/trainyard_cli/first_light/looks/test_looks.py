"""Looks where no local cloud can play what AWS may do: what was said, and what is made of it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from tests.support.recorded_account import RecordedAccount

from trainyard_cli.first_light.looks import every_look
from trainyard_cli.first_light.stage_names import StageName
from trainyard_cli.first_light.stages import resume_
from trainyard_cli.first_light.verdicts import Seen
from trainyard_cli.first_light.watch import StageFailed, Watch
from trainyard_cli.first_light.world import World
from trainyard_cli.problems import ApiProblem, CliError
from trainyard_sdk.client import Client
from trainyard_sdk.connection import Connection

Json = dict[str, Any]
GROUPS = [
    {"name": "controller", "role": "controller", "instanceType": "ml.c5.large", "count": 1},
    {"name": "workers", "role": "worker", "instanceType": "ml.c5.large", "count": 1},
]
FOUND: Json = {
    "moment": "found", "user": "root", "python": "3.10.12", "ensurepip": False,
    "credentials": "instance", "hostNamedByAddress": True, "git": True,
    "units": {"munge": "active", "slurmctld": "active", "slurmd": "active"},
    "slurm": {"layout": True, "unit": "--conf-server", "user": "slurm",
              "partitions": ["dev", "main"]},
    "resourceConfig": {"place": "default", "clusterArn": True, "type": "Slurm",
                       "groups": {"controller": [True], "workers": None}},
}  # fmt: skip
NETWORK: Json = {
    "moment": "network",
    "namesSeconds": 31.0,
    "reached": {"s3": True, "events": True, "secretsmanager": True},
    "mounted": True,
}


def facts(**other: Any) -> list[str]:
    """The lines of a node that told all, with some of it otherwise."""
    told = {**FOUND, **NETWORK, **other}
    return [f"[trainyard] trainyard-facts {json.dumps(told)}", "[trainyard] lifecycle finished"]


class ToldWorld(World):
    """A world of which everything is said here."""

    def __init__(self, **said: Any) -> None:
        self.said: Json = {
            "streams": {},
            "timeline": [],
            "cluster": {},
            "run": None,
            "described": {"ClusterStatus": "InService"},
            **said,
        }
        spec = {"cluster": {"spec": {"instanceGroups": GROUPS, **self.said.get("spec", {})}}}
        account = RecordedAccount()
        super().__init__(
            Client(Connection("https://abc123.execute-api.us-west-2.amazonaws.com", "us-west-2")),
            account,
            spec,
            "first-light-x",
        )
        self.stage: StageName = self.said.get("stage", "ready")
        self.failure: CliError | None = self.said.get("failure")
        self.findings: list[Json] = self.said.get("findings", [])
        self.began = dict.fromkeys(("create", "ready"), datetime.now(timezone.utc))

    cluster = property(lambda self: self.said["cluster"])
    run = property(lambda self: self.said["run"])
    described = property(lambda self: self.said["described"])
    nodes = property(lambda self: self.said.get("nodes", []))
    log_streams = property(lambda self: list(self.said["streams"]))
    log_group = property(lambda self: "/aws/sagemaker/Clusters/first-light-x/abcdefghijkl")

    def stream(self, name: str) -> list[str]:
        return list(self.said["streams"][name])

    def timeline(self, *kinds: str) -> list[Json]:
        return [entry for entry in self.said["timeline"] if not kinds or entry["type"] in kinds]


def seen(assumption: str, **said: Any) -> Seen:
    """What the look at that assumption sees."""
    (look,) = [look for look in every_look() if look.assumption == assumption]
    return look.see(ToldWorld(**said))


def delayed(words: str) -> list[Json]:
    message = f"The submission of attempt 1 has no answer yet: {words}. It is tried again."
    return [{"type": "Delayed", "at": "2026-11-22T10:00:00Z", "message": message}]


@pytest.mark.parametrize(
    ("assumption", "words"),
    [
        (
            "A-001",
            "AWS refused to start a Session Manager session (InvalidTarget): not a valid target",
        ),
        ("A-003", "trainyard-agent submit: Unable to start command: exec: no such file"),
        (
            "A-007",
            "the session's data channel broke off before the command ended: "
            "server rejected WebSocket connection: HTTP 403",
        ),
        ("A-008", "the session's data channel is open, but nothing came in 15 s"),
        (
            "A-053",
            "AWS refused to start a Session Manager session (AccessDeniedException): "
            "not authorized to perform: ssm:StartSession on it",
        ),
    ],
)
def test_what_holds_the_first_command_up_names_its_assumption_and_no_other(
    assumption: str, words: str
) -> None:
    found = {
        look.assumption: look.see(ToldWorld(stage="command", timeline=delayed(words)))
        for look in every_look()
        if "command" in look.after
    }
    assert [name for name, one in found.items() if one.verdict == "broken"] == [assumption]
    assert words.rpartition(": ")[2] in found[assumption].evidence
    assert found[assumption].remedy


def test_a_node_that_is_not_connected_breaks_the_target_only_where_its_agent_is_heard() -> None:
    words = (
        "Session Manager says that the node is not connected: sagemaker-cluster:x is not connected"
    )
    assert (
        seen("A-002", timeline=delayed(words), cluster={"lastHeartbeatAt": "now"}).verdict
        == "broken"
    )
    assert seen("A-002", timeline=delayed(words)).verdict == "not-seen", "the node may be dead"
    submitted = {"run": {"attempts": [{"jobId": "1"}]}, "timeline": delayed(words)}
    assert seen("A-002", **submitted).verdict == "held"
    assert seen("A-006", **submitted).verdict == "held", "it was not connected at first"


@pytest.mark.parametrize(
    ("assumption", "other", "evidence"),
    [
        ("A-029", {"slurm": {**FOUND["slurm"], "layout": False}}, "Slurm lies below /opt/slurm"),
        ("A-030", {"slurm": {**FOUND["slurm"], "unit": "none"}}, "--conf-server"),
        (
            "A-033",
            {"units": {"munge": "active", "slurmctld": "inactive", "slurmd": "inactive"}},
            "up before the script",
        ),
        ("A-034", {"python": "3.9.2"}, "3.10 to 3.12"),
        ("A-038", {"hostNamedByAddress": False}, "ip-a-b-c-d"),
        ("A-041", {"credentials": "environment"}, "the instance's role"),
        ("A-042", {"reached": {"s3": True, "events": False}}, "could not connect to events"),
    ],
)
def test_what_a_node_tells_of_itself_breaks_the_assumption_and_what_it_cannot_tell_does_not(
    assumption: str, other: Json, evidence: str
) -> None:
    streams = {
        "LifecycleConfig/controller/i-1": facts(),
        "LifecycleConfig/workers/i-2": facts(**other),
    }
    found = seen(assumption, streams=streams)
    assert (found.verdict, bool(found.remedy)) == ("broken", True)
    assert evidence in found.evidence
    assert seen(assumption, streams={name: facts() for name in streams}).verdict == "held"
    assert (
        seen(assumption, streams={name: facts(**dict.fromkeys(other)) for name in streams}).verdict
        == "not-seen"
    )
    assert seen(assumption).verdict == "not-seen"


def test_only_the_controller_is_asked_for_git() -> None:
    def git(there: bool) -> Json:
        return {
            "LifecycleConfig/controller/i-1": facts(git=there),
            "LifecycleConfig/workers/i-2": facts(git=not there),
        }

    assert seen("A-065", streams=git(True)).verdict == "held"
    found = seen("A-065", streams=git(False))
    assert (found.verdict, "job.workdir" in found.remedy) == ("broken", True)


def test_of_the_users_of_slurmctld_only_the_controller_is_asked() -> None:
    root = facts(slurm={**FOUND["slurm"], "user": "root"})
    assert (
        seen(
            "A-055",
            streams={
                "LifecycleConfig/controller/i-1": facts(),
                "LifecycleConfig/workers/i-2": root,
            },
        ).verdict
        == "held"
    )
    assert seen("A-055", streams={"LifecycleConfig/controller/i-1": root}).verdict == "broken"


def test_groups_without_instances_are_seen_on_the_controller_only_while_there_are_none() -> None:
    late = {**FOUND["resourceConfig"], "groups": {"controller": [True], "workers": [True]}}
    assert seen("A-028", streams={"LifecycleConfig/controller/i-1": facts()}).verdict == "held"
    assert (
        seen(
            "A-028", streams={"LifecycleConfig/controller/i-1": facts(resourceConfig=late)}
        ).verdict
        == "not-seen"
    )


@pytest.mark.parametrize(
    ("assumption", "line", "said"),
    [
        (
            "A-027",
            "[trainyard] FAILED in step 'resource config': "
            "none of this machine's addresses is in resource_config.json",
            {},
        ),
        (
            "A-035",
            "[trainyard] FAILED in step 'network': "
            "the name s3.us-west-2.amazonaws.com has no address after 120 s",
            {},
        ),
        (
            "A-043",
            "[trainyard] FAILED in step 'shared filesystem': mount: Connection timed out",
            {"spec": {"sharedFilesystem": {"dnsName": "fs"}}},
        ),
        (
            "A-019",
            "An error occurred (AccessDeniedException) when calling the GetSecretValue operation",
            {},
        ),
    ],
)
def test_a_lifecycle_script_that_failed_says_by_its_step_what_does_not_hold(
    assumption: str, line: str, said: Json
) -> None:
    lines = ["[trainyard] step 1/9 network", line]
    found = seen(assumption, streams={"LifecycleConfig/controller/i-1": lines}, **said)
    assert found.verdict == "broken"
    assert line in found.evidence


def test_an_agent_that_is_never_heard_breaks_the_bus_only_where_its_node_came_up() -> None:
    up = {"LifecycleConfig/controller/i-1": facts()}
    assert seen("A-022", streams=up).verdict == "broken"
    # ClusterReady comes before the first heartbeat, and only the agent sends it.
    for heard in ("lastHeartbeatAt", "readyAt"):
        found = seen("A-022", streams=up, cluster={heard: "2026-11-22T10:00:00Z"})
        assert (found.verdict, "10:00" in found.evidence) == ("held", True)
    assert (
        seen("A-022", streams={"LifecycleConfig/controller/i-1": facts()[:1]}).verdict == "not-seen"
    )


def test_streams_without_a_line_of_ours_are_another_file_than_ours() -> None:
    streams = {"LifecycleConfig/controller/i-1": ["[SageMaker] Downloading lifecycle scripts"]}
    assert seen("A-036", streams=streams).verdict == "broken"
    assert seen("A-036").verdict == "not-seen"
    assert seen("A-036", streams={"LifecycleConfig/controller/i-1": facts()}).verdict == "held"


def test_a_line_of_facts_that_was_cut_costs_its_facts_and_nothing_else() -> None:
    cut = [facts()[0][:200], *facts(python="3.11.2")]
    assert (
        "1 of 1 nodes told" in seen("A-034", streams={"LifecycleConfig/workers/i-2": cut}).evidence
    )


@pytest.mark.parametrize(
    ("problem", "verdict"),
    [
        ("Service Quotas lists no 'ml.c5.large for cluster usage' in us-west-2", "broken"),
        ("nobody could look: service-quotas:ListServiceQuotas answered AccessDenied", "not-seen"),
    ],
)
def test_quotas_are_judged_by_what_doctor_found(problem: str, verdict: str) -> None:
    severity = "unknown" if verdict == "not-seen" else "warning"
    finding = {
        "check": "quotas",
        "severity": severity,
        "subject": "quota",
        "problem": problem,
        "remedy": "Ask",
    }
    assert seen("A-045", findings=[finding]).verdict == verdict
    assert seen("A-045").verdict == "held"


def test_a_refused_role_and_a_refused_shape_are_told_apart() -> None:
    role = StageFailed(
        "AWS refused",
        "ExecutionRole arn:aws:iam::1:role/trainyard/t/first-light-x/1/y is not usable",
        "",
    )
    shape = StageFailed("AWS refused", "SlurmConfigStrategy must be specified", "")
    for failure, expected in (
        (role, {"A-010": "not-seen", "A-026": "broken"}),
        (shape, {"A-010": "broken", "A-026": "not-seen"}),
    ):
        said = {"described": None, "failure": failure, "stage": "create"}
        assert {assumption: seen(assumption, **said).verdict for assumption in expected} == expected


def test_a_log_is_read_to_its_end_also_where_a_page_of_it_is_empty() -> None:
    """A page of GetLogEvents may be empty before the end, where the token stays the same."""
    pages = {
        None: ([], "f/1"),
        "f/1": (["one"], "f/2"),
        "f/2": ([], "f/3"),
        "f/3": (["two\n"], "f/4"),
        "f/4": ([], "f/4"),
    }

    def page(request: Json) -> Json:
        lines, token = pages[request.get("nextToken")]
        return {"events": [{"message": line} for line in lines], "nextForwardToken": token}

    world = ToldWorld()
    world.account.answers["logs:GetLogEvents"] = page  # type: ignore[attr-defined]
    assert World.stream(world, "LifecycleConfig/workers/i-1") == ["one", "two"]


def test_a_replacement_that_was_refused_says_nothing_of_a_second_node() -> None:
    """Until BatchReplaceClusterNodes took it, no node counts as disturbed."""

    class Api(Client):
        def run(self, run_id: str) -> Json:
            return {"status": "Running", "attempts": [{"number": 1, "nodes": ["ip-10-0-0-1"]}]}

        def nodes(self, cluster: str) -> list[Json]:
            return [{"name": "ip-10-0-0-1", "instanceId": "i-1"}]

        def replace_node(self, cluster: str, instance_id: str) -> Json:
            raise ApiProblem(502, {"title": "HyperPod refused"})

    world = ToldWorld(stage="resume", failure=CliError("HyperPod refused"))
    world.api = Api(world.api.connection)
    world.submitted("run-1")
    with pytest.raises(ApiProblem):
        resume_(world, Watch(10, 5))
    found = {
        look.assumption: look.see(world)
        for look in every_look()
        if look.assumption in ("A-014", "A-039")
    }
    assert {name: one.verdict for name, one in found.items()} == {
        "A-014": "not-seen",
        "A-039": "not-seen",
    }
    assert "HyperPod refused" in found["A-014"].evidence
