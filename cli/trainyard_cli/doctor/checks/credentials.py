"""Are there credentials, and does AWS take them?"""

from __future__ import annotations

from collections.abc import Iterator

from ..account import Account, NotAnswered
from ..findings import Finding
from ..scope import Scope


def check(account: Account, _scope: Scope) -> Iterator[Finding]:
    try:
        account.identity  # noqa: B018 - asking is the check
    except NotAnswered as error:
        problem = f"AWS does not take the credentials: {error.code}: {error.message}"
        yield Finding("credentials", "failure", "AWS credentials", problem, "Log in (aws sso login) or set AWS_PROFILE, then look again")
