"""What functions print is written to their log streams in its order."""

from __future__ import annotations

from sam_on_moto.inside import logs


def test_log_lines_whose_clock_went_back_are_written_in_their_order_and_not_refused() -> None:
    entries = [
        ("g", "s", 20, ["first"]),
        ("g", "other", 5, ["x"]),
        ("g", "s", 19, ["second"]),
        ("g", "s", 25, ["third"]),
    ]
    batch = logs.by_stream(entries)["g", "s"]
    assert [(event["timestamp"], event["message"]) for event in batch] == [
        (20, "first"),
        (20, "second"),
        (25, "third"),
    ]
