"""What people may say of how a cluster is shared; a mistake is named with what would be right."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from trainyard_contracts.sharing import ClusterChanges, RunChanges, SharingSpec


def test_limits_are_of_a_label_of_one_of_its_values_or_of_owners() -> None:
    spec = SharingSpec.model_validate({
        "fairBy": "team",
        "limits": [
            {"label": "team", "maxNodes": 6},
            {"label": "team", "value": "vision", "maxRuns": 2},
            {"owner": "*", "maxRuns": 4},
        ],
    })  # fmt: skip
    assert [limit.max_runs for limit in spec.limits] == [None, 2, 4]
    assert SharingSpec() == SharingSpec.model_validate({})


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"maxRuns": 1}, "give one of 'label' and 'owner'"),
        ({"label": "team", "owner": "*", "maxRuns": 1}, "give one of 'label' and 'owner'"),
        ({"owner": "*", "value": "vision", "maxRuns": 1}, "value: is of a label"),
        ({"label": "team"}, "give 'maxRuns', 'maxNodes' or both"),
        ({"label": "team", "maxRuns": 0}, "greater than or equal to 1"),
        ({"label": "a b", "maxRuns": 1}, "key 'a b' must begin with a letter or digit"),
        ({"label": "team", "most": 1}, "Extra inputs are not permitted"),
    ],
)
def test_a_limit_that_is_nobodys_or_none_is_refused(limit: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        SharingSpec.model_validate({"limits": [limit]})


def test_a_change_that_changes_nothing_is_a_mistake() -> None:
    with pytest.raises(ValidationError, match="give 'labels', 'priority' or both"):
        RunChanges.model_validate({})
    with pytest.raises(ValidationError, match="give 'labels', 'sharing' or both"):
        ClusterChanges.model_validate({})
    assert RunChanges.model_validate({"priority": -5}).labels == {}


@pytest.mark.parametrize("priority", [101, -101, 1.5, "high", True])
def test_a_priority_is_a_whole_number_from_minus_100_to_100(priority: object) -> None:
    with pytest.raises(ValidationError, match="priority"):
        RunChanges.model_validate({"priority": priority})
