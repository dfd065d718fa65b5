"""Logs of several ranks in one text are told apart again."""

from __future__ import annotations

from trainyard_contracts import rank_logs


def test_parts_are_what_was_joined() -> None:
    parts = {
        rank_logs.heading("ip-1", 0): ["a", "", "b"],
        rank_logs.heading("ip-1", 12): ["==> no heading <=="],
        rank_logs.heading("ip-1.a.b", None): ["c"],
    }
    text = rank_logs.joined((head, "\n".join(lines)) for head, lines in parts.items())
    assert dict(rank_logs.parted(text)) == parts
    assert rank_logs.heading("ip-1", 12) == "==> rank 12 on ip-1 <=="


def test_logs_without_lines_are_left_out_and_a_text_without_headings_is_one_part() -> None:
    assert rank_logs.joined([(rank_logs.heading("ip-1", 0), "")]) == ""
    assert list(rank_logs.parted("")) == []
    assert list(rank_logs.parted("a\nb")) == [("", ["a", "b"])]
