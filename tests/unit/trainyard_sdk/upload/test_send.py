"""What is missing is sent until all is there, whatever happens on the way."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_api import FakeApi
from tests.support.fake_bucket import FakeBucket

from trainyard_sdk.client import Client
from trainyard_sdk.problems import SdkError, Unreachable
from trainyard_sdk.upload import packing
from trainyard_sdk.upload import send as send_module
from trainyard_sdk.upload.packing import FileChanged, Packed, pack
from trainyard_sdk.upload.send import send

pytestmark = pytest.mark.real


@pytest.fixture
def bucket(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBucket]:
    monkeypatch.setattr(send_module, "PAUSE_SECONDS", 0.0)
    made = FakeBucket()

    def answer(_: Any) -> tuple[int, dict[str, Any]]:
        return 200, made.upload(json.loads(api.requests[-1]["body"]), at_once=3)

    api.answers["POST /v1/uploads"] = answer
    yield made
    made.close()


@pytest.fixture
def packed(root: Path) -> Packed:
    for number in range(340):
        (root / f"m{number}.py").write_text(f"x = {number}\n" * 20)
    return pack(root)


def sent(packed: Packed) -> int:
    with Client.connect() as client:
        return send(client, packed, lambda done, total: None)


def everything(packed: Packed) -> set[str]:
    return {f"uploads/{name}" for name in [packed.id, *packed.sources]}


def test_all_packs_and_the_tree_arrive_and_nothing_is_sent_twice(
    bucket: FakeBucket, packed: Packed
) -> None:
    assert len(packed.sources) > 2  # more than one answer names
    assert sent(packed) == len(packed.sources) + 1
    assert set(bucket.objects) == everything(packed)
    assert sorted(bucket.puts) == sorted(everything(packed))
    assert sent(packed) == 0


def test_what_is_cut_or_refused_for_a_moment_is_sent_again(
    bucket: FakeBucket, packed: Packed
) -> None:
    bucket.misbehave["PUT"] = ["cut", 500, 503, None, "cut"]  # fewer than the tries of one pack
    sent(packed)
    assert set(bucket.objects) == everything(packed)


def test_an_upload_that_was_stopped_goes_on_with_the_rest(
    bucket: FakeBucket, packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_module, "AT_ONCE", 1)  # the first is there before the next one fails
    bucket.misbehave["PUT"] = [None, *[500] * 60]
    with pytest.raises(Unreachable, match="500 InternalError"):
        sent(packed)
    there = len(bucket.objects)
    assert 0 < there < len(everything(packed))
    bucket.misbehave["PUT"] = []
    assert sent(packed) == len(everything(packed)) - there


def test_a_url_that_expired_is_asked_for_again(
    api: FakeApi, bucket: FakeBucket, packed: Packed
) -> None:
    answer, stale = api.answers["POST /v1/uploads"], [True]

    def expiring(query: Any) -> Any:
        found = answer(query)
        if stale:
            stale.pop()
            bucket.expire()
        return found

    api.answers["POST /v1/uploads"] = expiring
    sent(packed)
    assert set(bucket.objects) == everything(packed)


def test_urls_that_are_never_good_end_the_upload_with_the_reason(
    api: FakeApi, bucket: FakeBucket, packed: Packed
) -> None:
    answer = api.answers["POST /v1/uploads"]

    def expired(query: Any) -> Any:
        found = answer(query)
        bucket.expire()
        return found

    api.answers["POST /v1/uploads"] = expired
    with pytest.raises(SdkError, match="403 AccessDenied Request has expired"):
        sent(packed)


def test_a_hash_that_s3_does_not_find_right_is_told(
    bucket: FakeBucket, packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Packed.contents

    def wrong(self: Packed, sha256: str) -> Iterator[bytes]:
        yield bytes(len(b"".join(real(self, sha256))))

    monkeypatch.setattr(Packed, "contents", wrong)
    with pytest.raises(SdkError, match="400 BadDigest"):
        sent(packed)
    assert bucket.objects == {}


def test_a_file_that_changed_since_it_was_packed_is_not_sent(
    bucket: FakeBucket, packed: Packed, root: Path
) -> None:
    (root / "m7.py").write_text("other")
    with pytest.raises(FileChanged) as changed:
        sent(packed)
    assert changed.value.path == "m7.py"


def test_two_people_who_upload_the_same_at_once_both_end_well(
    bucket: FakeBucket, packed: Packed
) -> None:
    counts: list[int] = []
    people = [threading.Thread(target=lambda: counts.append(sent(packed))) for _ in range(2)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert len(counts) == 2
    assert set(bucket.objects) == everything(packed)


def test_a_file_of_many_chunks_arrives_whole(
    bucket: FakeBucket, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "PACK_BYTES", 2 * 1024 * 1024)
    monkeypatch.setattr(packing, "SMALL_BYTES", 1024 * 1024)
    body = b"".join(number.to_bytes(4, "big") for number in range(1_500_000))
    (root / "large").write_bytes(body)
    packed = pack(root)
    bucket.misbehave["PUT"] = ["cut", None, "cut"]
    sent(packed)
    chunks = packed.tree.files[0].chunks
    assert len(chunks) == 3
    names = [packed.tree.packs[chunk.pack].sha256 for chunk in chunks]
    assert b"".join(bucket.objects[f"uploads/{name}"] for name in names) == body
