"""Keeps moto's request ids out of answers that only quote an XML document of AWS's.

moto replaces all between the first and the last RequestId of a line. In an item of a table that is
what the table's user wrote.
"""

from __future__ import annotations

from typing import Any

from sam_on_moto.moto_patches.pinned import replace


def install() -> None:
    """Hook moto's answers; once per process."""
    from moto.core.responses import BaseResponse

    def enrich(headers: dict[str, str], body: Any) -> tuple[dict[str, str], Any]:
        if isinstance(body, str) and body.lstrip().startswith("<"):
            found: tuple[dict[str, str], Any] = original(headers, body)
            return found
        return original(headers, "")[0], body

    original = replace(
        BaseResponse, "_enrich_response", staticmethod(enrich), parameters=("headers", "body")
    )
