"""What S3 shows of a file follows from its bytes."""

from __future__ import annotations

from pathlib import Path

from tests.unit.trainyard_agent.host.test_s3 import file

from trainyard_agent.host.digests import digest, of_sha256


def test_a_digest_of_a_file_that_grows_ends_where_it_was_to_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")
    assert digest(path, most=4) == digest(file(tmp_path, b"0123"))
    assert digest(path, most=100) == digest(path)
    assert digest(path, most=0).size == 0


def test_what_s3_will_show_follows_from_the_hash_of_a_file_that_goes_up_at_once(
    tmp_path: Path,
) -> None:
    known = digest(file(tmp_path, b"weights"))
    assert of_sha256(7, known.sha256) == known
    assert of_sha256(5 * 1024**3 + 1, known.sha256) is None
