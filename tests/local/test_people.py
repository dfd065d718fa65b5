"""Two people, an admin and one who left, on a local cloud: by their keys, and by nothing else.

In Slack they are who the list of its people says.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from standardwebhooks.webhooks import Webhook
from tests.support.receiver import LocalReceiver, local_receiver
from tests.support.repository import ROOT
from tests.support.slack import (
    SECRET,
    USER,
    WHO,
    LocalSlack,
    click,
    command,
    happening,
    local_slack,
    signed,
)
from tests.support.slack_chat import buttons_of, words
from tests.support.spec_parts import cluster_spec
from tests.support.system import ENDED, eventually, light_job

from trainyard.aws.clock import SystemClock
from trainyard.aws.slack_threads import TableThreads
from trainyard.aws.table import Table
from trainyard_cli.problems import ApiProblem, Refused
from trainyard_local import control, people
from trainyard_local.slack.server import listening
from trainyard_local.slack.workspace import Workspace
from trainyard_sdk.client import Client
from trainyard_sdk.connection import LOCAL_USER

ACCOUNT = "123456789012"
_SECRET = f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:"
PARAMETERS = {
    "HeartbeatSeconds": "2",
    "Admins": f"arn:aws:iam::{ACCOUNT}:user/local,arn:aws:iam::{ACCOUNT}:role/lead",
    "SlackSigningSecretArn": f"{_SECRET}slack-signing",
    "SlackPeopleArn": f"{_SECRET}slack-people",
    "SlackBotTokenArn": f"{_SECRET}slack-token",
    "SlackChannel": "C0123ABCDEF",
    "SlackDigestHour": "0",
    "SlackDigestZone": "Europe/Berlin",
}
TOKEN = "xoxb-1-2-abc"


@pytest.fixture(scope="module")
def slack() -> Iterator[LocalSlack]:
    """Where a workspace takes answers."""
    with local_slack() as made:
        yield made


@pytest.fixture
def receiver() -> Iterator[LocalReceiver]:
    """A person's own server on this machine."""
    with local_receiver() as made:
        yield made


@pytest.fixture(scope="module")
def space() -> Workspace:
    """With the channel that shows runs."""
    made = Workspace(TOKEN, SECRET)
    made.add_channel(PARAMETERS["SlackChannel"], "runs")
    return made


@pytest.fixture(scope="module")
def state_dir(
    tmp_path_factory: pytest.TempPathFactory, slack: LocalSlack, space: Workspace
) -> Iterator[Path]:
    """Of a local cloud whose owner and whose role `lead` are the admins."""
    found = tmp_path_factory.mktemp("people")
    with listening(space) as workspace:
        addresses = {"SlackHooks": slack.url, "SlackApi": workspace.api}
        control.up(found, 0, ROOT / "template.yaml", {**PARAMETERS, **addresses})
        secrets = aws(found, "secretsmanager")
        secrets.create_secret(Name="slack-signing", SecretString=SECRET)
        secrets.create_secret(Name="slack-token", SecretString=TOKEN)
        alice = {WHO: f"arn:aws:iam::{ACCOUNT}:user/alice"}
        secrets.create_secret(Name="slack-people", SecretString=json.dumps(alice))
        try:
            yield found
        finally:
            control.down(found)


def local(state_dir: Path) -> dict[str, Any]:
    return dict(json.loads((state_dir / "local.json").read_text()))


def client_of(state_dir: Path, user: str, monkeypatch: pytest.MonkeyPatch) -> Client:
    """The client of a user who is there, with the key that was written."""
    people.add(state_dir, user)
    monkeypatch.setenv(LOCAL_USER, user)
    client = Client.from_state_dir(state_dir)
    assert client.whoami()["person"]["name"] == user  # the key is read at the first call
    monkeypatch.delenv(LOCAL_USER)
    return client


def aws(state_dir: Path, service: str, user: str | None = None) -> Any:
    there = local(state_dir)
    keys = (
        there if user is None else json.loads((state_dir / "people" / f"{user}.json").read_text())
    )
    return boto3.client(
        service,
        endpoint_url=there["endpoint"],
        region_name=there["region"],
        aws_access_key_id=keys["accessKeyId"],
        aws_secret_access_key=keys["secretAccessKey"],
    )


