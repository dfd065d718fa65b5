"""Messages keep Slack's limits, and foreign text in them pings nobody."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.slack import check_message

from trainyard.chat.blocks import escaped, message, moment, quoted, section

NASTY = "<!channel> & <@U1> <https://x|y> ``` *b*\n<#C1>"


def test_foreign_text_is_escaped_and_in_a_quote_nothing_has_a_meaning() -> None:
    assert escaped("a <!channel>\n& b") == "a &lt;!channel&gt; &amp; b"
    assert quoted("x ``` <!here>") == "```x ''' &lt;!here&gt;```"


@given(st.text(max_size=6000), st.integers(min_value=10, max_value=3000))
def test_cutting_counts_after_escaping_and_cuts_no_entity(text: str, most: int) -> None:
    for made in (escaped(text, most), quoted(text, most)[3:-3]):
        assert len(made) <= most
        assert "<" not in made
        plain = made.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")
        assert "&" not in plain


@pytest.mark.parametrize("count", [0, 1, 47, 48, 49, 500])
@pytest.mark.parametrize("end", ["", "the end"])
def test_a_message_of_any_length_is_one_that_slack_takes(count: int, end: str) -> None:
    made = message("t" * 400, [quoted(NASTY * 500)] * count, end=end).wire()
    check_message(made)
    left = [one for one in made["blocks"] if "are not shown" in str(one)]
    assert bool(left) == (count > 49 - 1 - bool(end))


def test_a_time_is_shown_in_the_readers_zone() -> None:
    at = datetime(2026, 11, 27, 23, 5, tzinfo=timezone.utc)
    assert moment(at).endswith("|2026-11-27 23:05 UTC>")
    assert moment(at).startswith(f"<!date^{int(at.timestamp())}^")


def test_a_section_of_nothing_but_markup_is_refused_by_the_check() -> None:
    made = message("title", []).wire()
    made["blocks"].append(section("<!channel>"))
    with pytest.raises(AssertionError):
        check_message(made)
