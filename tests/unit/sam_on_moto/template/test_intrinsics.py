"""Intrinsic functions of a template resolve as CloudFormation's, and unknown ones are errors."""

from __future__ import annotations

import pytest

from sam_on_moto.template.intrinsics import Resource, Scope, TemplateError, resolve

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
