"""Fixtures of the SDK's tests."""

from tests.support.cli_fixtures import api, bucket, spec, trainyard

__all__ = ["api", "bucket", "spec", "trainyard"]
