"""What each pattern of the specs means in words, because a regular expression helps nobody who mistyped a name."""

from __future__ import annotations

from typing import get_args

from pydantic import StringConstraints

from trainyard_contracts import base, specs


def _pattern(annotated: object) -> str:
    return next(str(extra.pattern) for extra in get_args(annotated) if isinstance(extra, StringConstraints))


_HINTS: dict[str, str] = {
    base.NAME_PATTERN: "must be letters, digits and inner hyphens, 1 to 63 of them (no underscore)",
    _pattern(specs.InstanceType): "must be an instance type such as ml.c5.xlarge",
    _pattern(specs.S3Uri): "must be an S3 address such as s3://bucket/prefix",
    _pattern(specs.AbsolutePath): "must be an absolute path of letters, digits and _ . - such as /fsx",
    _pattern(specs.Requirement): "must be a package with extras and versions at most, such as numpy>=1.26,<3 (no options, no paths)",
    _pattern(specs.SubnetId): "must be the id of a subnet such as subnet-0123456789abcdef0",
    _pattern(specs.SecurityGroupId): "must be the id of a security group such as sg-0123456789abcdef0",
    r"^(fs|fc)i?-[0-9a-f]{8,}\.[A-Za-z0-9.-]{4,253}$": "must be the DNS name of an FSx filesystem such as fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
    r"^[A-Za-z0-9_-]{1,8}$": "must be the filesystem's mount name: 1 to 8 letters, digits, _ and -",
    _pattern(specs.EnvironmentName): "must be a variable name: letters, digits and underscores, not starting with a digit",
    _pattern(specs.PlainText): "must not contain the NUL character",
    r"^[a-z_][a-z0-9_-]{0,31}$": "must be a POSIX user name: lower-case letters, digits, _ and -, at most 32",
    r"^[a-z0-9.-]{3,63}$": "must be a bucket name: 3 to 63 lower-case letters, digits, dots and hyphens",
    r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$": "must be the name of a Python module such as package.train",
    r"^[\x20-\x7e]+$": "must be 1 to 128 printable ASCII characters",
}


def pattern_hint(pattern: str) -> str:
    """The words for a pattern, or the pattern itself where there are none."""
    return _HINTS.get(pattern, f"must match {pattern}")
