"""A template that the local cloud cannot deploy as AWS would is refused before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support import cloud_sample
from tests.support.repository import ROOT

from sam_on_moto.template import cloudformation
from sam_on_moto.template import sam as template
from sam_on_moto.template.cloudformation import Stack
from sam_on_moto.template.intrinsics import Resource, TemplateError
from sam_on_moto.template.parts import Parts
from sam_on_moto.template.resources import UPDATES, Maker, Update, Wanted


def check(folder: Path, text: str = cloud_sample.TEMPLATE, **parameters: str) -> None:
    path = cloud_sample.write(folder / "app", template=text)
    cloudformation.check(
        template.load(path, parameters, folder / "staged", "us-east-1"), parameters
    )


def test_the_sample_can_be_deployed(tmp_path: Path) -> None:
    check(tmp_path / "as it is")
    check(tmp_path / "asked for", Greeting="hi", Mail="a@b.c")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "AWS::SNS::Topic, Condition: HasMail",
            "AWS::Kinesis::Stream",
            "Topic: the resource type AWS::Kinesis::Stream is not supported",
        ),
        (
            "{Type: AWS::SQS::Queue}",
            "{Type: AWS::SQS::Queue, Properties: {FifoQueue: true}}",
            r"DeadLetters \(AWS::SQS::Queue\): the property FifoQueue",
        ),
        ("CodeUri: fact", "CodeUri: nowhere", "FactFunction: there is no folder"),
        ("CodeUri: fact", "InlineCode: pass", "FactFunction: InlineCode is not supported"),
        ("CodeUri: fact", "Timeout: 3", "FactFunction: CodeUri must name the folder"),
        ("CodeUri: fact", "CodeUri: {Bucket: b, Key: k}", "FactFunction: CodeUri must name"),
        (
            "CodeUri: fact",
            "CodeUri: fact\n      Runtime: nodejs22.x",
            r"FactFunction .*the runtime nodejs22.x is not supported; functions run in python3\.",
        ),
        ("Default: hello", "Default: HELLO", "parameter Greeting='HELLO' must match"),
        (
            '{Name: !Sub "${AWS::StackName}-sample"}',
            "{Name: !GetAtt Table.Arn}",
            "circular dependency",
        ),
        ("Outputs:", "Surprise:\n  Table: 1\nOutputs:", "sections the local cloud does not know"),
        (
            "DefinitionUri: flow.asl.json",
            "DefinitionUri: gone.asl.json",
            "Flow: cannot read the state machine",
        ),
    ],
)
def test_what_is_not_supported_is_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in cloud_sample.TEMPLATE
    text = cloud_sample.TEMPLATE.replace(old, new)
    if "circular" in message:
        text = text.replace("BillingMode: PAY_PER_REQUEST", "BillingMode: !Ref Bus")
    with pytest.raises(TemplateError, match=message):
        check(tmp_path, text)


CLOUD: Any = SimpleNamespace(region="us-east-1", account_id="1" * 12)
LOOP = {"C": {"Condition": "C"}}


@pytest.mark.parametrize(
    ("output", "conditions", "message"),
    [
        ({"Value": {"Fn::Select": ["5", ["a"]]}}, {}, "Outputs.A: IndexError"),
        ({"Value": {"Fn::FindInMap": ["M", "a", "b"]}}, {}, "Outputs.A: KeyError: 'M'"),
        ({"Value": {"Ref": ["x"]}}, {}, "Outputs.A: TypeError"),
        ({}, {}, "Outputs.A: KeyError: 'Value'"),
        ({"Value": "x", "Condition": "C"}, {"C": []}, "A: AttributeError"),
        ({"Value": "x", "Condition": "C"}, {"C": {"Fn::Equals": ["a"]}}, "A: ValueError"),
        ({"Value": "x", "Condition": "C"}, LOOP, "A: RecursionError"),
    ],
)
def test_a_value_that_cannot_be_computed_names_its_place(
    output: dict[str, Any], conditions: dict[str, Any], message: str
) -> None:
    template = {"Resources": {}, "Outputs": {"A": output}, "Conditions": conditions}
    with pytest.raises(TemplateError, match=message):
        cloudformation.deploy(CLOUD, "stack", template, {}, Maker.__new__(Maker))


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (None, "it has no Type"),
        ([], "it has no Type"),
        ({"Properties": {}}, "it has no Type"),
        ({"Type": "AWS::SNS::Topic", "Properties": []}, "Properties must be a map"),
        ({"Type": "AWS::SNS::Topic", "DependsOn": "Typo"}, "it depends on Typo"),
        (
            {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": {"Fn::GetAtt": 3}}},
            r"A \(AWS::SNS::Topic\): TypeError",
        ),
    ],
)
def test_what_is_no_resource_is_named(resource: Any, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        cloudformation.check({"Resources": {"A": resource}}, {})


@pytest.mark.parametrize(
    ("rules", "value", "message"),
    [
        (None, "x", "the parameter P needs a Type"),
        ({"Default": "x"}, "x", "the parameter P needs a Type"),
        ({"Type": "String", "AllowedPattern": "("}, "x", "the parameter P: "),
        ({"Type": "String", "MinLength": 3, "MaxLength": 5}, "x", "3 to 5 characters"),
        ({"Type": "String", "MaxLength": "2"}, "abc", "0 to 2 characters"),
    ],
)
def test_a_parameter_is_checked_as_cloudformation_does(
    rules: Any, value: str, message: str
) -> None:
    with pytest.raises(TemplateError, match=message):
        cloudformation.parameter_values({"P": rules}, {"P": value})
    with pytest.raises(TemplateError, match="Parameters must be a map"):
        cloudformation.parameter_values([], {})  # type: ignore[arg-type]


@pytest.mark.parametrize("type_", ["CommaDelimitedList", "List<AWS::EC2::Subnet::Id>"])
def test_a_list_has_no_spaces_around_its_parts(type_: str) -> None:
    found = cloudformation.parameter_values({"P": {"Type": type_}}, {"P": "subnet-1, subnet-2"})
    assert found == {"P": ["subnet-1", "subnet-2"]}


@pytest.mark.parametrize("wrong", ["an output", "a later resource", "what no update reaches"])
def test_an_update_that_is_refused_has_changed_nothing(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[str] = []

    def prepare(_maker: Maker, want: Wanted, _id: str) -> Callable[[], object]:
        if want.properties["Handler"] == "bad":
            raise TemplateError("no handler")
        return lambda: changed.append(want.logical_id)

    reached = frozenset({"Handler"})
    monkeypatch.setitem(UPDATES, "AWS::Lambda::Function", Update(reached, prepare))

    def template(handlers: Sequence[str], role: str = "r", output: Any = "x") -> dict[str, Any]:
        names = dict(zip("FG", handlers, strict=True))
        more = {"Runtime": "python3.13", "Role": role}
        return {
            "Resources": {
                name: {"Type": "AWS::Lambda::Function", "Properties": {"Handler": one, **more}}
                for name, one in names.items()
            },
            "Outputs": {"A": {"Value": output}},
        }

    before = template("aa")
    stack = Stack(
        "stack",
        {name: Resource(name, "AWS::Lambda::Function", name) for name in "FG"},
        {},
        {name: one["Properties"] for name, one in before["Resources"].items()},
    )
    after, message = {
        "an output": (template("bb", output={"Fn::GetAtt": ["F", "No"]}), "attribute No"),
        "a later resource": (template(["b", "bad"]), r"G \(AWS::Lambda::Function\): no handler"),
        "what no update reaches": (template("bb", role="s"), "Role would change"),
    }[wrong]
    maker = Maker.__new__(Maker)
    with pytest.raises(TemplateError, match=message):
        cloudformation.update(CLOUD, stack, after, {}, maker)
    assert changed == []
    updated = cloudformation.update(CLOUD, stack, template("bb"), {}, maker)
    assert (sorted(changed), updated.outputs) == (["F", "G"], {"A": "x"})


def test_an_update_makes_new_layers_and_no_new_queue(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    content = {"S3Bucket": "staged", "S3Key": "code"}
    layer = {"Type": "AWS::Lambda::LayerVersion", "Properties": {"Content": content}}
    queue = {"Type": "AWS::SQS::Queue"}
    outputs = {"A": {"Value": {"Ref": "L"}}}
    parts = cast(Parts, SimpleNamespace(cloud=CLOUD))
    maker = Maker(parts, tmp_path, lambda layers: layers[0])
    stack, more = Stack("stack", {}, {}, {}), {"Resources": {"L": layer}, "Outputs": outputs}
    updated = cloudformation.update(CLOUD, stack, more, {}, maker)
    assert list(updated.resources) == list(updated.properties) == ["L"]
    assert updated.outputs["A"] in maker.layers
    with pytest.raises(TemplateError, match="T: it is new"):
        cloudformation.update(CLOUD, updated, {"Resources": {"L": layer, "T": queue}}, {}, maker)


def test_an_update_makes_a_new_alarm_once_nothing_else_is_wrong(tmp_path: Path) -> None:
    watched = {"ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": 1}
    alarm = {"Type": "AWS::CloudWatch::Alarm", "Properties": watched}
    parts = cast(Parts, SimpleNamespace(cloud=CLOUD))
    maker = Maker(parts, tmp_path, lambda layers: layers[0])
    stack, wrong = Stack("stack", {}, {}, {}), {"Type": "AWS::SQS::Queue"}
    with pytest.raises(TemplateError, match="T: it is new"):
        cloudformation.update(CLOUD, stack, {"Resources": {"A": alarm, "T": wrong}}, {}, maker)
    updated = cloudformation.update(CLOUD, stack, {"Resources": {"A": alarm}}, {}, maker)
    assert (list(updated.resources), updated.properties) == (["A"], {"A": watched})


def test_the_event_of_an_older_schedule_is_refused_with_the_one_to_take(tmp_path: Path) -> None:
    before, _, after = cloud_sample.TEMPLATE.partition("Type: ScheduleV2\n")
    event = "Type: Schedule\n          Properties: {Schedule: rate(1 minute)}\n"
    text = before + event + after.partition("\n")[2]
    with pytest.raises(TemplateError, match=r"FactFunctionMinutely .* of the type ScheduleV2 does"):
        check(tmp_path, text)


def test_the_products_own_template_can_be_deployed(tmp_path: Path) -> None:
    own = ROOT / "template.yaml"
    cloudformation.check(template.load(own, {}, tmp_path / "staged", "us-east-1"), {})


def test_an_unknown_parameter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="no parameter \\['Colour'\\]"):
        check(tmp_path, Colour="blue")
