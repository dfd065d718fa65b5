"""The owner may make every call, a role those of its policies, where these are enforced."""

from __future__ import annotations

import pytest

from sam_on_moto.iam.access import Access, Denied


def test_the_owner_may_do_everything_and_a_role_without_policies_nothing() -> None:
    access = Access("123456789012")
    access.require(access.owner, "s3:GetObject", "arn:aws:s3:::x/y")
    nobody = access.issue("arn:aws:iam::123456789012:role/nobody", "s")
    assert access.issue("arn:aws:iam::123456789012:role/nobody", "s") is nobody
    with pytest.raises(Denied, match="no policy allows the action"):
        access.require(nobody, "s3:GetObject", "arn:aws:s3:::x/y")
    assert access.report()["denials"][0]["action"] == "s3:GetObject"


def test_without_enforcement_a_role_may_do_everything() -> None:
    access = Access("123456789012", enforce=False)
    access.require(
        access.issue("arn:aws:iam::123456789012:role/nobody", "s"),
        "s3:GetObject",
        "arn:aws:s3:::x/y",
    )
