"""A template that the local cloud cannot deploy as AWS would is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import cloud_sample

from sam_on_moto.template import cloudformation
from sam_on_moto.template import sam as template
from sam_on_moto.template.intrinsics import Resource, Scope, TemplateError, resolve


def check(folder: Path, text: str = cloud_sample.TEMPLATE, **parameters: str) -> None:
    path = cloud_sample.write(folder / "app", template=text)
    cloudformation.check(
        template.load(path, parameters, folder / "staged", "us-east-1"), parameters
    )


def test_the_sample_can_be_deployed(tmp_path: Path) -> None:
    check(tmp_path, Greeting="hi", Mail="a@b.c")


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


def test_the_products_own_template_can_be_deployed(tmp_path: Path) -> None:
    own = Path(__file__).parents[2] / "template.yaml"
    cloudformation.check(template.load(own, {}, tmp_path / "staged", "us-east-1"), {})


def test_an_unknown_parameter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="no parameter \\['Colour'\\]"):
        check(tmp_path, Colour="blue")


def test_a_missing_template_is_told(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="cannot read the template"):
        template.load(tmp_path / "template.yaml", {}, tmp_path, "us-east-1")


def test_python_layers_lie_below_python_and_others_as_they_are(tmp_path: Path) -> None:
    check(tmp_path)
    staged = tmp_path / "staged"
    opt = template.merge_layers([staged / "SharedLayer", staged / "PlainLayer"], tmp_path / "opt")
    assert (opt / "python" / "shared_code.py").is_file()
    assert (opt / "plain.txt").is_file()
    assert (
        template.merge_layers([staged / "SharedLayer", staged / "PlainLayer"], tmp_path / "opt")
        == opt
    )


SCOPE = Scope(
    parameters={"Mail": "", "List": ["a", "b"]},
    pseudo={"AWS::Region": "us-east-1"},
    conditions={"HasMail": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Mail"}, ""]}]}},
    resources={"Q": Resource("Q", "AWS::SQS::Queue", "url", {"Arn": "arn:q"})},
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"Ref": "Q"}, "url"),
        ({"Fn::GetAtt": ["Q", "Arn"]}, "arn:q"),
        ({"Fn::GetAtt": "Q.Arn"}, "arn:q"),
        ({"Fn::Sub": "${AWS::Region}/${Q}/${Q.Arn}/${!Literal}"}, "us-east-1/url/arn:q/${Literal}"),
        ({"Fn::Sub": ["${x}-${Q}", {"x": {"Ref": "AWS::Region"}}]}, "us-east-1-url"),
        ({"Fn::Join": [",", ["a", {"Ref": "Q"}]]}, "a,url"),
        ({"Fn::Select": ["1", {"Ref": "List"}]}, "b"),
        ({"Fn::Split": [",", "a,b"]}, ["a", "b"]),
        ({"Fn::If": ["HasMail", "yes", "no"]}, "no"),
        ({"a": {"Fn::If": ["HasMail", "yes", {"Ref": "AWS::NoValue"}]}, "b": 1}, {"b": 1}),
    ],
)
def test_functions_resolve(value: object, expected: object) -> None:
    assert resolve(value, SCOPE) == expected


@pytest.mark.parametrize(
    "value",
    [{"Ref": "Nobody"}, {"Fn::GetAtt": ["Q", "Colour"]}, {"Fn::Cidr": ["10.0.0.0/8", 1, 1]}],
)
def test_what_does_not_resolve_is_an_error(value: object) -> None:
    with pytest.raises(TemplateError):
        resolve(value, SCOPE)
