"""The stages of first-light, and what people are told of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support.first_light_world import (
    AnsweringApi,
    a_stage,
    lit,
)
from tests.support.recorded_account import SUBNET, RecordedAccount
from tests.support.repository import ROOT

from trainyard_cli.first_light import engine, plan, stages
from trainyard_cli.first_light.looks import every_look
from trainyard_cli.first_light.record import Record
from trainyard_cli.first_light.world import World
from trainyard_sdk.connection import Connection


def test_on_aws_doctor_looks_first_and_what_will_fail_stops_it(
    world: World, record: Record, account: RecordedAccount
) -> None:
    account.answers["ec2:DescribeSubnets"] = {"Subnets": []}
    code, document, _ = lit(world, record, [a_stage(stages.account)])
    assert (code, document["verdict"]) == (1, "failed")
    assert SUBNET in document["words"]
    assert any(found["severity"] == "failure" for found in document["findings"])


def test_a_sound_account_passes_and_says_how_much_was_looked_at(
    world: World, record: Record
) -> None:
    code, document, _ = lit(world, record, [a_stage(stages.account)])
    assert code == 0, document
    assert "checks of doctor found nothing that will fail" in document["stages"][0]["proved"]


def test_another_stack_than_the_apis_is_refused(world: World, record: Record) -> None:
    world.api = AnsweringApi(
        Connection("https://other.execute-api.us-west-2.amazonaws.com", "us-west-2")
    )
    code, document, _ = lit(world, record, [a_stage(stages.account)])
    assert code == 1
    assert "Stack and API do not belong together" in document["words"]


def test_operations_tells_of_each_stage_and_how_long_it_may_take() -> None:
    text = (ROOT / "docs/operations.md").read_text()
    rows = re.findall(
        r"^\| `([a-z-]+)` \| .* \| (\d+) \|$",
        text.partition("## First light")[2].partition("\n## ")[0],
        re.M,
    )
    all_stages = stages.stages(lambda _hourly, _bound: None, resume=True)
    expected = [(one.name, str(one.seconds // 60)) for one in all_stages]
    expected += [
        ("teardown", str(engine.TEARDOWN_SECONDS // 60)),
        ("nothing-left", str(engine.PROOF_SECONDS // 60)),
    ]
    assert rows == expected
    paid = sum(one.seconds for one in all_stages if one.paid) + engine.TEARDOWN_SECONDS
    assert 4 < paid / 3600 < 4.25, "a little over four hours"
    assert plan.STEPS_ON_AWS * plan.STEP_SECONDS == 600, "training takes ten minutes"


#: IAM's name of an action, where it is not the operation's.
ACTIONS = {
    "stepfunctions:ListExecutions": "states:ListExecutions",
    "s3:HeadObject": "s3:GetObject",
    "s3:ListObjectsV2": "s3:ListBucket",
}


def test_operations_names_every_permission_that_first_light_needs() -> None:
    asked = set()
    for path in Path(engine.__file__).parent.rglob("*.py"):
        for call in [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        ]:
            words = [
                word.value
                for word in call.args[:2]
                if isinstance(word, ast.Constant) and isinstance(word.value, str)
            ]
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr in ("call", "asked", "all", "change")
                and len(words) == 2
            ):
                asked.add(ACTIONS.get(":".join(words), ":".join(words)))
    text = (ROOT / "docs/operations.md").read_text()
    told = re.findall(
        r"[a-z0-9-]+:[A-Z][A-Za-z]+",
        text.partition("Your credentials need")[2].partition("What may not be read")[0],
    )
    assert set(told) - {"execute-api:Invoke"} == asked


def test_every_look_names_an_assumption_and_stages_that_there_are() -> None:
    there = [one.name for one in stages.stages(lambda _hourly, _bound: None, resume=True)] + [
        "teardown",
        "nothing-left",
    ]
    assert every_look()
    for look in every_look():
        assert look.assumption.startswith("A-")
        assert set(look.after) <= set(there), look
