"""The tools that change something. They are off by default, and each wants the name said again.

A model mixes up two runs more easily than it makes up a name twice. `confirm` is compared with the
name of what was found, so a call that means another run changes nothing.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from trainyard_sdk.client import Client, Json

from ..problems import Conflict, InvalidInput
from .reading import Run, Spec
from .tools import Arguments, Tool

Confirm = Annotated[str, Field(description="the run's name, said again; else nothing is done")]
Reason = Annotated[
    str | None, Field(max_length=200, description="why, for the audit list and the timeline")
]


class Submit(Arguments):
    spec: Spec
    confirm: Confirm
    idempotency_key: str | None = Field(
        None, description="the same key and spec give the same run, however often they are sent"
    )


def submit_run(client: Client, asked: Submit) -> Json:
    _confirmed(asked.confirm, asked.spec.get("name"))
    return client.submit_run(asked.spec, idempotency_key=asked.idempotency_key)


class Change(Arguments):
    run: Run
    confirm: Confirm
    reason: Reason = None


def cancel_run(client: Client, asked: Change) -> Json:
    return client.cancel_run(_meant(client, asked), reason=asked.reason)


def resume_run(client: Client, asked: Change) -> Json:
    return client.resume_run(_meant(client, asked), reason=asked.reason)


def _meant(client: Client, asked: Change) -> str:
    """The id of the run, so that 'latest' is the one whose name was confirmed."""
    found = client.run(asked.run)
    _confirmed(asked.confirm, found["name"])
    return str(found["id"])


def _confirmed(said: str, name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidInput(
            "The spec has no name", f"spec.name: {name!r}", "Give the run a name, and confirm it"
        )
    if said != name:
        raise Conflict(
            "Nothing was done: another name was confirmed",
            f"confirm: '{said[:100]}' is not the run's name, '{name[:100]}'",
            "Ask the person whether this run is meant, then give its name in confirm",
        )


ACTING: tuple[Tool[Any], ...] = (
    Tool(
        "submit_run",
        "Submit a run: machines are taken and cost money. Ask the person first, with the price "
        "that plan_run says.",
        Submit,
        submit_run,
        acts=True,
    ),
    Tool(
        "cancel_run",
        "End a run: its job is stopped, what is whole is exported, and its own cluster is "
        "deleted. Ask the person first.",
        Change,
        cancel_run,
        acts=True,
        destroys=True,
    ),
    Tool(
        "resume_run",
        "Go on with a run that failed or was cancelled, from its newest whole checkpoint: "
        "machines are taken and cost money. Ask the person first.",
        Change,
        resume_run,
        acts=True,
    ),
)
