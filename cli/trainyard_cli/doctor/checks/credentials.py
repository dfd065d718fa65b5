"""Are there credentials, and does AWS take them?"""

from __future__ import annotations

from collections.abc import Iterator

from ..account import Account, NotAnswered
from ..findings import Finding
from ..scope import Scope

#: botocore's names for a way to AWS that is not there: nothing is known of the credentials then.
UNREACHED = (
    "EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ConnectionClosedError",
    "ConnectionError", "ProxyConnectionError", "SSLError", "HTTPClientError",
)  # fmt: skip
NO_PROFILE = ("ProfileNotFound", "ConfigParseError", "ConfigNotFound")


def check(account: Account, _scope: Scope) -> Iterator[Finding]:
    try:
        account.identity  # noqa: B018 - asking is the check
    except NotAnswered as error:
        yield _finding(account, error)


def _finding(account: Account, error: NotAnswered) -> Finding:
    said, region = f"{error.code}: {error.message}", account.region
    if error.code in UNREACHED:
        remedy = (
            f"Is {region} the name of the region (--region)? Else look at the network, a proxy "
            "or a VPN"
        )
        return Finding(
            "credentials",
            "failure",
            f"region {region}",
            f"AWS cannot be reached in {region}: {said}",
            remedy,
        )
    if error.code == "InvalidRegionError":
        remedy = "Correct --region or AWS_REGION, such as us-west-2"
        return Finding(
            "credentials",
            "failure",
            f"region {region}",
            f"{region} is no name of a region: {said}",
            remedy,
        )
    if error.code in NO_PROFILE:
        remedy = "Correct --profile, AWS_PROFILE or ~/.aws/config (aws configure list-profiles)"
        return Finding(
            "credentials", "failure", "AWS profile", f"the profile cannot be used: {said}", remedy
        )
    remedy = "Log in (aws sso login) or set AWS_PROFILE, then look again"
    if error.code == "InvalidClientTokenId":
        remedy += f"; a region that is not enabled in the account answers so, too: is {region}?"
    return Finding(
        "credentials",
        "failure",
        "AWS credentials",
        f"AWS does not take the credentials: {said}",
        remedy,
    )
