"""What a table's user wrote comes back as it is, and an XML answer has the id of its request."""

from __future__ import annotations

import pytest
from moto.core.responses import BaseResponse

from sam_on_moto.moto_patches import request_ids

QUOTED = '{"a": "<RequestId>1</RequestId>", "b": 2, "c": "<RequestId>3</RequestId>"}'
XML = "<Error><RequestId>1</RequestId></Error>"


def test_only_an_xml_answer_gets_the_id_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    before = BaseResponse.__dict__["_enrich_response"]
    monkeypatch.setattr(BaseResponse, "_enrich_response", before)  # put back afterwards
    request_ids.install()
    headers, body = BaseResponse._enrich_response({}, QUOTED)
    assert body == QUOTED
    assert headers["x-amzn-requestid"]
    headers, body = BaseResponse._enrich_response({}, XML)
    assert body == XML.replace("1", headers["x-amzn-requestid"])
