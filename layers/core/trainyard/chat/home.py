"""A person's page in Slack: their runs, what waits for their word, and what ended last.

https://docs.slack.dev/reference/views/home-tab-views
"""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.app.people.on_behalf import Caller
from trainyard.app.runs.run_costs import costs_of
from trainyard.app.runs.show_run import show_run
from trainyard.chat.approving import may_decide, waiting_blocks, waiting_ones
from trainyard.chat.bill_words import dollars
from trainyard.chat.blocks import Block, Message, context, escaped, header, moment, quoted, section
from trainyard.chat.run_words import where
from trainyard.domain.errors import TrainyardError
from trainyard.domain.listing import Wanted
from trainyard.domain.records import TERMINAL, Run
from trainyard.ports import Ports

#: Runs that go on, approvals, and runs that ended. With all of them a view has less than its 100
#: blocks: see tests/app/test_app_slack_home.py.
MOST_RUNS, MOST_APPROVALS, MOST_ENDED = 12, 10, 5
#: Blocks of what a click came to.
_MOST_NEWS = 12
#: Pages of the list that are read for the runs that ended.
_PAGES = 5
#: The page of a button in a home.
HOME_PAGE = "home"


def home_page(ports: Ports, caller: Caller, news: Message | None = None) -> Message:
    """`news` is what a click in it came to, and comes first."""
    blocks: list[Block] = list(news.blocks[:_MOST_NEWS]) if news is not None else []
    blocks += _mine(ports, caller)
    blocks += _waiting(ports, caller)
    blocks += _ended(ports, caller)
    as_of = moment(ports.clock.now())
    blocks.append(
        context(f"As of {as_of}. It is drawn anew when you open it. `/trainyard help` lists more.")
    )
    return Message("Your runs", blocks)


def _mine(ports: Ports, caller: Caller) -> Iterator[Block]:
    """Those that go on, the newest first."""
    mine = [
        run
        for run in ports.runs.active()
        if run.created_by is not None and caller.person.same_as(run.created_by)
    ]
    yield header("Your runs")
    for run in sorted(mine, key=lambda one: one.created_at, reverse=True)[:MOST_RUNS]:
        yield section(_going(ports, run))
    if not mine:
        yield section("None of your runs goes on. `/trainyard submit` submits one like your last.")
    elif len(mine) > MOST_RUNS:
        yield context(f"{len(mine) - MOST_RUNS} more: `/trainyard runs mine`.")


def _going(ports: Ports, run: Run) -> str:
    """A run that ended or went this very moment is shown as the list had it."""
    try:
        run, latest = show_run(ports, run.id)
        usd = costs_of(ports, run.id).cost.usd
    except TrainyardError:
        latest, usd = None, None
    said = [f"*{escaped(run.name)}*  {run.status}. {where(run, latest)}"]
    if usd is not None:
        said[0] += f" It has cost {dollars(usd)} so far."
    if run.reason:
        said.append(quoted(run.reason, 300))
    return "\n".join([*said, f"`/trainyard show {run.id}`"])


def _waiting(ports: Ports, caller: Caller) -> Iterator[Block]:
    """What this person may decide on; nothing of what others do."""
    waiting = [one for one in waiting_ones(ports) if may_decide(ports, caller, one)]
    if not waiting:
        return
    yield header("Waits for you")
    for one in waiting[:MOST_APPROVALS]:
        yield from waiting_blocks(ports, caller, one, HOME_PAGE)
    if len(waiting) > MOST_APPROVALS:
        yield context(f"{len(waiting) - MOST_APPROVALS} more: `/trainyard approvals`.")


def _ended(ports: Ports, caller: Caller) -> Iterator[Block]:
    ended = _last(ports, caller)
    if not ended:
        return
    yield header("Ended last")
    for run in ended:
        yield section(_end(run))


def _last(ports: Ports, caller: Caller) -> list[Run]:
    """Of the newest runs that ended."""
    wanted, found = Wanted(owner=caller.person, statuses=TERMINAL), list[Run]()
    token: str | None = None
    for _ in range(_PAGES):
        page = ports.runs.list(limit=MOST_ENDED - len(found), token=token, wanted=wanted)
        found += page.items
        if (token := page.next_token) is None or len(found) == MOST_ENDED:
            break
    return found


def _end(run: Run) -> str:
    at = f" {moment(run.finished_at)}" if run.finished_at is not None else ""
    said = f"*{escaped(run.name)}*  {run.status}{at}"
    if run.cost is not None:
        said += f", cost {dollars(run.cost.usd)}"
    if run.reason and run.status != "Succeeded":
        said += f"\n{quoted(run.reason, 300)}"
    return f"{said}\n`/trainyard show {run.id}`"
