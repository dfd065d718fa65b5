"""What a container asks AWS for, by boto3: clients that try again, the cluster's key, and the
secrets that the job asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .events import Entry
from .surroundings import Surroundings, Unfit

_TRIES = 10


class Aws:
    """Clients of one region, made once each and before any thread needs them."""

    def __init__(self, region: str) -> None:
        import boto3
        from botocore.config import Config

        config = Config(
            retries={"max_attempts": _TRIES, "mode": "standard"},
            max_pool_connections=32,
            connect_timeout=10,
        )
        session = boto3.Session(region_name=region)
        self.s3: Any = session.client("s3", config=config)
        self._events: Any = session.client("events", config=config)
        self._sagemaker: Any = session.client("sagemaker", config=config)
        self._secrets: Any = session.client("secretsmanager", config=config)

    def put_events(self, entries: list[Entry]) -> list[dict[str, Any]]:
        return list(self._events.put_events(Entries=entries)["Entries"])

    def is_stopping(self, job: str) -> bool:
        """Whether SageMaker is ending the job. Raises what boto3 raises."""
        said = self._sagemaker.describe_training_job(TrainingJobName=job)
        return "Stopping" in (said["TrainingJobStatus"], said["SecondaryStatus"])

    def key(self, where: Surroundings) -> bytes:
        """The cluster's. Raises Unfit."""
        return self._secret(where.key_secret, "TRAINYARD_KEY_SECRET").encode()

    def secrets_of(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """The values of `name` or `name:key` by variable. Raises Unfit, without any value."""
        texts: dict[str, str] = {}
        found = {}
        for variable, reference in wanted.items():
            name, _, key = reference.partition(":")
            if name not in texts:
                texts[name] = self._secret(name, f"job.secrets.{variable}")
            found[variable] = _value(texts[name], name, key)
        return found

    def secret_of(self, reference: str, field: str) -> str:
        """The value of `name` or `name:key`. Raises Unfit, which names the field."""
        name, _, key = reference.partition(":")
        return _value(self._secret(name, field), name, key)

    def _secret(self, name: str, field: str) -> str:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = self._secrets.get_secret_value(SecretId=name)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            raise Unfit(
                f"{field}: secret '{name}' cannot be read ({code}); the job's role needs "
                "secretsmanager:GetSecretValue on it"
            ) from None
        except BotoCoreError as error:
            raise Unfit(f"{field}: Secrets Manager cannot be reached: {error}") from None
        text = answer.get("SecretString")
        if not isinstance(text, str):
            raise Unfit(f"{field}: secret '{name}' holds binary data; a variable needs text")
        return text


def _value(text: str, name: str, key: str) -> str:
    """The secret, or one value of one that holds a JSON object. Raises Unfit."""
    value: Any = text
    if key:
        try:
            value = json.loads(text)[key]
        except (ValueError, KeyError, TypeError):
            value = None
        if not isinstance(value, str):
            raise Unfit(f"job.secrets: secret '{name}' has no text under the key '{key}'")
    if "\x00" in value:
        raise Unfit(f"job.secrets: secret '{name}' holds a NUL character; no variable can hold it")
    return str(value)
