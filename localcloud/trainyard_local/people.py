"""People of the local cloud: users of its IAM, each with an access key that signs their calls."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainyard_local.control import LOCAL_FILE, PEOPLE, ControlError, Unusable

#: IAM's own pattern for names of users.
_NAME = re.compile(r"[\w+=,.@-]{1,64}", re.ASCII)
_POLICY = "trainyard-api"


def add(state_dir: Path, name: str) -> dict[str, Any]:
    """Make the user, who may call the API, with a new key in people/NAME.json; again: another key.

    Raises ControlError.
    """
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise Unusable(
            f"{name[:100]!r} cannot be the name of a user of IAM",
            "Give 1 to 64 letters, digits and + = , . @ _ -",
        )
    local = _local(state_dir)
    iam = _client(local)
    with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
        iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName=_POLICY, PolicyDocument=_policy(local))
    _drop_keys(iam, name)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    arn = iam.get_user(UserName=name)["User"]["Arn"]
    _write(
        state_dir / PEOPLE / f"{name}.json",
        {
            "name": name,
            "arn": arn,
            "accessKeyId": key["AccessKeyId"],
            "secretAccessKey": key["SecretAccessKey"],
        },
    )
    return {"name": name, "arn": arn}


def remove(state_dir: Path, name: str) -> None:
    """The user leaves: their key signs nothing any more. Raises ControlError."""
    iam = _client(_local(state_dir))
    try:
        _drop_keys(iam, name)
        iam.delete_user_policy(UserName=name, PolicyName=_POLICY)
        iam.delete_user(UserName=name)
    except iam.exceptions.NoSuchEntityException:
        raise ControlError(
            f"the local cloud has no user {name!r}", "See: trainyard local user ls"
        ) from None
    (state_dir / PEOPLE / f"{name}.json").unlink(missing_ok=True)


def listed(state_dir: Path) -> list[dict[str, str]]:
    """Name and ARN of each user. Raises ControlError."""
    users = _client(_local(state_dir)).list_users()["Users"]
    return [{"name": user["UserName"], "arn": user["Arn"]} for user in users]


def _drop_keys(iam: Any, name: str) -> None:
    for key in iam.list_access_keys(UserName=name)["AccessKeyMetadata"]:
        iam.delete_access_key(UserName=name, AccessKeyId=key["AccessKeyId"])


def _policy(local: Mapping[str, Any]) -> str:
    """As docs/people.md gives it for AWS: all of this API, and nothing else."""
    api = str(local["apiUrl"]).rstrip("/").split("/_api/", 1)[1].partition("/")[0]
    resource = f"arn:aws:execute-api:{local['region']}:{local['accountId']}:{api}/*"
    statement = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": resource}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _local(state_dir: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((state_dir / LOCAL_FILE).read_text())
    except FileNotFoundError:
        raise ControlError(
            f"no local cloud is up in {state_dir}", "Start one with `trainyard local up`."
        ) from None
    return found


def _client(local: Mapping[str, Any]) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "iam",
        endpoint_url=local["endpoint"],
        region_name=local["region"],
        aws_access_key_id=local["accessKeyId"],
        aws_secret_access_key=local["secretAccessKey"],
        config=Config(proxies={}, retries={"max_attempts": 1}),
    )


def _write(path: Path, document: Mapping[str, str]) -> None:
    """For the owner's eyes only from the first byte on."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps(document))
    shutil.move(fresh, path)