def signed_get(state_dir: Path, path: str, credentials: Credentials) -> httpx.Response:
    there = local(state_dir)
    request = AWSRequest(method="GET", url=there["apiUrl"] + path)
    SigV4Auth(credentials, "execute-api", there["region"]).add_auth(request)
    return httpx.get(request.url, headers=dict(request.headers), trust_env=False)


def refused(problem: pytest.ExceptionInfo[ApiProblem]) -> str:
    assert problem.value.status == 403
    return str(problem.value)


def test_a_cannot_cancel_bs_run_and_every_change_says_who_and_why(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = client_of(state_dir, "alice", monkeypatch)
    bob = client_of(state_dir, "bob", monkeypatch)
    admin = Client.from_state_dir(state_dir)
    assert [one.whoami()["role"] for one in (alice, bob, admin)] == ["member", "member", "admin"]
    run = alice.submit_run(
        {
            "name": "hers",
            "cluster": {"spec": cluster_spec("hers", workers=1)},
            "job": light_job(steps=1000, seconds=0.5),
        }
    )["id"]
    try:
        with pytest.raises(ApiProblem) as no:
            bob.cancel_run(run, reason="I need the nodes")
        assert "belongs to alice" in refused(no)
        assert bob.runs(mine=True) == []
        assert [one["createdBy"]["name"] for one in alice.runs(mine=True)] == ["alice"]
        eventually(
            "its cluster is asked for", lambda: admin.audit(who="trainyard", what="cluster.create")
        )
        eventually("AWS has it", lambda: alice.run(run)["clusterGeneration"])
    finally:
        alice.cancel_run(run, reason="wrong data")
    ended = eventually(
        "the run ends", lambda: (found := alice.run(run))["status"] in ENDED and found
    )
    assert ended["status"] == "Cancelled"
    assert ended["cancelledBy"]["name"] == "alice"
    assert "alice asked to cancel the run. Reason: wrong data" in [
        one["message"] for one in alice.events(run)
    ]
    theirs = {
        (one["who"]["name"], one["what"], one["outcome"], one["reason"])
        for one in admin.audit(subject=f"run/{run}")
    }
    assert theirs == {
        ("alice", "run.submit", "done", ""),
        ("bob", "run.cancel", "refused", "I need the nodes"),
        ("alice", "run.cancel", "done", "wrong data"),
    }
    own = {(one["what"], one["subject"]) for one in admin.audit(who="trainyard")}
    assert ("cluster.create", f"cluster/{ended['clusterName']}") in own
    assert ("cluster.delete", f"cluster/{ended['clusterName']}") in own
    assert admin.audit(subject=f"run/{run}")[0]["sourceIp"] == "127.0.0.1"


def queue_of(state_dir: Path, name: str) -> tuple[str, str]:
    """Address and ARN."""
    sqs = aws(state_dir, "sqs")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return url, found["Attributes"]["QueueArn"]


def bodies(state_dir: Path, url: str) -> list[dict[str, Any]]:
    answer = aws(state_dir, "sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    return [json.loads(one["Body"]) for one in answer.get("Messages", [])]


def test_a_rule_a_subscription_and_a_webhook_of_a_person_hear_of_that_persons_run(
    state_dir: Path, receiver: LocalReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = local(state_dir)["outputs"]
    events, sns = aws(state_dir, "events"), aws(state_dir, "sns")
    by_rule, by_topic = queue_of(state_dir, "by-rule"), queue_of(state_dir, "by-topic")
    pattern = {"source": ["trainyard"], "detail": {"run": {"owner": ["dora"]}}}
    on = {"EventBusName": outputs["EventBusName"]}
    events.put_rule(Name="doras", EventPattern=json.dumps(pattern), **on)
    events.put_targets(Rule="doras", Targets=[{"Id": "1", "Arn": by_rule[1]}], **on)
    sns.subscribe(
        TopicArn=outputs["NoticeTopicArn"],
        Protocol="sqs",
        Endpoint=by_topic[1],
        Attributes={"FilterPolicy": json.dumps({"owner": ["dora"], "severity": ["info"]})},
    )
    dora = client_of(state_dir, "dora", monkeypatch)
    spec = {"url": f"{receiver.url}hook", "types": ["run.submitted"], "labels": {"of": "dora"}}
    webhook = dora.add_webhook(spec)
    cluster = {"spec": cluster_spec("dora", workers=1)}
    job = light_job(steps=1000)
    asked = {"name": "doras", "cluster": cluster, "job": job, "labels": {"of": "dora"}}
    run = dora.submit_run(asked)["id"]
    try:
        aws(state_dir, "lambda").invoke(FunctionName="trainyard-sweep")
        (event,) = eventually("the rule delivers", lambda: bodies(state_dir, by_rule[0]))
        (notice,) = eventually("the topic delivers", lambda: bodies(state_dir, by_topic[0]))
        headers, body = eventually("the webhook delivers", lambda: receiver.got and receiver.got[0])
        shown = eventually(
            "the delivery is over",
            lambda: (
                (found := dora.webhook(webhook["id"])["deliveries"])
                and found[0]["state"] == "delivered"
                and found
            ),
        )
    finally:
        dora.cancel_run(run, reason="enough")
    assert (event["detail-type"], event["detail"]["run"]["id"]) == ("run.submitted", run)
    sent = Webhook(webhook["secret"]).verify(body, headers)
    assert (sent["type"], sent["data"]["run"]["id"]) == ("run.submitted", run)
    assert [(one["id"], one["eventId"]) for one in shown] == [
        (headers["webhook-id"], event["detail"]["id"])
    ]
    assert dora.remove_webhook(webhook["id"])["status"] == "Deleted"
    assert notice["Subject"] == "doras was submitted"
    assert notice["Message"].startswith("doras was submitted\n")
    values = {name: one["Value"] for name, one in notice["MessageAttributes"].items()}
    values.pop("cluster", None)  # the machine may have named it by then
    assert values == {"type": "run.submitted", "severity": "info", "run": run, "owner": "dora"}
    target = {"Id": "2", "Arn": outputs["NoticeTopicArn"]}
    with pytest.raises(ClientError, match="Lambda and SQS"):
        events.put_targets(Rule="doras", Targets=[target], **on)
    with pytest.raises(ClientError, match="a queue hears what mail would"):
        sns.subscribe(
            TopicArn=outputs["NoticeTopicArn"], Protocol="email", Endpoint="dora@example.com"
        )
    with pytest.raises(ClientError, match="no rule fires by a schedule here"):
        events.put_rule(Name="each-hour", ScheduleExpression="rate(1 hour)")
    eventually("the run ends", lambda: dora.run(run)["status"] in ENDED)


def test_what_one_who_left_had_an_admin_gives_to_another(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carol = client_of(state_dir, "carol", monkeypatch)
    dave = client_of(state_dir, "dave", monkeypatch)
    spec = {
        "name": "carols",
        "deployment": "SCRATCH_2",
        "storageGib": 1200,
        "subnetId": "subnet-0123456789abcdef0",
        "securityGroupIds": ["sg-0123456789abcdef0"],
    }
    carol.create_filesystem(spec)
    people.remove(state_dir, "carol")
    with pytest.raises((ApiProblem, Refused)) as gone:
        carol.whoami()
    assert "security token" in str(gone.value)
    people.add(state_dir, "carol")
    monkeypatch.setenv(LOCAL_USER, "carol")
    with pytest.raises(ApiProblem) as no:  # of the same name, and not the same person
        Client.from_state_dir(state_dir).delete_filesystem("carols", discard="mine")
    assert "belongs to carol" in refused(no)
    monkeypatch.delenv(LOCAL_USER)
    with pytest.raises(ApiProblem):
        dave.transfer("filesystem", "carols")
    admin = Client.from_state_dir(state_dir)
    arn = f"arn:aws:iam::{ACCOUNT}:user/dave"
    given = admin.transfer("filesystem", "carols", arn, reason="carol left")
    assert given["createdBy"]["name"] == "dave"
    assert dave.delete_filesystem("carols", discard="carol left")["name"] == "carols"
    newest = admin.audit(subject="filesystem/carols", what="filesystem.transfer")[0]
    assert (newest["reason"], newest["outcome"]) == ("carol left", "done")


def with_members(state_dir: Path, folder: Path, members: str) -> None:
    """The stack is deployed anew with these members."""
    folder.mkdir()
    for one in ROOT.iterdir():
        if one.name != "template.yaml":
            (folder / one.name).symlink_to(one)
    text = (ROOT / "template.yaml").read_text()
    head, mark, rest = text.partition("  Members:\n")
    assert mark
    rest = rest.replace('Default: "*"', f"Default: {json.dumps(members)}", 1)
    (folder / "template.yaml").write_text(head + mark + rest)
    control.update(state_dir, folder / "template.yaml")


def fires(state_dir: Path, schedule: str, due: str) -> dict[str, Any]:
    """What becomes of this time; nobody waits for the night."""
    there, admin = local(state_dir), Client.from_state_dir(state_dir)
    to = datetime.fromisoformat(due.replace("Z", "+00:00")) + timedelta(seconds=20)
    answer = httpx.post(
        f"{there['endpoint']}/_trainyard/clock",
        json={"to": to.isoformat()},
        headers={"x-trainyard-token": there["adminToken"]},
        timeout=60,
        trust_env=False,
    )
    assert answer.status_code == 202, answer.text

    def fired() -> dict[str, Any] | None:
        found = [one for one in admin.schedule(schedule)["firings"] if one["at"] == due]
        return found[0] if found else None

    return dict(eventually(f"{schedule} fires at {due}", fired, 60))


def test_a_schedule_of_one_who_left_fires_again_once_it_is_somebody_elses(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grace = client_of(state_dir, "grace", monkeypatch)
    heidi = client_of(state_dir, "heidi", monkeypatch)
    admin = Client.from_state_dir(state_dir)
    run = {"name": "night", "cluster": {"spec": cluster_spec("night", workers=1)}}
    spec = {"name": "nightly", "cron": "0 2 * * *", "run": {**run, "job": light_job(steps=1000)}}
    plan = grace.plan_schedule(spec)
    assert plan["refused"] == []
    times = grace.create_schedule(spec)["nextTimes"]
    assert [one["at"] for one in plan["nextTimes"]] == times
    arn = f"arn:aws:iam::{ACCOUNT}:user/heidi"
    with_members(state_dir, tmp_path / "without", arn)
    try:
        assert grace.whoami()["role"] == "viewer"
        firing = fires(state_dir, "nightly", times[0])
        assert (firing["outcome"], firing["runIds"]) == ("refused", [])
        assert "grace" in firing["reason"]
        assert "trainyard schedule transfer nightly --to ARN" in firing["reason"]
        (told,) = admin.audit(what="schedule.fire")
        assert (told["outcome"], told["subject"]) == ("refused", "schedule/nightly")
        with pytest.raises(ApiProblem) as no:
            heidi.pause_schedule("nightly")
        assert "belongs to grace" in refused(no)
        given = admin.transfer("schedule", "nightly", arn, reason="grace left")
        assert given["createdBy"]["name"] == "heidi"
        (run_id,) = fires(state_dir, "nightly", times[1])["runIds"]
        assert eventually("the run is there", lambda: submitter(heidi, run_id), 60) == "heidi"
        heidi.delete_schedule("nightly", reason="seen")
        heidi.cancel_run(run_id)
        eventually("the run ends", lambda: heidi.run(run_id)["status"] in ENDED)
    finally:
        with_members(state_dir, tmp_path / "again", "*")
    why = {(one["what"], one["reason"]) for one in admin.audit(subject="schedule/nightly")}
    assert {("schedule.transfer", "grace left"), ("schedule.delete", "seen")} <= why


def submitter(client: Client, run_id: str) -> str | None:
    """Whose run it is; None while the schedule names it and it is not made."""
    try:
        return str(client.run(run_id)["createdBy"]["name"])
    except ApiProblem as problem:
        if problem.status != 404:
            raise
        return None


def test_a_session_of_a_role_has_the_name_that_the_roles_trust_allows(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_of(state_dir, "erin", monkeypatch)
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": "sts:AssumeRole",
                "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:user/erin"},
                "Condition": {"StringEquals": {"sts:RoleSessionName": "${aws:username}"}},
            }
        ],
    }
    iam = aws(state_dir, "iam")
    iam.create_role(RoleName="lead", AssumeRolePolicyDocument=json.dumps(trust))
    role = f"arn:aws:iam::{ACCOUNT}:role/lead"
    may = {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": role}
    iam.put_user_policy(
        UserName="erin",
        PolicyName="lead",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [may]}),
    )
    sts = aws(state_dir, "sts", "erin")
    with pytest.raises(ClientError) as forged:
        sts.assume_role(RoleArn=role, RoleSessionName="alice")
    assert forged.value.response["Error"]["Code"] == "AccessDenied"
    given = sts.assume_role(RoleArn=role, RoleSessionName="erin")["Credentials"]
    keys = Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
    # the role itself has no policy yet: its session may not call the API
    answer = signed_get(state_dir, "/v1/whoami", keys)
    assert answer.status_code == 403
    assert "execute-api:Invoke" in answer.json()["message"]
    call = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": "*"}
    iam.put_role_policy(
        RoleName="lead",
        PolicyName="api",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [call]}),
    )
    found = signed_get(state_dir, "/v1/whoami", keys).json()
    assert (found["person"]["name"], found["person"]["kind"]) == ("erin", "session")
    assert found["role"] == "admin"
    assert found["person"]["id"].startswith("AROA")


