"""The one place that says which run a person means: by its id, its beginning, a name, or latest."""

from __future__ import annotations

import re
from datetime import timezone

from trainyard.domain.errors import FieldError, NoRuns, RunAmbiguous, RunNotFound
from trainyard.domain.listing import Wanted
from trainyard.domain.records import Run
from trainyard.ports import Ports
from trainyard_contracts.base import NAME_PATTERN

#: The newest run.
LATEST = "latest"
#: Runs that an answer names where several are meant.
MOST_NAMED = 10
_ID = re.compile(r"run-[0-9a-hjkmnp-tv-z]{26}")
_BEGINNING = re.compile(r"run-[0-9a-hjkmnp-tv-z]{1,25}")
_NAME = re.compile(NAME_PATTERN)


def find_run(ports: Ports, given: str) -> str:
    """The id of the run that is meant; a whole id is not looked up.

    Raises RunNotFound, and RunAmbiguous, which names the runs, where it could mean several.
    """
    if _ID.fullmatch(given):
        return given
    if given == LATEST:
        return _latest(ports)
    found = [*_named(ports, given), *_begun(ports, given)]
    ids = list(dict.fromkeys(found))
    if not ids:
        raise RunNotFound(
            f"'{given[:100]}' is neither the id of a run, nor the beginning of one, nor a run's "
            "name."
        ).of_name(given)
    if len(ids) > 1:
        raise _ambiguous(ports, given, ids)
    return ids[0]


def _latest(ports: Ports) -> str:
    newest = ports.runs.list(limit=1, token=None).items
    if not newest:
        raise NoRuns("'latest' is the newest run, and there is none.")
    return newest[0].id


def _named(ports: Ports, given: str) -> list[str]:
    """Runs of this name; one page of many reads on until it is full or there is nothing more."""
    if len(given) > 63 or not _NAME.fullmatch(given):
        return []
    found: list[str] = []
    token = None
    while len(found) <= MOST_NAMED:
        page = ports.runs.list(limit=MOST_NAMED + 1, token=token, wanted=Wanted(name=given))
        found += [run.id for run in page.items]
        if (token := page.next_token) is None:
            break
    return found


def _begun(ports: Ports, given: str) -> list[str]:
    if not _BEGINNING.fullmatch(given):
        return []
    return ports.runs.beginning(given, at_most=MOST_NAMED + 1)


def _ambiguous(ports: Ports, given: str, ids: list[str]) -> RunAmbiguous:
    more = " or more" if len(ids) > MOST_NAMED else ""
    shown = ids[:MOST_NAMED]
    errors = [FieldError("runId", f"may be {_words(ports.runs.get(one))}") for one in shown]
    return RunAmbiguous(
        f"'{given[:100]}' may be one of {len(shown)}{more} runs: {', '.join(shown)}.",
        errors=errors,
    )


def _words(run: Run) -> str:
    at = run.created_at.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return f"{run.id}: '{run.name}', {run.status}, submitted {at}"
