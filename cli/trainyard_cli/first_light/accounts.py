"""The account behind an API: that of the caller's credentials on AWS, else the local cloud."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from trainyard_sdk.connection import Connection

from ..doctor.account import Account, Json


class LocalAccount(Account):
    """The account of the local cloud. Without CloudFormation local.json describes its stack."""

    def __init__(self, session: Any, local: Json) -> None:
        super().__init__(session, local["region"], local["stack"], endpoint=local["endpoint"])
        self._local = local

    @cached_property
    def stack(self) -> Json | None:
        outputs = [
            {"OutputKey": key, "OutputValue": value}
            for key, value in self._local["outputs"].items()
        ]
        return {
            "StackName": self.stack_name,
            "StackStatus": "CREATE_COMPLETE",
            "Outputs": outputs,
            "Parameters": [],
        }

    def resource(self, logical_id: str) -> str | None:
        found = self._local["resources"].get(logical_id)
        return None if found is None else str(found)


def account_of(connection: Connection, stack: str) -> Account:
    """The account that holds the API's stack. Raises Refused where there are no credentials."""
    from botocore.session import Session

    session: Any = Session()
    if connection.local is None:
        # Missing credentials are named here, before AWS refuses a first call in other words.
        connection.credentials  # noqa: B018
        return Account(session, connection.region, stack)
    local = connection.local
    session.set_credentials(
        local["accessKeyId"], local["secretAccessKey"], local.get("sessionToken")
    )
    return LocalAccount(session, local)