def test_a_wrong_signature_an_unknown_key_and_an_inactive_one_are_refused(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_of(state_dir, "frank", monkeypatch)
    path = state_dir / "people" / "frank.json"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    keys = json.loads(path.read_text())
    key, secret = keys["accessKeyId"], keys["secretAccessKey"]
    assert signed_get(state_dir, "/v1/whoami", Credentials(key, secret)).status_code == 200
    for forged in (Credentials(key, secret[::-1]), Credentials("AKIAFORGED0000000000", secret)):
        assert signed_get(state_dir, "/v1/whoami", forged).status_code == 403
    iam = aws(state_dir, "iam")
    iam.update_access_key(UserName="frank", AccessKeyId=key, Status="Inactive")
    assert signed_get(state_dir, "/v1/whoami", Credentials(key, secret)).status_code == 403
    iam.update_access_key(UserName="frank", AccessKeyId=key, Status="Active")
    iam.delete_user_policy(UserName="frank", PolicyName="trainyard-api")
    answer = signed_get(state_dir, "/v1/whoami", Credentials(key, secret))
    assert answer.status_code == 403
    assert "not authorized" in answer.json()["message"]


def typed(state_dir: Path, slack: LocalSlack, text: str, **changes: str) -> str:
    """What a person reads who types this after `/trainyard`; the answer comes once."""
    name = f"{len(slack.taken)}-answer"
    body = command(text=text, trigger_id=name, response_url=slack.response_url(name), **changes)
    for _ in range(2):  # as Slack repeats what it believes to be lost
        answer = posted(state_dir, body, signed(body, time.time()))
        assert (answer.status_code, answer.text) == (200, "")
    eventually(f"the answer to '{text}'", lambda: slack.answers(name))
    (message,) = slack.answers(name)
    return words(message)


def clicked(state_dir: Path, slack: LocalSlack, label: str, **changes: Any) -> str:
    """What a person reads who clicks this button of the newest message."""
    (newest,) = list(slack.taken.values())[-1]
    (button,) = [one for one in buttons_of(newest) if one["text"]["text"] == label]
    name = f"{len(slack.taken)}-click"
    body = click(button, trigger_id=name, response_url=slack.response_url(name), **changes)
    for _ in range(2):
        answer = posted(state_dir, body, signed(body, time.time()), "interactions")
        assert (answer.status_code, answer.text) == (200, "")
    eventually(f"what follows '{label}'", lambda: slack.answers(name))
    (message,) = slack.answers(name)
    return words(message)


def posted(
    state_dir: Path, body: bytes, headers: dict[str, str], route: str = "commands"
) -> httpx.Response:
    address = local(state_dir)["apiUrl"] + f"/slack/{route}"
    return httpx.post(address, content=body, headers=headers, trust_env=False, timeout=60)


def test_in_slack_a_person_asks_as_who_the_list_says_and_nobody_else_reads_anything(
    state_dir: Path, slack: LocalSlack, space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = client_of(state_dir, "alice", monkeypatch)
    job = light_job(steps=1000, seconds=0.5)
    spec = cluster_spec("asked", workers=1)
    run = alice.submit_run({"name": "asked", "cluster": {"spec": spec}, "job": job})["id"]
    try:
        cluster = eventually(
            "AWS has its cluster",
            lambda: (found := alice.run(run))["clusterGeneration"] and found["clusterName"],
        )
        assert run in typed(state_dir, slack, "runs")
        assert run in typed(state_dir, slack, "runs mine")
        assert "asked: " in typed(state_dir, slack, f"show {run}")
        assert "Cost of asked" in typed(state_dir, slack, "cost latest")
        assert f"*{cluster}*" in typed(state_dir, slack, "clusters")
        assert f"Nodes of {cluster}" in typed(state_dir, slack, f"nodes {cluster}")
        assert "`/trainyard show RUN`" in typed(state_dir, slack, "")
        for text in ("runs", f"show {run}"):
            said = typed(state_dir, slack, text, user_id="U0STRANGER")
            assert "Trainyard does not know you yet" in said
            assert run not in said
        assert run in home_of(state_dir, space, USER)
        assert run not in home_of(state_dir, space, "U0STRANGER")
        assert "Nothing waits for people." in typed(state_dir, slack, "approvals")
        assert "USD an hour*" in typed(state_dir, slack, f"rerun {run}")
        assert "Nothing is done yet." in typed(state_dir, slack, f"cancel {run}")
        assert "asked is being cancelled" in clicked(state_dir, slack, "Cancel the run")
    finally:
        alice.cancel_run(run)
    (entry,) = Client.from_state_dir(state_dir).audit(subject=f"run/{run}", what="run.cancel")[1:]
    assert (entry["outcome"], entry["userAgent"]) == ("done", f"Slack {WHO}")
    assert entry["who"]["name"] == "alice"
    body = command(response_url=slack.response_url("forged"))
    for headers in (
        signed(body, time.time(), "another secret"),
        signed(body, time.time() - 600),
        {"content-type": "application/x-www-form-urlencoded"},
    ):
        assert posted(state_dir, body, headers).status_code == 401
    assert slack.answers("forged") == []
    assert {len(answers) for answers in slack.taken.values()} == {1}
    eventually("the run ends", lambda: alice.run(run)["status"] in ENDED)
    eventually("its thread has its end", lambda: shown(state_dir, space, "asked was cancelled"))
    (parent,) = shown(state_dir, space, "asked: Cancelled")
    (end,) = shown(state_dir, space, "asked was cancelled")
    assert end["thread_ts"] == parent["ts"]
    yesterday_was_the_last(state_dir)
    eventually("the digest is there", lambda: shown(state_dir, space, "What happened"))
    (digest,) = shown(state_dir, space, "What happened")
    for said in (words(digest), typed(state_dir, slack, "digest")):
        assert re.search("[1-9][0-9]* cancelled", said), "others in this file cancel runs, too"
        assert "Spent by those that ended" in said


def home_of(state_dir: Path, space: Workspace, user: str) -> str:
    """What a person reads who opens the app's home, though Slack sends that event three times."""
    opened = {"type": "app_home_opened", "user": user, "channel": "D0123ABCD", "tab": "home"}
    body = happening(opened, event_id=f"Ev{user}", event_time=int(time.time()))
    for _ in range(3):
        headers = signed(body, time.time(), kind="application/json")
        assert posted(state_dir, body, headers, "events").status_code == 200
    eventually(f"the home of {user}", lambda: user in space.homes)
    return words(space.homes[user])


def yesterday_was_the_last(state_dir: Path) -> None:
    """As a day later."""
    client = aws(state_dir, "dynamodb")
    (name,) = client.list_tables()["TableNames"]
    threads = TableThreads(Table(client, name), SystemClock())
    last = threads.digest()
    assert last is not None
    day = datetime.fromisoformat(last.day) - timedelta(days=1)
    threads.put_digest(last.changed(day=f"{day:%Y-%m-%d}", since=last.since - timedelta(days=1)))


def shown(state_dir: Path, space: Workspace, text: str) -> list[dict[str, Any]]:
    """The messages of the channel with this text, after what happens each minute."""
    for name in ("sweep", "slack-runs"):
        answer = aws(state_dir, "lambda").invoke(FunctionName=f"trainyard-{name}", Payload=b"{}")
        assert "FunctionError" not in answer, answer["Payload"].read().decode()
    return [one for one in space.messages.values() if one["text"] == text]
