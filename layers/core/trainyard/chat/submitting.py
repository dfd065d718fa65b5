"""Submit from Slack: a form that an earlier run fills in, or words; then the price, and a button.

Nothing is submitted before that button is clicked. A form needs the app's token, and Slack opens it
only within three seconds of the command; without it the same page comes at once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from trainyard.app.people.on_behalf import Caller, OnBehalf
from trainyard.app.runs.budgets import hourly_of
from trainyard.app.runs.dry_run import dry_run_run
from trainyard.app.runs.find_run import find_run
from trainyard.chat.asking import LABELS, Button, page
from trainyard.chat.blocks import (
    MOST_VALUE,
    Asks,
    Block,
    Message,
    escaped,
    plain,
    section,
)
from trainyard.chat.drafts import FIELDS, carried, changed, spec_of, typed
from trainyard.chat.requests import FORM, SlackCommand, SlackForm
from trainyard.chat.web_api import Views
from trainyard.domain.errors import InvalidRequest, NoRuns, TrainyardError
from trainyard.domain.listing import Wanted
from trainyard.domain.records import Run
from trainyard.domain.words import counted, duration, who
from trainyard.ports import Ports
from trainyard_contracts.specs import RunSpec

_LOG = logging.getLogger(__name__)
#: The newest run of the person who asks.
LAST = "last"
#: Pages of the list that are read for it.
_PAGES = 10
#: Warnings of a dry run that a message shows.
_WARNINGS = 5
#: Slack's limits of a modal's title and of the text with which a field begins.
_TITLE, _INITIAL = 24, 3000


def asked_by_words(ports: Ports, caller: Caller, words: list[str]) -> Message:
    """What `submit [RUN] [FIELD=VALUE ...]` would submit. Raises what a submission does."""
    named = words[0] if words and "=" not in words[0] else LAST
    run = template_of(ports, caller, named)
    given = words[1:] if words and words[0] == named else words
    return _asked(ports, caller, run, changed(run, typed(given)))


def asked_by_form(ports: Ports, caller: Caller, form: SlackForm) -> Message:
    """The same of a form that was sent."""
    run = ports.runs.get(form.run)
    return _asked(ports, caller, run, changed(run, form.values))


def opened(ports: Ports, caller: Caller, views: Views | None, asked: SlackCommand) -> bool:
    """Whether a form is open now for this command: `submit` alone, or with a run.

    Raises Forbidden, and what finding the run does.
    """
    words = asked.text.split()
    plain_one = 1 <= len(words) <= 2 and words[0].lower() == "submit" and "=" not in words[-1]
    if views is None or not asked.trigger or not plain_one:
        return False
    run = template_of(ports, caller, words[1] if len(words) == 2 else LAST)
    OnBehalf(ports, caller).check_changes(None)
    view = form_of(run, asked.response_url)
    try:
        views.call("views.open", {"trigger_id": asked.trigger, "view": view})
    except TrainyardError as refused:  # too late, or no token: the page comes in its place
        _LOG.warning("a form is not opened: %s", refused.detail)
        return False
    return True


def template_of(ports: Ports, caller: Caller, named: str) -> Run:
    """Raises NoRuns, and what find_run does."""
    if named != LAST:
        return ports.runs.get(find_run(ports, named))
    token: str | None = None
    for _ in range(_PAGES):
        found = ports.runs.list(limit=1, token=token, wanted=Wanted(owner=caller.person))
        if found.items:
            return found.items[0]
        if (token := found.next_token) is None:
            break
    raise NoRuns(
        "None of the newest runs is yours.",
        next_step="Name another run: submit RUN. Or submit the first one with trainyard run "
        "submit FILE.",
    )


def form_of(run: Run, response_url: str) -> dict[str, Any]:
    """A modal with a field for each of FIELDS, filled in as the run was.

    What is too long for a field has none: it stays as it was.
    """
    shown = {name: field.shown(run.spec) for name, field in FIELDS.items()}
    about = f"Like *{escaped(run.name)}* of {escaped(who(run.created_by))}, `{run.id}`"
    inputs = [_input(name, text) for name, text in shown.items() if len(text) <= _INITIAL]
    return {
        "type": "modal",
        "callback_id": FORM,
        "title": plain("Submit a run", _TITLE),
        "submit": plain("Show its price", _TITLE),
        "close": plain("Leave it", _TITLE),
        "private_metadata": json.dumps({"run": run.id, "url": response_url}),
        "blocks": [section(about), *inputs],
    }


def _input(name: str, value: str) -> Block:
    field = FIELDS[name]
    element: Block = {"type": "plain_text_input", "action_id": name}
    if name == "arguments":
        element["multiline"] = True
    if value:
        element["initial_value"] = value
    return {
        "type": "input",
        "block_id": name,
        "optional": name in ("arguments", "budget"),
        "label": plain(field.label, 75),
        "hint": plain(field.hint, 150),
        "element": element,
    }


def _asked(ports: Ports, caller: Caller, run: Run, changes: dict[str, str]) -> Message:
    OnBehalf(ports, caller).check_changes(None)
    spec = spec_of(run, changes)
    lines = [_target(run, spec), *_changes(changes), *_priced(ports, caller, spec)]
    given = Button(
        act="submit",
        once=caller.request_id,
        at=int(ports.clock.now().timestamp()),
        run=run.id,
        changes=carried(changes),
    )
    if len(given.value) > MOST_VALUE:
        raise InvalidRequest(
            "arguments: they are too long for a button of Slack's.",
            next_step="Submit it with trainyard run submit FILE, or in the console.",
        )
    asks = Asks(f"{LABELS['submit']}?", f"{spec.name}. {_size(spec)}", LABELS["submit"])
    return page(given, f"Submit {spec.name}?", lines, asks)


def _target(run: Run, spec: RunSpec) -> str:
    own = "on a cluster of its own"
    where = own if spec.cluster.spec is not None else f"on `{escaped(str(spec.cluster.name))}`"
    return (
        f"*{escaped(spec.name)}*, {_size(spec)}, {where}.\n"
        f"Like *{escaped(run.name)}* of {escaped(who(run.created_by))}, `{run.id}`"
    )


def _size(spec: RunSpec) -> str:
    most = duration(spec.limits.max_duration_seconds)
    return f"{counted(spec.job.nodes, 'node')} for {most} at most"


def _changes(changes: Mapping[str, str]) -> list[str]:
    if not changes:
        return ["Nothing of it is changed. To change it: `submit RUN FIELD=VALUE`, with "
                f"{', '.join(FIELDS)}."]  # fmt: skip
    said = [f"{name}: {escaped(value, 300) or 'none'}" for name, value in changes.items()]
    return ["Changed: " + "; ".join(said)]


def _priced(ports: Ports, caller: Caller, spec: RunSpec) -> list[str]:
    """What a dry run says: the price of its dearest way, and what a person should know before."""
    plan, hourly = dry_run_run(ports, spec, by=caller.person), hourly_of(ports, spec)
    said = "Its price is not known."
    if hourly is not None:
        most = hourly * spec.limits.max_duration_seconds / 3600
        said = f"It costs *{hourly:.2f} USD an hour*, and {most:.2f} USD if it uses all its time."
        if spec.budget is not None and spec.budget.max_usd < most:
            said = (
                f"It costs *{hourly:.2f} USD an hour*, and {spec.budget.max_usd:.2f} USD at most, "
                "its budget."
            )
    return [said, *(escaped(one, 500) for one in plan.warnings[:_WARNINGS])]
