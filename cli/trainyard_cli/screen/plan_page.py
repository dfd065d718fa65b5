"""What a dry run answers, for people."""

from __future__ import annotations

from rich.markup import escape

from trainyard_sdk.client import Json

from .output import bytes_text, counted, err, out, print_fields, print_json, print_table, table

#: Words of the batch script that the agent replaces on its node, as they are on AWS.
_MARKS: dict[str, object] = {
    "@PYTHON@": "the interpreter of the cluster's environment (environment.path of its spec)",
    "@LIBRARY@": "/opt/trainyard/lib, where every node has Trainyard's packages",
    "@ATTEMPT_DIR@": "<shared filesystem>/trainyard/runs/<run>/attempts/1: job.json there has the "
    "program, its arguments and its variables",
    "run-000...": "the run's id",
}


def _hourly(one: Json) -> str:
    price = one.get("hourlyUsd")
    return "price not known" if price is None else f"{price:.2f} USD an hour"


def _sizes(files: Json) -> str:
    return f"{counted(len(files), 'file')} of {bytes_text(sum(files.values()))}" if files else ""


def _compared(way: Json) -> str:
    """What a choice between ways goes by."""
    expected, most = way.get("expectedUsd"), way.get("mostUsd")
    zones = " or ".join(way.get("zones") or [])
    parts = [
        _hourly(way),
        "" if expected is None else f"{expected:.2f} USD the run",
        "" if most is None else f"{most:.2f} USD at most",
        f"in {zones}" if zones else "",
        _sizes(way.get("files") or {}) if "way" in way else "",
    ]
    return ", ".join(part for part in parts if part)


def _cannot(plan: Json) -> dict[str, str]:
    """Of each backend once, what others do and it does not."""
    shown = [plan, *(plan.get("ways") or [])]
    return {
        str(one["backend"]): " ".join(one["cannot"])
        for one in shown
        if one.get("backend") and one.get("cannot")
    }


def print_plan(plan: Json, *, as_json: bool) -> None:
    """What a dry run answers."""
    if as_json:
        print_json(plan)
        return
    known = plan.get("hourlyUsd") is not None
    price = _compared({**plan, "zones": None}) if known else None
    listed = plan.get("listPrice") or {}
    print_fields(
        {
            "operation": plan.get("operation"),
            "price": price,
            "on AWS": escape(listed.get("words") or ""),
            "": _compared(listed) if listed.get("hourlyUsd") is not None else "",
        }
    )
    for number, one in enumerate(plan.get("ways") or [], start=1):
        out.print(f"way {number}: {escape(one['way'])} ({_compared(one)})", soft_wrap=True)
    for backend, cannot in _cannot(plan).items():
        out.print(f"limits of {escape(backend)}: {escape(cannot)}", soft_wrap=True)
    if plan.get("request"):
        out.print_json(data=plan["request"])
    elif plan.get("batchScript"):
        out.print("The cluster is there: only the job would be submitted.")
    files = plan.get("files") or {}
    if files:
        out.print(f"[bold]{counted(len(files), 'file')}[/], {bytes_text(sum(files.values()))}")
    if plan.get("batchScript"):
        out.print("[bold]Batch script[/]")
        out.print(plan["batchScript"], markup=False, soft_wrap=True)
        out.print("In it stand for what the cluster's own agent puts there:")
        print_fields(_MARKS)
    if plan.get("environment"):
        out.print("[bold]Variables that the program will find[/]")
        print_table(table(["name", "value", "set by"], map(_variable, plan["environment"])))
    for warning in plan.get("warnings") or []:
        out.print(f"[yellow]warning[/] {escape(warning)}")
    err.print("Nothing was done.")


def _variable(one: Json) -> tuple[str, str, str]:
    value, note = one.get("value"), one.get("note") or ""
    shown = f"[dim]{escape(note)}[/]" if value is None else escape(value)
    if value is not None and note:
        shown = f"{shown} [dim]({escape(note)})[/]"
    return escape(one["name"]), shown, escape(one.get("source") or "-")
