"""Writes statemachines/*.asl.json from the pages beside them; with --check says which are stale."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

DIRECTORY = Path(__file__).resolve().parents[1] / "statemachines"
State = dict[str, Any]

#: What may pass: Lambda's own trouble, a process that died, and the errors of ours that say so.
MAY_PASS = [
    *("Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException"),
    *("Lambda.TooManyRequestsException", "Lambda.Unknown", "Sandbox.Timedout"),
    *("Runtime.ExitError", "RetryableError", "ConflictError"),
]
#: A function's own limit.
STEP_SECONDS = 900
TOKEN = {
    "token.$": "$$.Task.Token",
    "enteredAt.$": "$$.State.EnteredTime",
    "retry.$": "$$.State.RetryCount",
}


class BadPage(Exception):
    """A page cannot be read; the message names the state."""


def machine(page: Mapping[str, Any]) -> State:
    """A page in Amazon States Language. Raises BadPage."""
    payload = page["Payload"]
    return {
        "Comment": page["Comment"],
        "StartAt": page["StartAt"],
        "States": _states(page["States"], payload),
    }


def _states(states: Mapping[str, State], payload: Mapping[str, str]) -> State:
    found: State = {}
    for name, state in states.items():
        for made, content in _written(name, dict(state), payload):
            if made in found:
                raise BadPage(f"{made}: there is such a state already")
            found[made] = content
    return found


def _written(
    name: str, state: State, payload: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The state, and beside it the one that names it when it fails."""
    step = state.get("Step", name.lower())
    trouble = state.pop("Trouble", None)
    fails = state.pop("Fails", f"{name}Failed" if trouble else None)
    if "Step" in state:
        state = _step(name, state, payload)
    elif "Choose" in state:
        state = _choice(state)
    if "ItemProcessor" in state:
        inner = state["ItemProcessor"]
        state["ItemProcessor"] = {**inner, "States": _states(inner["States"], payload)}
    if fails:
        state["Catch"] = [*state.pop("Catch", []), *_catch(fails)]
    if unknown := [word for word in ("With", "Waits", "Answer", "Tries") if word in state]:
        raise BadPage(f"{name}: {', '.join(unknown)} belongs to a state with Step")
    yield name, state
    if trouble:
        yield fails, _naming(step, trouble)


def _step(name: str, state: State, payload: Mapping[str, str]) -> State:
    if "Tries" not in state:
        raise BadPage(f"{name}: a step needs Tries")
    step, waits, tries = state.pop("Step"), state.pop("Waits", None), state.pop("Tries")
    given = {"step": step, **payload, **(TOKEN if waits else {}), **state.pop("With", {})}
    limit: State = {"TimeoutSeconds": STEP_SECONDS}
    if waits:
        limit = {"TimeoutSecondsPath": "$.decision.timeoutSeconds"}
    timeout = {"ErrorEquals": ["States.Timeout"], "ResultPath": "$.error", "Next": waits}
    invoke = "arn:aws:states:::lambda:invoke"
    return {
        "Type": "Task",
        **({"Comment": state.pop("Comment")} if "Comment" in state else {}),
        "Resource": f"{invoke}.waitForTaskToken" if waits else invoke,
        "Parameters": {"FunctionName": "${StepsFunctionArn}", "Payload": given},
        **limit,
        **_answer(state.pop("Answer", {})),
        "Retry": [_retry(tries["times"], tries["pause"])],
        **({"Catch": [timeout]} if waits else {}),
        **state,
    }


def _answer(kept: Mapping[str, list[str]]) -> State:
    if not kept:
        return {"ResultPath": None}
    [(name, fields)] = kept.items()
    selected = {f"{field}.$": f"$.Payload.{field}" for field in fields}
    return {"ResultSelector": selected, "ResultPath": f"$.{name}"}


def _retry(times: int, pause: int) -> State:
    return {
        "ErrorEquals": MAY_PASS,
        "IntervalSeconds": 1,
        "MaxAttempts": times,
        "BackoffRate": 2,
        "MaxDelaySeconds": pause,
        "JitterStrategy": "FULL",
    }


def _catch(state: str) -> list[State]:
    """States.ALL does not hold States.DataLimitExceeded."""
    return [
        {"ErrorEquals": [error], "ResultPath": "$.error", "Next": state}
        for error in ("States.DataLimitExceeded", "States.ALL")
    ]


def _choice(state: State) -> State:
    variable, cases = state.pop("Choose"), state.pop("Cases")
    choices = [
        {"Variable": variable, "StringEquals": text, "Next": there} for text, there in cases.items()
    ]
    return {"Type": "Choice", **state, "Choices": choices, "Default": state["Default"]}


def _naming(step: str, then: str) -> State:
    return {
        "Type": "Pass",
        "Comment": f"Name the step that failed: {step}",
        "Result": step,
        "ResultPath": "$.failedStep",
        "Next": then,
    }


def main(argv: list[str] | None = None) -> int:
    """Exit status 1 if --check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check, stale = parser.parse_args(argv).check, []
    for page in sorted(DIRECTORY.glob("*.yaml")):
        path = page.with_suffix(".asl.json")
        wanted = json.dumps(machine(yaml.safe_load(page.read_text())), indent=2) + "\n"
        if check and (not path.exists() or path.read_text() != wanted):
            stale.append(path.name)
        elif not check:
            path.write_text(wanted)
    if stale:
        print(f"{', '.join(stale)} is stale; run: python scripts/statemachines.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
