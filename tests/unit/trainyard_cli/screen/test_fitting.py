"""Lists and pages on a terminal of 80 columns: long values, and nothing that matters is cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_api import CLUSTER, NODE, RUN, FakeApi, T, a_run

from trainyard_cli.screen import output
from trainyard_cli.screen.fitting import print_fitting

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]
WIDTH = 80
#: A session of IAM Identity Center: AWS names the role, and the session is the person's address.
SESSION = "ann-marie.van-der-berg@research.example.com"
ARN = (
    "arn:aws:sts::111122223333:assumed-role/"
    f"AWSReservedSSO_ResearchAdministrators_0123456789abcdef/{SESSION}"
)
PERSON = {"id": "", "arn": ARN, "account": "1", "name": SESSION, "kind": "session"}
NAME = "protein-folding-pretraining-of-november-with-a-long-name-a1b2c3"
REASON = "Node ip-172-16-243-108 has not answered for 120 s; it is replaced, and the run goes on."
ARRAY, APPROVAL = f"arr-{RUN[4:]}", f"apr-{RUN[4:]}-1"
CLUSTER_ARN = "arn:aws:sagemaker:ap-southeast-2:111122223333:cluster/abcdefghijkl"

A_CLUSTER = {**CLUSTER, "name": NAME, "status": "Releasing", "createdBy": PERSON, "ownerRun": RUN}
A_CLUSTER |= {"labels": {"team": "structural-biology", "exp": "2026-11-29-b"}}
A_NODE = {
    **NODE,
    "instanceId": "i-0123456789abcdef0",
    "name": "ip-172-16-243-108",
    "group": "gpu-workers-of-zone-b",
    "instanceType": "ml.p5en.48xlarge",
    "status": "DeepHealthCheckInProgress",
    "scheduler": "allocated+drain",
}
AN_ENTRY = {
    "id": "a", "at": T, "who": PERSON, "what": "filesystem.transfer", "subject": f"run/{RUN}",
    "reason": REASON, "sourceIp": "2001:db8:85a3:8d3:1319:8a2e:370:7348", "userAgent": "x",
    "outcome": "refused", "detail": "",
}  # fmt: skip
A_FIRING = {"at": T, "outcome": "submitted", "runId": RUN, "reason": REASON, "late": False}
A_SCHEDULE = {
    "name": NAME, "status": "Paused", "cron": "0 3 * * 1-5", "rate": None, "nextAt": T,
    "timezone": "America/Argentina/Buenos_Aires", "overlap": "skip", "nextTimes": [T],
    "firings": [A_FIRING],
}  # fmt: skip
AN_ARRAY = {
    "id": ARRAY, "name": NAME, "status": "Cancelling", "createdAt": T, "total": 1000, "active": 16,
    "succeeded": 984, "maxParallel": 16, "clusterName": "shared", "reason": REASON,
}  # fmt: skip
A_MEMBER = {
    "index": 999, "parameters": {"lr": "0.00031622776601683794", "optimizer": "shampoo"},
    "runId": RUN, "status": "WaitingForNode", "reason": REASON,
}  # fmt: skip
A_TOTAL = {
    "key": ARN, "runs": 1234, "usd": 123456.78, "unpriced": 12, "usefulUsd": 98765.43,
    "nodeSeconds": 5,
}  # fmt: skip
A_BUDGET = {
    "name": NAME[:40], "label": "team=structural-biology", "cluster": None, "maxUsd": 250000.0,
    "per": "month", "status": "active", "period": "2026-11", "spentUsd": 123456.78,
    "stopsAt": T, "forecastUsd": 234567.89,
}  # fmt: skip
AN_APPROVAL = {
    "id": APPROVAL, "subject": f"run/{RUN}", "runName": NAME, "usd": 123456.78, "needed": 2,
    "requester": PERSON, "approvers": [], "state": "withdrawn", "createdAt": T,
}  # fmt: skip
A_FILESYSTEM = {
    "name": NAME, "status": "Available", "createdAt": T, "zone": "ap-southeast-2a",
    "spec": {"storageGib": 100800}, "verifiedExport": {"endedAt": T},
}  # fmt: skip
A_WEBHOOK = {
    "id": f"wh-{RUN[4:]}", "status": "Active", "url": f"https://hooks.example.com/{'x' * 50}",
    "types": ["run.failed", "run.recovering"], "createdBy": PERSON, "createdAt": T,
}  # fmt: skip


def page(name: str, *found: dict[str, Any]) -> dict[str, Any]:
    return {name: list(found), "nextToken": None}


#: By command: what the API answers, and the values that must all be there.
LISTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "cluster ls --show-labels": (
        {"/clusters": page("clusters", A_CLUSTER)},
        [NAME, SESSION, "Releasing", f"made for {RUN}", "nodes 2", "team=structural-biology"],
    ),
    f"cluster show {NAME}": (
        {f"/clusters/{NAME}": {**A_CLUSTER, "arn": CLUSTER_ARN}},
        [NAME, ARN, RUN, CLUSTER_ARN],
    ),
    "node ls big": (
        {"/clusters/big/nodes": page("nodes", A_NODE)},
        ["ip-172-16-243-108", "i-0123456789abcdef0", "gpu-workers-of-zone-b", "ml.p5en.48xlarge",
         "DeepHealthCheckInProgress", "Slurm allocated+drain", "CPU 55%", "memory 1.0 GiB"],
    ),
    "audit": (
        {"/audit": page("entries", AN_ENTRY)},
        [SESSION, "filesystem.transfer", f"run/{RUN}", "refused", AN_ENTRY["sourceIp"], REASON],
    ),
    "schedule ls": (
        {"/schedules": page("schedules", {**A_SCHEDULE, "last": A_FIRING})},
        [NAME, "Paused", "0 3 * * 1-5 America/Argentina/Buenos_Aires", f"next {T}",
         f"last {T} submitted {RUN}"],
    ),
    "schedule show nightly": (
        {"/schedules/nightly": {**A_SCHEDULE, "firings": [{**A_FIRING, "runIds": [RUN, RUN]}]}},
        [NAME, T, "submitted", f"{RUN}, {RUN}", REASON],
    ),
    "array ls": (
        {"/arrays": page("arrays", AN_ARRAY)},
        [ARRAY, f"name {NAME}", "succeeded  active  age", "984/1000", REASON],
    ),
    f"array show {ARRAY}": (
        {f"/arrays/{ARRAY}": AN_ARRAY, f"/arrays/{ARRAY}/members": page("members", A_MEMBER)},
        ["999", "lr=0.00031622776601683794, optimizer=shampoo", RUN, "WaitingForNode", REASON],
    ),
    "costs": (
        {"/costs": {"by": "owner", "at": T, "totals": [A_TOTAL], "leftOut": False}},
        [ARN, "1234", "123456.78 USD and 12 unknown", "98765.43 USD"],
    ),
    "budget ls": (
        {"/budgets": page("budgets", A_BUDGET)},
        [NAME[:40], "team=structural-biology", "active", "2026-11", "123456.78 of 250000",
         "forecast 234567.89", "stops 2026-11-20"],
    ),
    "approval ls": (
        {"/approvals": page("approvals", AN_APPROVAL)},
        [APPROVAL, "withdrawn", NAME, SESSION, "123456.78 USD", "0/2"],
    ),
    "filesystem ls": (
        {"/filesystems": page("filesystems", A_FILESYSTEM)},
        [NAME, "Available", "100800 GiB", "zone ap-southeast-2a", "exported"],
    ),
    "webhook ls": (
        {"/webhooks": page("webhooks", A_WEBHOOK)},
        [A_WEBHOOK["id"], "Active", A_WEBHOOK["url"], "run.failed, run.recovering", SESSION],
    ),
    "run ls": (
        {"/runs": page("runs", a_run("WaitingForNode", name=NAME[:24], reason=REASON))},
        [RUN, NAME[:24], "WaitingForNode", REASON],
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", LISTS)
def test_on_eighty_columns_no_line_runs_over_and_no_value_is_cut(
    api: FakeApi, trainyard: Command, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    answers, values = LISTS[command]
    api.answers |= {f"GET /v1{path}": (200, answer) for path, answer in answers.items()}
    monkeypatch.setattr("trainyard_cli.screen.output.out.width", WIDTH)
    code, out, err = trainyard(*command.split())
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= WIDTH, out
    for value in values:
        if len(value) <= WIDTH - 2 and " " not in value:  # it is copied: it is on one line
            assert value in out, value
        # A longer one is folded, and is there without what folds it.
        assert "".join(value.split()) in "".join(out.split()), value


@pytest.mark.parametrize("command", LISTS)
def test_where_there_is_room_each_thing_is_on_one_line(
    api: FakeApi, trainyard: Command, command: str
) -> None:
    if "show" in command or command == "run ls":
        return
    answers, _ = LISTS[command]
    api.answers |= {f"GET /v1{path}": (200, answer) for path, answer in answers.items()}
    assert len(trainyard(*command.split())[1].splitlines()) == 2


def test_the_first_ones_go_below_first_and_what_is_not_there_is_not_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [["one", "[red]Failed[/]", "x" * 20, "7"], ["two", "Ready", "-", ""]]
    monkeypatch.setattr(output.out, "width", 18)
    print_fitting(["name", "status", "long", "age"], rows, ["long", "age", "status"])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "name  status  age", "one   Failed  7", "  long", f"  {'x' * 16}", "  xxxx",
        "two   Ready",
    ]  # fmt: skip
