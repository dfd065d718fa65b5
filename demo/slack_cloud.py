"""A local cloud whose stack knows a workspace of a local Slack."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from demo.cloud import LocalCloud, local_cloud
from trainyard_cli.commands.local import LOCAL_PARAMETERS
from trainyard_local.slack.server import LocalSlack

CHANNEL = "C0123ABCDEF"
ACCOUNT = "123456789012"
_SECRET = f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:"


@contextmanager
def slack_cloud(
    state_dir: Path,
    slack: LocalSlack,
    people: Mapping[str, str],
    parameters: Mapping[str, str] | None = None,
) -> Iterator[LocalCloud]:
    """`people` are names of users of IAM by their ids in the workspace."""
    given = {
        **LOCAL_PARAMETERS,
        "SlackSigningSecretArn": f"{_SECRET}slack-signing",
        "SlackPeopleArn": f"{_SECRET}slack-people",
        "SlackBotTokenArn": f"{_SECRET}slack-token",
        "SlackChannel": CHANNEL,
        "SlackHooks": slack.url,
        "SlackApi": slack.api,
        **(parameters or {}),
    }
    with local_cloud(state_dir, 0, given) as cloud:
        space, secrets = slack.workspace, cloud.aws("secretsmanager")
        known = {f"{space.team}/{user}": arn_of(name) for user, name in people.items()}
        secrets.create_secret(Name="slack-signing", SecretString=space.secret)
        secrets.create_secret(Name="slack-token", SecretString=space.token)
        secrets.create_secret(Name="slack-people", SecretString=json.dumps(known))
        slack.commands_url = f"{cloud.local['apiUrl']}/slack/commands"
        slack.interactions_url = f"{cloud.local['apiUrl']}/slack/interactions"
        slack.events_url = f"{cloud.local['apiUrl']}/slack/events"
        yield cloud


def arn_of(name: str) -> str:
    """Of a user of IAM."""
    return f"arn:aws:iam::{ACCOUNT}:user/{name}"
