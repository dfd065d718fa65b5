"""Our list of instance types says what EC2 said, and admits what it does not know."""

from __future__ import annotations

from datetime import date

import pytest
from tests.support import ec2_types as recorded

from trainyard_contracts.ec2_type_rows import ROWS, SOURCE, TAKEN_ON
from trainyard_contracts.ec2_types import Ec2Type, ec2_type, known


def test_the_rows_are_what_was_recorded_of_every_type() -> None:
    assert ROWS.split("\n")[1:-1] == recorded.rows(), "python -m tests.support.ec2_types"
    assert len(recorded.rows()) > 1000


def test_they_say_where_they_come_from_and_from_when() -> None:
    assert recorded.source() == SOURCE
    assert date.fromisoformat(TAKEN_ON).year >= 2026


@pytest.mark.parametrize(
    "expected",
    [
        Ec2Type("p5.48xlarge", "x86_64", 192, "nvidia 8", True, True),
        Ec2Type("trn1.2xlarge", "x86_64", 8, "aws 1", True, False),
        Ec2Type("c5.xlarge", "x86_64", 4, "", False, False),
        Ec2Type("m7g.large", "arm64", 2, "", False, False),
    ],
)
def test_a_type_is_read_field_by_field(expected: Ec2Type) -> None:
    assert ec2_type(expected.name) == expected
    assert expected.neuron == expected.name.startswith("trn")


def test_a_type_that_is_newer_is_not_known() -> None:
    assert ec2_type("p99.48xlarge") is None
    assert [found.name for found in known(["p99.48xlarge", "c5.xlarge"])] == ["c5.xlarge"]
