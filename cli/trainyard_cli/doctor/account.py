"""Read-only calls of one account and region, made once each; all refusals are one kind of error."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

Json = dict[str, Any]
#: A missing answer must not hold up the others for botocore's whole minute.
CONNECT_SECONDS, READ_SECONDS, TRIES = 5, 20, 3


class NotAnswered(Exception):
    """AWS refused or could not be reached. `code` is AWS's, or the name of botocore's exception."""

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.operation, self.code, self.message = operation, code, message

    @property
    def forbidden(self) -> bool:
        return (
            "AccessDenied" in self.code
            or "UnauthorizedOperation" in self.code
            or "NotAuthorized" in self.code
        )


class Account:
    """The account of the credentials.

    Checks go through `call`, which is only given operations that read.
    """

    def __init__(
        self,
        session: Any,
        region: str,
        stack: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
        endpoint: str | None = None,
    ) -> None:
        """`endpoint` takes AWS's place: the local cloud's."""
        self._session, self._endpoint = session, endpoint
        self._clients: dict[tuple[str, str], Any] = {}
        self._answers: dict[str, Json] = {}
        self.region, self.stack_name, self.sleep = region, stack, sleep

    def call(
        self,
        service: str,
        operation: str,
        *,
        region: str | None = None,
        again: bool = False,
        **request: Any,
    ) -> Json:
        """The answer of `service:Operation`; an equal request gets the first answer.

        Raises NotAnswered.
        """
        key = json.dumps([service, operation, region, request], sort_keys=True)
        if again or key not in self._answers:
            self._answers[key] = self._ask(service, operation, region or self.region, request)
        return self._answers[key]

    def forget(self) -> None:
        """Forget answers that may have changed, to ask again; caller and stack are kept."""
        self._answers.clear()

    def change(self, service: str, operation: str, **request: Any) -> Json:
        """The one way to change something; only first-light's teardown uses it.

        Raises NotAnswered.
        """
        return self._ask(service, operation, self.region, request)

    def _ask(self, service: str, operation: str, region: str, request: Json) -> Json:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            client = self._client(service, region)
            answer: Json = getattr(client, _snake(client, operation))(**request)
        except ClientError as error:
            said = error.response.get("Error", {})
            raise NotAnswered(
                f"{service}:{operation}", said.get("Code", "?"), said.get("Message", "")
            ) from error
        except BotoCoreError as error:
            raise NotAnswered(f"{service}:{operation}", type(error).__name__, str(error)) from error
        return answer

    def _client(self, service: str, region: str) -> Any:
        from botocore.config import Config

        if (service, region) not in self._clients:
            config = Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"total_max_attempts": TRIES},
            )
            self._clients[service, region] = self._session.create_client(
                service, region_name=region, config=config, endpoint_url=self._endpoint
            )
        return self._clients[service, region]

    def all(self, service: str, operation: str, key: str, **request: Any) -> Iterator[Any]:
        """The items below `key` of every page. Raises NotAnswered."""
        more: Json = {}
        while True:
            page = self.call(service, operation, **request, **more)
            yield from page.get(key) or []
            if not page.get("NextToken"):
                return
            more = {"NextToken": page["NextToken"]}

    # What several checks need

    @cached_property
    def identity(self) -> Json:
        """Account, Arn and UserId of the caller."""
        return self.call("sts", "GetCallerIdentity")

    @property
    def partition(self) -> str:
        return str(self.identity["Arn"]).split(":")[1]

    @cached_property
    def stack(self) -> Json | None:
        """Trainyard's stack; None if there is none of that name."""
        try:
            found = self.call("cloudformation", "DescribeStacks", StackName=self.stack_name)
        except NotAnswered as error:
            if error.code == "ValidationError" and "does not exist" in error.message:
                return None
            raise
        return dict(found["Stacks"][0])

    @property
    def outputs(self) -> dict[str, str]:
        stack = self.stack or {}
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs") or []}

    @property
    def parameters(self) -> dict[str, str]:
        stack = self.stack or {}
        return {
            one["ParameterKey"]: one.get("ParameterValue", "")
            for one in stack.get("Parameters") or []
        }

    def resource(self, logical_id: str) -> str | None:
        """Physical id of a resource of the stack; None where this stack has no such resource."""
        if self.stack is None:
            return None
        found = self.all(
            "cloudformation",
            "ListStackResources",
            "StackResourceSummaries",
            StackName=self.stack_name,
        )
        return next(
            (
                str(one["PhysicalResourceId"])
                for one in found
                if one["LogicalResourceId"] == logical_id
            ),
            None,
        )


def _snake(client: Any, operation: str) -> str:
    names: dict[str, str] = client.meta.method_to_api_mapping
    return next(method for method, name in names.items() if name == operation)
