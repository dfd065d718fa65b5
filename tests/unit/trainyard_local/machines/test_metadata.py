"""Nodes that boot get their role's credentials as EC2's instances do."""

from __future__ import annotations

import json

import httpx
import pytest

from trainyard_local.machines import metadata as machine_metadata


@pytest.mark.real
def test_the_metadata_service_answers_as_version_2_of_aws_does() -> None:
    keys = {
        "AWS_ACCESS_KEY_ID": "ASIA",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
    }
    metadata = machine_metadata.Metadata("127.0.0.1", {"127.0.0.1": keys}.get)

    def asked(method: str, path: str, **headers: str) -> tuple[int, str]:
        given = {
            f"X-aws-ec2-metadata-{name.replace('_', '-')}": text for name, text in headers.items()
        }
        answer = httpx.request(method, metadata.endpoint + path, headers=given, trust_env=False)
        return answer.status_code, answer.text

    try:
        assert asked("GET", machine_metadata.CREDENTIALS)[0] == 401, "version 1"
        assert asked("PUT", "/latest/api/token")[0] == 400, "no time is named"
        status, token = asked("PUT", "/latest/api/token", token_ttl_seconds="21600")
        assert status == 200
        assert asked("GET", machine_metadata.CREDENTIALS, token=token) == (200, "node")
        status, found = asked("GET", machine_metadata.CREDENTIALS + "node", token=token)
        assert (status, json.loads(found)["AccessKeyId"]) == (200, "ASIA")
        assert asked("GET", "/latest/user-data", token=token)[0] == 404
    finally:
        metadata.close()
