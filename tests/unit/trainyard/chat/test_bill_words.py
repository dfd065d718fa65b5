"""A bill in Slack: its sum, its useful part, and the seconds and dollars of each cause."""

from __future__ import annotations

from datetime import datetime, timezone

from tests.support.slack import check_blocks
from tests.support.slack_chat import words

from trainyard.chat.bill_words import bill, dollars
from trainyard.chat.blocks import message
from trainyard.domain.ledger import CAUSES
from trainyard.domain.records import CostLine, RunCost

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=timezone.utc)


def line(cause: str, seconds: float, usd: float | None) -> CostLine:
    return CostLine(cause=cause, seconds=seconds, node_seconds=4 * seconds, usd=usd)


def of(*lines: CostLine, usd: float | None = None, reason: str = "") -> str:
    seconds = sum(one.node_seconds for one in lines)
    cost = RunCost(usd=usd, at=NOW, node_seconds=seconds, ledger=list(lines), reason=reason)
    page = message("A bill", bill(cost))
    check_blocks(page.wire_of_channel())
    return words(page.wire_of_channel())


def test_the_bill_says_what_part_was_useful_and_what_most_of_the_waste_was() -> None:
    said = of(line("useful", 900, 3.0), line("restart", 60, 0.2), line("start", 240, 0.8), usd=4.0)
    assert "Cost: *4.00 USD* for 1.33 hours of nodes." in said
    assert (
        "Useful: *75%*. Waste: *25%*, 1.00 USD; most of it is start, until the first step." in said
    )
    assert "useful      900.0 s       3.00 USD  training that nobody did again" in said
    assert "restart      60.0 s     0.2000 USD  from a fault to the next first step" in said


def test_without_a_price_the_nodes_time_is_what_is_parted() -> None:
    said = of(line("useful", 300, None), line("stall", 100, None), reason="no <price> is known")
    assert "Cost: *not known* for 0.44 hours of nodes.\nUseful: *75%*. Waste: *25%*;" in said
    assert "no &lt;price&gt; is known" in said


def test_nothing_spent_is_nothing_parted() -> None:
    assert of(usd=0.0) == "A bill\nCost: *0.0000 USD* for 0.00 hours of nodes."
    assert "Useful" not in of(line("creation", 0, 0.0), usd=0.0).split("```")[0]


def test_nodes_that_cost_nothing_are_parted_by_their_time() -> None:
    said = of(line("useful", 300, 0.0), line("restart", 100, 0.0), usd=0.0)
    assert "Useful: *75%*. Waste: *25%*; most of it is restart" in said


def test_all_useful_is_no_waste() -> None:
    said = of(line("useful", 10, 0.01), usd=0.01)
    assert "Useful: *100%*. Waste: *0%*, 0.0000 USD." in said


def test_every_cause_has_words_and_all_of_them_fit_into_one_message() -> None:
    lines = [line(cause, 1e7, 1e6) for cause in CAUSES]
    said = of(*lines, usd=11e6)
    rows = said.split("```")[1].splitlines()
    assert len(rows) == len(CAUSES)
    assert all(len(row.split(" USD  ")) == 2 for row in rows)


def test_small_amounts_have_digits() -> None:
    assert [dollars(one) for one in (0.0123, 1.5, 1234.5, None)] == [
        "0.0123 USD", "1.50 USD", "1,234.50 USD", "not known",
    ]  # fmt: skip
