"""One broken assumption of AWS at a time: first-light finds its id, and says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.broken import Broken, assert_found
from tests.support.first_light import FirstLight, light_spec
from tests.support.system import Json, System

BROKEN = [
    Broken("A-025", "prices-have-other-usage-types", "price", "USE1-Nodes:ml.c5.2xlarge"),
    Broken("A-010", "empty-slurm-is-refused", "create", "provisioning: AllAtOnce"),
    Broken(
        "A-026", "new-roles-are-refused-in-other-words", "create", "backends/hyperpod/refusals.py"
    ),
    Broken(
        "A-027", "resource-config-has-other-names", "create", "correct node_agent/lifecycle/node.py"
    ),
    Broken("A-018", "lifecycle-log-is-another-stream", "ready", "hyperpod/logs.py"),
    Broken("A-047", "events-have-another-detail-type", "train", "rules in template.yaml"),
    Broken(
        "A-022",
        "node-roles-may-not-put-events",
        "ready",
        "events:source trainyard.agent",
        ("ready=10",),
    ),
    # StartSession is tried for 20 s, until the run's machine says that its node is not connected.
    Broken(
        "A-002",
        "targets-have-the-name",
        "command",
        "the cluster's name in the place of its id",
        ("command=25", "teardown=3"),
    ),
    Broken("A-004", "sessions-have-no-exit-code", "command", "3.1.1511 or newer", ("teardown=3",)),
    Broken("A-037", "sessions-have-no-sudo", "command", "Run As"),
    Broken(
        "A-023",
        "heads-have-no-checksum",
        "export",
        "the bucket's encryption",
        ("export=12", "teardown=3"),
    ),
    Broken("A-012", "deleted-clusters-are-described", "teardown", "takes that for gone"),
]


#: Found within seconds, so every `make test` looks for them.
QUICK = {"A-010", "A-018", "A-037"}


@pytest.fixture(
    params=[
        pytest.param(
            one,
            marks=[] if one.assumption in QUICK else [pytest.mark.first_light],
            id=one.assumption,
        )
        for one in BROKEN
    ]
)
def broken(request: pytest.FixtureRequest, system: System) -> Iterator[Broken]:
    with request.param.on(system) as found:
        yield found


def smallest() -> Json:
    """One worker of a type whose price nobody asked for before, and a training of a moment."""
    spec = light_spec(steps=10)
    spec["cluster"]["spec"]["instanceGroups"][1]["instanceType"] = "ml.c5.2xlarge"
    return spec


def test_first_light_finds_the_assumption_that_does_not_hold(
    broken: Broken, system: System, tmp_path: Path
) -> None:
    with FirstLight(
        system, tmp_path, "--yes", "--without-resume", *broken.options, spec=smallest()
    ) as light:
        code, document = light.ended()
    assert_found(broken, code, document, system, light.words)


def test_each_of_these_is_another_assumption_and_they_lie_in_every_stage_that_can_break_one() -> (
    None
):
    known = {broken.assumption for broken in BROKEN}
    assert len(known) == len(BROKEN) >= 10
    assert known >= QUICK
    assert {broken.stage for broken in BROKEN} == {
        "price",
        "create",
        "ready",
        "command",
        "train",
        "export",
        "teardown",
    }
