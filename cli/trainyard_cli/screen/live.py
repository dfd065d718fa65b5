"""Follows a run until it ends: a live picture on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from trainyard_sdk.client import Client, Json
from trainyard_sdk.flows import driven
from trainyard_sdk.following import Pace, Which, log_lines

from ..problems import CliError, Unreachable
from .output import (
    bytes_text,
    counted,
    day,
    moment,
    number_text,
    scheduler_word,
    styled,
    table,
)
from .snapshot import Snapshot, Watcher
from .words import began_with, mark

POLL_SECONDS = 1.0
#: A plain log gets a line about steps this often.
STEP_LINE_SECONDS = 5.0
#: A plain log in which nothing else is said gets the run's status this often.
QUIET_SECONDS = 60.0
#: So long may the API be away before following gives up; the run itself does not mind.
PATIENCE_SECONDS = 60.0
TIMELINE_LINES = 14

OnUpdate = Callable[[Snapshot], object]


class TimedOut(CliError):
    """The run did not end in time; it goes on."""


def follow(
    client: Client,
    run_id: str,
    console: Console,
    *,
    on_update: OnUpdate | None = None,
    timeout_seconds: float | None = None,
) -> Json:
    """Show the run until it ends and return it. `on_update` gets every snapshot.

    Raises TimedOut, ApiProblem (unknown run), Unreachable (away for a minute). Ctrl-C raises
    KeyboardInterrupt, and the run goes on.
    """
    view: _Picture | _Lines = _Picture(console) if console.is_terminal else _Lines(console)
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    watcher = Watcher(client, run_id)
    with view:
        while True:
            snapshot = _patiently(watcher, view)
            view.show(snapshot)
            if on_update is not None:
                on_update(snapshot)
            if snapshot.finished:
                return snapshot.run
            if deadline is not None and time.monotonic() > deadline:
                status = snapshot.run["status"]
                raise TimedOut(
                    "Not finished in time",
                    f"run {run_id} is {status}: {snapshot.run['reason']}",
                    f"trainyard run watch {run_id}",
                )
            time.sleep(POLL_SECONDS)


#: The same under the name that reads better where nothing else is done meanwhile.
watch = follow


def _patiently(watcher: Watcher, view: _Picture | _Lines) -> Snapshot:
    since = time.monotonic()
    while True:
        try:
            return watcher.look()
        except Unreachable as error:
            if time.monotonic() - since > PATIENCE_SECONDS:
                raise
            view.note(f"{error}; trying again")
            time.sleep(POLL_SECONDS)


class _Lines:
    """Plain lines: every entry of the timeline once, and now and then the progress of training."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._step_at = 0.0
        self._step: int | None = None
        self._noted = ""
        self._printed_at = time.monotonic()
        self._days = _Days()

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def note(self, words: str) -> None:
        if words != self._noted:
            self._noted = words
            self._print(words)

    def show(self, snapshot: Snapshot) -> None:
        for line in self._days.lines(snapshot.new_events):
            self._print(line)
        if (
            snapshot.step is not None
            and snapshot.step != self._step
            and time.monotonic() - self._step_at >= STEP_LINE_SECONDS
        ):
            self._step, self._step_at = snapshot.step, time.monotonic()
            self._print(f"{'':8}  {training_line(snapshot)}")
            for node in snapshot.nodes:
                self._print(f"{'':8}    {node_line(node)}")
        run = snapshot.run
        if snapshot.finished:
            self._print(f"{'':8}  run {run['id']} {run['status']}: {run['reason']}")
        elif time.monotonic() - self._printed_at >= QUIET_SECONDS:
            self._print(f"{'':8}  {run['status']}: {run['reason']}")

    def _print(self, text: str) -> None:
        self._printed_at = time.monotonic()
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class _Picture:
    """One picture that is redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(
            console=console, auto_refresh=False, transient=False, vertical_overflow="crop"
        )
        self._note = ""
        self._last: Snapshot | None = None

    def __enter__(self) -> _Picture:
        self._live.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._live.__exit__(*exception)

    def note(self, words: str) -> None:
        self._note = words
        if self._last is not None:
            self._live.update(picture(self._last, words), refresh=True)

    def show(self, snapshot: Snapshot) -> None:
        self._note, self._last = "", snapshot
        self._live.update(picture(snapshot), refresh=True)


class _Days:
    """Says each day once, before its first entry: lines of a timeline have the clock only."""

    def __init__(self) -> None:
        self._said = ""

    def new(self, event: Json) -> str | None:
        """The day of an entry, if it was not said yet."""
        its = day(event["at"])
        if its == self._said:
            return None
        self._said = its
        return its

    def lines(self, events: Sequence[Json]) -> Iterator[str]:
        for event in events:
            if its := self.new(event):
                yield its
            yield event_line(event)


def event_line(event: Json) -> str:
    """An entry of the timeline as one line, without its day."""
    attempt = f"[attempt {event['attempt']}] " if event.get("attempt") else ""
    return f"{moment(event['at'])}  {attempt}{event['message']}"


def training_line(snapshot: Snapshot) -> str:
    """Attempt, step, loss and newest checkpoint in one line."""
    attempt = snapshot.attempt
    parts = [f"attempt {attempt['number']}" if attempt else "no attempt yet"]
    if snapshot.step is not None:
        parts.append(f"step {snapshot.step}")
    if snapshot.loss is not None:
        older = (
            "" if snapshot.sampled_step == snapshot.step else f" at step {snapshot.sampled_step}"
        )
        parts.append(f"loss {number_text(snapshot.loss)}{older}")
    whole = [found for found in snapshot.checkpoints if found["status"] == "whole"]
    if whole:
        parts.append(f"{counted(len(whole), 'checkpoint')}, newest at {mark(whole[0])}")
    return ", ".join(parts)


def node_line(node: Json) -> str:
    """A node as one plain line."""
    sample = node.get("sample") or {}
    slurm = "" if node["role"] == "controller" else f"Slurm {node['scheduler']}, "
    return (
        f"{node.get('name') or node['instanceId']}: {node['role']}, agent {node['agent']}, "
        f"{slurm}{_load(sample)}"
    )


def _load(sample: Json) -> str:
    if not sample:
        return "no sample yet"
    return (
        f"CPU {sample['cpuPercent']:.0f}%, memory {bytes_text(sample['memoryUsedBytes'])} of "
        f"{bytes_text(sample['memoryTotalBytes'])}"
    )


def picture(snapshot: Snapshot, note: str = "") -> RenderableType:
    """Everything about the run, for a terminal."""
    run = snapshot.run
    parts: list[RenderableType] = [
        Panel(
            _head(snapshot),
            title=f"[bold]{escape(run['name'])}[/]  {run['id']}",
            title_align="left",
            border_style="blue",
        ),
        Panel(
            _nodes(snapshot),
            title=_cluster_title(snapshot),
            title_align="left",
            border_style="blue",
        ),
        Panel(
            _timeline(snapshot.events), title="Timeline", title_align="left", border_style="blue"
        ),
    ]
    if note:
        parts.append(Text(note, style="yellow"))
    return Group(*parts)


def _head(snapshot: Snapshot) -> Table:
    run, attempt = snapshot.run, snapshot.attempt
    grid = Table.grid(padding=(0, 2))
    grid.add_row("[bold]Status[/]", f"{styled(run['status'])}  {escape(run.get('reason') or '')}")
    grid.add_row("[bold]Training[/]", escape(training_line(snapshot)))
    if attempt:
        start = began_with(attempt)
        grid.add_row(
            "[bold]Attempt[/]",
            escape(
                f"{attempt['number']} on "
                f"{', '.join(attempt.get('nodes') or []) or 'no nodes yet'}"
                f"{f', began with {start}' if start else ''}"
            ),
        )
    there = [found for found in snapshot.checkpoints if found["status"] != "pruned"]
    kept = [
        mark(found).removeprefix("step ") + ("" if found["status"] == "whole" else " [red]torn[/]")
        for found in there[:8]
    ]
    grid.add_row("[bold]Checkpoints[/]", " ".join(reversed(kept)) or "-")
    if run.get("export"):
        export = run["export"]
        grid.add_row(
            "[bold]Export[/]",
            f"{export['state']}  {export['objects']} objects, {bytes_text(export['bytes'])}",
        )
    if run.get("problem"):
        grid.add_row(
            "[bold]Problem[/]",
            f"[red]{escape(run['problem']['title'])}[/] {escape(run['problem']['detail'])}",
        )
    return grid


def _cluster_title(snapshot: Snapshot) -> str:
    state = (
        "deleted"
        if snapshot.run.get("clusterDeleted")
        else (snapshot.cluster or {}).get("status", "")
    )
    return f"Cluster [bold]{escape(snapshot.run['clusterName'])}[/] {styled(state)}"


def _nodes(snapshot: Snapshot) -> RenderableType:
    if not snapshot.nodes:
        return Text("no nodes", style="dim")
    return table(
        ["node", "group", "state", "agent", "Slurm", "CPU", "memory"],
        [_node_row(node) for node in snapshot.nodes],
    )


def _node_row(node: Json) -> Sequence[str]:
    sample = node.get("sample") or {}
    memory = (
        f"{bytes_text(sample['memoryUsedBytes'])} / {bytes_text(sample['memoryTotalBytes'])}"
        if sample
        else "-"
    )
    cpu = f"{_bar(sample['cpuPercent'])} {sample['cpuPercent']:3.0f}%" if sample else "-"
    name = escape(node.get("name") or node["instanceId"])
    return [
        name,
        escape(node["group"]),
        styled(node["status"]),
        styled(node["agent"]),
        styled(scheduler_word(node)),
        cpu,
        memory,
    ]


def _bar(percent: float, width: int = 8) -> str:
    filled = round(min(max(percent, 0), 100) / 100 * width)
    return f"[cyan]{'█' * filled}[/][dim]{'░' * (width - filled)}[/]"


_KINDS = {"decision": "bold yellow", "status": "dim", "fact": ""}


def _timeline(events: Sequence[Json], lines: int = TIMELINE_LINES) -> RenderableType:
    rows: list[RenderableType] = []
    if len(events) > lines:
        rows.append(Text(f"... {len(events) - lines} earlier", style="dim"))
    days = _Days()
    for event in events[-lines:]:
        if its := days.new(event):
            rows.append(Text(its, style="dim"))
        # A decision is shown to its end: what was decided comes last.
        whole = event["kind"] == "decision"
        rows.append(
            Text(
                event_line(event),
                style=_KINDS.get(event["kind"], ""),
                overflow="fold" if whole else "ellipsis",
                no_wrap=not whole,
            )
        )
    return Group(*rows) if rows else Text("nothing yet", style="dim")


def print_timeline(console: Console, events: Sequence[Json], *, soft_wrap: bool = True) -> None:
    """The whole timeline, with reasons; `soft_wrap` leaves long lines to the terminal."""
    days = _Days()
    for event in events:
        if its := days.new(event):
            console.print(Text(its, style="dim"))
        console.print(
            Text(event_line(event), style=_KINDS.get(event["kind"], "")), soft_wrap=soft_wrap
        )


def follow_log(client: Client, run_id: str, write: Callable[[str], object], which: Which) -> None:
    """Write the log's tail and what is added to it until the run ends."""
    pace = Pace(1.5 * POLL_SECONDS, PATIENCE_SECONDS)
    for line in driven(log_lines(client, run_id, pace, which)):
        write(line)
