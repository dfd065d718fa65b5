"""People of Slack are principals of AWS, by a list that an admin keeps."""

from __future__ import annotations

import json

import pytest
from tests.support.slack import WHO

from trainyard.chat.members import ListUnreadable, person_of

ALICE = "arn:aws:iam::111122223333:user/alice"


def test_a_person_in_the_list_is_the_principal_of_that_arn() -> None:
    person = person_of(json.dumps({WHO: ALICE}), WHO)
    assert person is not None
    assert (person.arn, person.name, person.id) == (ALICE, "alice", "")


@pytest.mark.parametrize("text", [None, "", "  ", "{}", json.dumps({"T1/U2": ALICE})])
def test_who_is_not_in_it_is_nobody(text: str | None) -> None:
    assert person_of(text, WHO) is None


def test_the_same_user_id_of_another_workspace_is_nobody() -> None:
    assert person_of(json.dumps({WHO: ALICE}), f"T999/{WHO.partition('/')[2]}") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        ('{"alice": "x"}', "'alice' must be TEAM/USER"),
        (json.dumps({WHO: "alice"}), "'alice' is not the ARN"),
        (json.dumps({WHO: "arn:aws:iam::111122223333:group/a"}), "names neither a user"),
        (json.dumps({WHO: None}), "'None' is not the ARN"),
    ],
)
def test_a_list_that_is_not_understood_lets_nobody_in_and_says_what_is_wrong(
    text: str, words: str
) -> None:
    with pytest.raises(ListUnreadable) as refused:
        person_of(text, WHO)
    assert words in refused.value.detail
    assert "docs/use/slack.md" in refused.value.next_step
