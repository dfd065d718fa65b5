"""What a person may type in Slack: commands read by the use cases that the API reads by.

Those that would change something are answered with a button, and nothing is done before its click.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from trainyard.app.clusters.list_nodes import list_nodes
from trainyard.app.people.on_behalf import Caller, OnBehalf
from trainyard.app.runs.find_run import find_run
from trainyard.app.runs.run_costs import costs_of
from trainyard.app.runs.show_run import show_run
from trainyard.chat.approving import approval_page, approvals_page, run_of
from trainyard.chat.asking import asked_of_node, asked_of_run
from trainyard.chat.blocks import Message, escaped, message
from trainyard.chat.cluster_words import cluster_list, node_list
from trainyard.chat.digest import digest_page
from trainyard.chat.front.mistakes import MOST_REASON
from trainyard.chat.news import news_since
from trainyard.chat.run_words import cost_page, run_list, run_page
from trainyard.chat.submitting import asked_by_words
from trainyard.domain.listing import Wanted
from trainyard.domain.records import Run
from trainyard.ports import Ports

#: Of a digest that a person asks for.
DAY = timedelta(days=1)
#: Runs and clusters of one answer.
MOST_LISTED = 15
#: A page of a filtered list may have few of it; so many are read for one answer.
_PAGES = 5


class Usage(Exception):
    """The words are no command; the text says what would be one."""


@dataclass(frozen=True)
class Command:
    """`given` is what the help shows behind its word."""

    given: str
    does: str
    run: Callable[[Ports, Caller, list[str]], Message]


def said(ports: Ports, caller: Caller, text: str, name: str) -> Message:
    """The answer to what follows `/trainyard`. Raises what the use cases do."""
    words = _plain(text).split()
    command = COMMANDS.get(words[0].lower()) if words else COMMANDS["help"]
    if command is None:
        return help_page(f"There is no command '{escaped(words[0], 100)}'.", name)
    try:
        return command.run(ports, caller, words[1:])
    except Usage as usage:
        return help_page(str(usage), name)


def _plain(text: str) -> str:
    """Slack escapes what people type."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _runs(ports: Ports, caller: Caller, words: list[str]) -> Message:
    if words not in ([], ["mine"]):
        raise Usage("`runs` takes nothing, or `mine`.")
    wanted = Wanted(owner=caller.person) if words else Wanted()
    found: list[Run] = []
    token: str | None = None
    for _ in range(_PAGES):
        page = ports.runs.list(limit=MOST_LISTED - len(found), token=token, wanted=wanted)
        found += page.items
        token = page.next_token
        if token is None or len(found) == MOST_LISTED:
            break
    return run_list(found, mine=bool(words), more=token is not None)


def _show(ports: Ports, caller: Caller, words: list[str]) -> Message:
    return run_page(*show_run(ports, find_run(ports, _one(words, "show", "a run"))))


def _cost(ports: Ports, caller: Caller, words: list[str]) -> Message:
    return cost_page(costs_of(ports, find_run(ports, _one(words, "cost", "a run"))))


def _clusters(ports: Ports, caller: Caller, words: list[str]) -> Message:
    if words:
        raise Usage("`clusters` takes nothing.")
    there = sorted(ports.clusters.active(), key=lambda one: one.created_at, reverse=True)
    return cluster_list(there[:MOST_LISTED], more=len(there) > MOST_LISTED)


def _nodes(ports: Ports, caller: Caller, words: list[str]) -> Message:
    cluster = _one(words, "nodes", "a cluster")
    return node_list(cluster, list_nodes(ports, cluster))


def _ask(act: str) -> Callable[[Ports, Caller, list[str]], Message]:
    """What would be done with a run, and its button."""

    def command(ports: Ports, caller: Caller, words: list[str]) -> Message:
        return asked_of_run(ports, caller, act, find_run(ports, _one(words, act, "a run")))

    return command


def _replace(ports: Ports, caller: Caller, words: list[str]) -> Message:
    if len(words) != 3 or words[1].lower() != "of":
        raise Usage("`replace` takes a node and its cluster: `replace NODE of CLUSTER`.")
    return asked_of_node(ports, caller, words[0], words[2])


def _approve(ports: Ports, caller: Caller, words: list[str]) -> Message:
    """With both buttons while it waits; who has no say in it gets none."""
    approval = ports.approvals.get(_one(words[:1], "approve", "an approval"))
    reason = " ".join(words[1:])
    if len(reason) > MOST_REASON:
        raise Usage(f"A reason has at most {MOST_REASON} characters.")
    if not approval.over:
        OnBehalf(ports, caller).check_decides(approval)
    return approval_page(approval, run_of(ports, approval.run_id), reason=reason)


def _approvals(ports: Ports, caller: Caller, words: list[str]) -> Message:
    if words:
        raise Usage("`approvals` takes nothing.")
    return approvals_page(ports, caller)


def _digest(ports: Ports, caller: Caller, words: list[str]) -> Message:
    if words:
        raise Usage("`digest` takes nothing.")
    return digest_page(ports, news_since(ports, ports.clock.now() - DAY))


def _one(words: list[str], command: str, what: str) -> str:
    if len(words) != 1:
        raise Usage(f"`{command}` takes the name of {what}.")
    return words[0]


def _help(ports: Ports, caller: Caller, words: list[str]) -> Message:
    raise Usage("")


COMMANDS: Mapping[str, Command] = {
    "runs": Command("[mine]", "the newest runs, or yours alone", _runs),
    "show": Command("RUN", "where a run is and why, with its newest step", _show),
    "cost": Command("RUN", "what it has cost, and what for", _cost),
    "clusters": Command("", "the clusters that are there", _clusters),
    "nodes": Command("CLUSTER", "a cluster's nodes, those with trouble first", _nodes),
    "cancel": Command("RUN", "stop it; asks before", _ask("cancel")),
    "resume": Command("RUN", "train on from its newest checkpoint; asks before", _ask("resume")),
    "export": Command("RUN", "copy what it trained to S3; asks before", _ask("export")),
    "rerun": Command("RUN", "submit it anew, from the beginning; asks before", _ask("rerun")),
    "submit": Command(
        "[RUN] [FIELD=VALUE ...]", "a run like that one or your last; asks before", asked_by_words
    ),
    "replace": Command("NODE of CLUSTER", "give a node back for another; asks before", _replace),
    "approvals": Command(
        "", "what waits for people, with buttons for those who decide", _approvals
    ),
    "approve": Command(
        "APPROVAL [WHY]", "approve or deny what a run waits for; asks before", _approve
    ),
    "digest": Command("", "what happened in the last day, and what it cost", _digest),
    "help": Command("", "this list", _help),
}


def help_page(mistake: str, name: str) -> Message:
    """`name` is the command as this workspace calls it."""
    lines = [mistake] if mistake else []
    lines += [
        f"`{escaped(f'{name} {word} {command.given}'.rstrip())}`  {command.does}"
        for word, command in COMMANDS.items()
    ]
    end = "RUN is an id, its beginning, a run's name, or `latest`. Only you see the answers."
    return message("Trainyard", lines, end=end)
