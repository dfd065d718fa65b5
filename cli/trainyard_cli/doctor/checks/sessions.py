"""Do the account's Session Manager preferences let Trainyard run commands on nodes?"""

from __future__ import annotations

import json
from collections.abc import Iterator

from ..account import Account, NotAnswered
from ..findings import Finding
from ..scope import Scope

#: The document that holds the account's preferences; without it AWS's defaults hold.
DOCUMENT = "SSM-SessionManagerRunShell"


def check(account: Account, _scope: Scope) -> Iterator[Finding]:
    try:
        document = account.call("ssm", "GetDocument", Name=DOCUMENT, DocumentFormat="JSON")
    except NotAnswered as error:
        if error.code == "InvalidDocument":
            return
        raise
    inputs = json.loads(document["Content"]).get("inputs") or {}
    if inputs.get("kmsKeyId"):
        problem = (
            f"every session is encrypted with {inputs['kmsKeyId']}, which Trainyard's client "
            "does not do"
        )
        yield _finding(
            "failure",
            problem,
            (
                "Take the KMS key out of the preferences of this account and region, or use "
                "another account"
            ),
        )
    if inputs.get("runAsEnabled") and inputs.get("runAsDefaultUser") not in (
        "root",
        "ssm-user",
        "ubuntu",
    ):
        user = inputs.get("runAsDefaultUser") or "whoever a tag names"
        problem = f"sessions run as {user}, who needs sudo without a password on the nodes"
        yield _finding(
            "warning",
            problem,
            "Let them run as ubuntu or ssm-user, or give that user NOPASSWD for trainyard-agent",
        )


def _finding(severity: str, problem: str, remedy: str) -> Finding:
    subject = f"Session Manager preferences ({DOCUMENT})"
    return Finding(
        "sessions", "failure" if severity == "failure" else "warning", subject, problem, remedy
    )
