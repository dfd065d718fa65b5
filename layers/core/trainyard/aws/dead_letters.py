"""Events that no function could record, in their SQS queue."""

from __future__ import annotations

from typing import Any

from trainyard.aws.refusals import translated
from trainyard.outside.executions import DeadLetter

#: SQS's own limit for one call.
BATCH = 10
#: A letter that could not be recorded is seen again by the next sweep, a minute later.
HIDDEN_SECONDS = 50


class QueueDeadLetters:
    """The port `DeadLetters` on one queue."""

    def __init__(self, sqs: Any, queue_url: str) -> None:
        self._sqs = sqs
        self._url = queue_url

    def take(self, limit: int) -> list[DeadLetter]:
        found: dict[str, DeadLetter] = {}
        while len(found) < limit:
            with translated("read the dead letters"):
                # A short poll: what it misses is seen a minute later. A long one would cost money
                # every minute.
                answer = self._sqs.receive_message(
                    QueueUrl=self._url,
                    MaxNumberOfMessages=min(BATCH, limit - len(found)),
                    VisibilityTimeout=HIDDEN_SECONDS,
                )
            letters = answer.get("Messages", [])
            if not letters:
                break
            found.update(
                {
                    letter["MessageId"]: DeadLetter(letter["ReceiptHandle"], letter["Body"])
                    for letter in letters
                }
            )
        return list(found.values())

    def forget(self, letter: DeadLetter) -> None:
        with translated("delete a dead letter"):
            self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=letter.receipt)
