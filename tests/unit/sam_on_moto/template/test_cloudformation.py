"""A template that the local cloud cannot deploy as AWS would is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import cloud_sample
from tests.support.repository import ROOT

from sam_on_moto.template import cloudformation
from sam_on_moto.template import sam as template
from sam_on_moto.template.intrinsics import TemplateError


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
