"""All that `trainyard run show` says of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from trainyard_sdk.terminal_text import plain

from .curve import WIDTH, curve
from .output import (
    ago,
    between,
    bytes_text,
    counted,
    date,
    day_moment,
    err,
    number_text,
    out,
    print_fields,
    print_table,
    seconds_text,
    styled,
    table,
    zoned,
)
from .words import began_with, labels_text, mark

Json = dict[str, Any]

#: What is shown where no other name is asked for.
LOSS = "loss"
#: So many names are shown beside a curve.
MOST_NAMED = 8
#: Of more points the newest tenth says how fast training is.
MOST_FOR_SPEED = 60


def print_run(run: Json, checkpoints: Sequence[Json], cost: Json | None = None) -> None:
    """`cost` is what it has cost, or None where nobody could say."""
    fields = {**_fields(run), "cost": _cost(cost)}
    print_fields({**fields, **_progress(run, checkpoints), **_synced(run), **_end(run)})
    _print_attempts(run)
    _print_incidents(run)
    _print_checkpoints(checkpoints)


def _fields(run: Json) -> Json:
    return {
        "run": f"{run['id']} ({escape(run['name'])})",
        "labels": escape(labels_text(run["labels"])) if run.get("labels") else None,
        "priority": run.get("priority") or None,
        "status": styled(run["status"]),
        "reason": escape(run["reason"]),
        "cluster": f"{escape(run['clusterName'])}{' (deleted)' if run['clusterDeleted'] else ''}",
        "image": _image(run),
        "code": _code(run),
        "begins with": _start(run),
        "kept because": None
        if run["clusterDeleted"]
        else escape(run.get("teardownRefused") or "") or None,
        "owner": _owner(run),
        "submitted": date(run.get("createdAt")),
        "finished": date(run["finishedAt"]) if run.get("finishedAt") else None,
        "duration": _duration(run),
    }


def _owner(run: Json) -> str | None:
    owner = run.get("createdBy")
    return escape(f"{owner['name']} ({owner['arn']})") if owner else None


def _image(run: Json) -> str | None:
    """As the spec names it, and the digest that all attempts have."""
    name = ((run.get("spec") or {}).get("job") or {}).get("image")
    digest = run.get("imageDigest")
    return escape(f"{name} ({digest})" if digest and digest not in name else name) if name else None


def _code(run: Json) -> str | None:
    """The commit that runs, or what was uploaded: of equal content the same for any two runs."""
    code = run.get("code") or {}
    if not code.get("commit"):
        if not code.get("tree") or code.get("url"):
            return None
        size = f"{counted(code['files'], 'file')}, {bytes_text(code['bytes'])}"
        return escape(f"an uploaded directory, {size}, upload {code['tree']}")
    asked = "" if code["ref"] == code["commit"] else f" ({code['ref']})"
    return escape(f"{code['url']}{asked}, commit {code['commit']}")


def _cost(found: Json | None) -> str | None:
    """`trainyard run cost` says what for."""
    if found is None:
        return None
    if found.get("usd") is None:
        return f"not known: {escape(found.get('reason') or 'a price is missing')}"
    return f"{found['usd']:.2f} USD{'' if found.get('final') else ' so far'}"


def _start(run: Json) -> str | None:
    checkpoint = (run.get("spec") or {}).get("checkpoint") or {}
    start = checkpoint.get("startFrom")
    return f"step {start['step']} of {escape(start['run'])}" if start else None


def _duration(run: Json) -> str | None:
    seconds = between(run.get("createdAt"), run.get("finishedAt"))
    return None if seconds is None else seconds_text(seconds)


def _progress(run: Json, checkpoints: Sequence[Json]) -> Json:
    """Step and loss, of a run that ended those at its end."""
    latest = run.get("latest") or {}
    steps = [
        found["step"]
        for found in checkpoints
        if found["status"] != "rejected" and not found.get("counted")
    ]
    return {
        "step": latest["step"]
        if latest.get("step") is not None
        else f"{max(steps)} (newest checkpoint)"
        if steps
        else None,
        "loss": number_text(latest.get("loss")),
    }


def print_metrics(document: Json, console_width: int, since: int | None = None) -> None:
    """How far training is, how fast it goes, and one number over its steps.

    `since`: points of so many last seconds only, before the newest.
    """
    name = str(document.get("name") or LOSS)
    points = _recent(_points(document), since)
    if not points:
        _say_nothing_is_there(document, name)
        return
    last = points[-1]
    values = [(point["step"], point["value"]) for point in points if point["value"] is not None]
    numbers = [value for _, value in values]
    print_fields(
        {
            "attempt": last["attempt"],
            "step": last["step"],
            shown(name): number_text(numbers[-1]) if numbers else None,
            "lowest, highest": _range(numbers),
            "speed": _speed([one for one in points if one["attempt"] == last["attempt"]]),
            "seen": date(last["at"]),
            "other names": shown(_others(document, name)),
        }
    )
    if len(values) > 1:
        title = "Loss" if name == LOSS else shown(name)
        first, newest = min(values)[0], max(values)[0]
        out.print(f"\n[bold]{title}[/], steps {first} to {newest}", soft_wrap=True)
        for line in curve(values, width=max(10, min(WIDTH, console_width - 12))):
            out.print(line, markup=False, soft_wrap=True)


def print_names(document: Json) -> None:
    """Under which names the program reported numbers, and what they were."""
    rows = [
        (
            shown(one["name"]),
            number_text(one.get("last")) or "-",
            number_text(one.get("lowest")) or "-",
            number_text(one.get("highest")) or "-",
            one.get("reports", 0),
            one.get("notFinite", 0),
        )
        for one in document.get("names") or []
    ]
    if rows:
        columns = ("name", "last", "lowest", "highest", "reports", "not finite")
        print_table(table(columns, rows))
    else:
        err.print("The program reported no numbers yet.")
    if document.get("namesLeftOut"):
        err.print(f"{counted(document['namesLeftOut'], 'more name')} not kept.", soft_wrap=True)


def shown(name: str) -> str:
    """A name that the program gave, in one line, as markup."""
    return escape(plain(name).replace("\n", "\\n"))


def _points(document: Json) -> list[Json]:
    """Of the name that is shown; of the loss the samples, where no points are."""
    points: list[Json] = document.get("points") or []
    if points or document.get("name", LOSS) != LOSS:
        return points
    samples = [found for found in document["run"] if found.get("step") is not None]
    return [{**found, "value": found.get("loss")} for found in samples]


def _recent(points: Sequence[Json], since: int | None) -> list[Json]:
    if since is None or not points:
        return list(points)
    newest = max(point["at"] for point in points)
    return [point for point in points if (between(point["at"], newest) or 0.0) <= since]


def _say_nothing_is_there(document: Json, name: str) -> None:
    others = _others(document, name)
    if name == LOSS and not others:
        out.print("No step was reported yet, or none with a loss.")
        return
    there = f"; there is: {shown(others)}" if others else ", and no other number"
    out.print(f"No {shown(name)} was reported{there}.", soft_wrap=True)


def _others(document: Json, name: str) -> str:
    names = [str(one["name"]) for one in document.get("names") or [] if one["name"] != name]
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more (--names)" if more > 0 else "")


def _range(values: Sequence[float]) -> str | None:
    return f"{number_text(min(values))}, {number_text(max(values))}" if values else None


def _speed(samples: Sequence[Json]) -> str | None:
    """Of the newest part of them: training may have been slower once."""
    recent = samples[-max(2, len(samples) // 10) :] if len(samples) > MOST_FOR_SPEED else samples
    steps = recent[-1]["step"] - recent[0]["step"]
    seconds = between(recent[0]["at"], recent[-1]["at"])
    return f"{steps / seconds:.3g} steps a second" if seconds and steps > 0 else None


def _synced(run: Json) -> Json:
    """What is in S3 before the export: the last copy of a run with export.everySeconds."""
    sync: Json = run.get("sync") or {}
    every = ((run.get("spec") or {}).get("export") or {}).get("everySeconds")
    if not sync:
        waits = every is not None and not run.get("finishedAt") and not run.get("export")
        return {"synced": "nothing yet"} if waits else {}
    step = "" if sync.get("lastStep") is None else f", newest checkpoint of step {sync['lastStep']}"
    left = f", {counted(sync['leftOut'], 'file')} left out" if sync.get("leftOut") else ""
    return {
        "synced": f"{ago(sync['at'])} ago: {counted(sync['objects'], 'file')}, "
        f"{bytes_text(sync['bytes'])}{step}{left}",
        "get it now": f"trainyard run download {run['id']}",
    }


def _end(run: Json) -> Json:
    export: Json = run.get("export") or {}
    problem = run.get("problem")
    verified = export.get("state") == "verified"
    return {
        "export": f"{export['state']}, {counted(export['objects'], 'object')}, "
        f"{bytes_text(export['bytes'])}"
        if export
        else None,
        "lies at": escape(export.get("uri") or "") if verified else None,
        "get it": f"trainyard run download {run['id']}" if verified else None,
        "problem": f"[red]{escape(problem['title'])}[/]: {escape(problem['detail'])}"
        if problem
        else None,
        "next step": escape(problem["nextStep"]) if problem else None,
    }


def _print_attempts(run: Json) -> None:
    rows = [
        (
            found["number"],
            found.get("jobId") or "-",
            escape(", ".join(found["nodes"])),
            day_moment(found.get("startedAt")),
            began_with(found) or "-",
            found.get("outcome") or "-",
            escape(found["reason"]),
        )
        for found in run["attempts"]
    ]
    if rows:
        out.print("\n[bold]Attempts[/]")
        print_table(
            table(["#", "job", "nodes", zoned("started"), "began with", "outcome", "reason"], rows)
        )


def _print_incidents(run: Json) -> None:
    rows = [
        (
            day_moment(found["startedAt"]),
            escape(found["cause"]),
            found["attempt"],
            escape(found.get("node") or "-"),
            _back_after(found),
            escape(found.get("reason") or "-"),
        )
        for found in run.get("incidents") or []
    ]
    if rows:
        out.print("\n[bold]Incidents[/]")
        print_table(
            table([zoned("at"), "cause", "attempt", "node", "trains after", "reason"], rows)
        )


def _back_after(incident: Json) -> str:
    """From the first sign of it to the next training step; of a program without, to its start."""
    seconds = between(incident["startedAt"], incident.get("resumedAt"))
    if seconds is None:
        return "-"
    began = " (started)" if incident.get("resumedBy") == "start" else ""
    return f"{seconds_text(seconds)}{began}"


def _print_checkpoints(checkpoints: Sequence[Json]) -> None:
    there = [found for found in checkpoints if found["status"] != "pruned"]
    if not checkpoints:
        return
    pruned = len(checkpoints) - len(there)
    rows = [
        (
            mark(found).removeprefix("step "),
            found["attempt"],
            styled(found["status"]),
            bytes_text(found["bytes"]),
            day_moment(found["committedAt"]),
        )
        for found in there
    ]
    out.print(f"\n[bold]Checkpoints[/]{f' [dim]({pruned} removed or lost)[/]' if pruned else ''}")
    print_table(table(["step", "attempt", "state", "size", zoned("committed")], rows))
