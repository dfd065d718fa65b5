"""Settings are read from the environment, and what is missing or malformed is named."""

from __future__ import annotations

import pytest
from tests.support.settings import ENVIRONMENT

from trainyard.settings import MissingSetting, Settings


def test_settings_are_read_from_the_environment() -> None:
    settings = Settings.from_env(ENVIRONMENT)
    assert settings.default_subnet_ids == ("subnet-1", "subnet-2")
    assert settings.default_security_group_ids == ()
    assert settings.heartbeat_seconds == 2


@pytest.mark.parametrize(
    "name",
    [
        "STAGE",
        "TABLE_NAME",
        "DATA_BUCKET",
        "DEAD_LETTERS_URL",
        "RUN_MACHINE_ARN",
        "NODE_BOUNDARY_ARN",
        "SECRET_PREFIX",
    ],
)
def test_a_missing_variable_is_named(name: str) -> None:
    with pytest.raises(MissingSetting, match=name):
        Settings.from_env({**ENVIRONMENT, name: ""})


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan s"])
def test_a_malformed_number_is_named_with_its_value(text: str) -> None:
    with pytest.raises(MissingSetting, match=f"HEARTBEAT_SECONDS is '{text}'"):
        Settings.from_env({**ENVIRONMENT, "HEARTBEAT_SECONDS": text})


def test_everybody_is_an_admin_unless_the_stack_names_some_and_nobody_is_where_it_is_empty() -> (
    None
):
    assert Settings.from_env(ENVIRONMENT).admins == ("*",)
    given = {**ENVIRONMENT, "ADMINS": "a, b", "MEMBERS": "", "AUDIT_DAYS": "30"}
    settings = Settings.from_env(given)
    assert (settings.admins, settings.members, settings.viewers) == (("a", "b"), (), ("*",))
    assert settings.audit_days == 30


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "soon"])
def test_days_that_are_none_are_named_with_their_value(text: str) -> None:
    with pytest.raises(MissingSetting, match=f"AUDIT_DAYS is '{text}'"):
        Settings.from_env({**ENVIRONMENT, "AUDIT_DAYS": text})


def test_approvals_are_off_by_default_and_their_rules_are_read() -> None:
    off = Settings.from_env({**ENVIRONMENT, "APPROVAL_ABOVE_USD": "", "APPROVERS": ""})
    assert (off.approval_above_usd, off.approvals_needed, off.approvers) == (None, 1, ())
    given = {"APPROVAL_ABOVE_USD": "99.50", "APPROVALS_NEEDED": "2", "APPROVERS": "a, b"}
    found = Settings.from_env({**ENVIRONMENT, **given, "APPROVAL_SECONDS": "600"})
    assert (found.approval_above_usd, found.approvals_needed) == (99.5, 2)
    assert (found.approval_seconds, found.approvers) == (600, ("a", "b"))


def test_the_digest_is_off_by_default_and_its_hour_is_read() -> None:
    off = Settings.from_env({**ENVIRONMENT, "SLACK_DIGEST_HOUR": "", "SLACK_DIGEST_ZONE": ""})
    assert (off.slack_digest_hour, off.slack_digest_zone) == (None, "UTC")
    given = {"SLACK_DIGEST_HOUR": "0", "SLACK_DIGEST_ZONE": "Europe/Berlin"}
    on = Settings.from_env({**ENVIRONMENT, **given})
    assert (on.slack_digest_hour, on.slack_digest_zone) == (0, "Europe/Berlin")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("APPROVAL_ABOVE_USD", "a lot"),
        ("APPROVAL_ABOVE_USD", "-1"),
        ("APPROVAL_ABOVE_USD", "inf"),
        ("APPROVALS_NEEDED", "3"),
        ("SLACK_DIGEST_HOUR", "24"),
        ("SLACK_DIGEST_HOUR", "noon"),
    ],
)
def test_rules_that_mean_nothing_are_refused(name: str, text: str) -> None:
    with pytest.raises(MissingSetting, match=f"{name} is '{text}'"):
        Settings.from_env({**ENVIRONMENT, name: text})
