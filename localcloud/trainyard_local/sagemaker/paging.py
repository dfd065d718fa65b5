"""Cuts SageMaker's lists into pages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from trainyard_local.sagemaker.errors import ValidationException

DEFAULT_PAGE = 10


def page(items: list[Any], params: Mapping[str, Any]) -> tuple[list[Any], dict[str, str]]:
    """The items that the request asks for, and the token of the next ones if there are more."""
    try:
        start = int(base64.b64decode(params.get("NextToken", ""), validate=True) or b"0")
    except (ValueError, binascii.Error):
        raise ValidationException("NextToken is not valid") from None
    end = start + params.get("MaxResults", DEFAULT_PAGE)
    token = {"NextToken": base64.b64encode(str(end).encode()).decode()} if end < len(items) else {}
    return items[start:end], token
