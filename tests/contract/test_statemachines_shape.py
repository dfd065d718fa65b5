"""The rules of every state machine: tasks retry and catch, waits end, states lead somewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from scripts import statemachines
from tests.support.repository import ROOT

MACHINES = {
    path.name.split(".")[0]: json.loads(path.read_text())
    for path in sorted((ROOT / "statemachines").glob("*.asl.json"))
}
RETRIED = {
    "Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException", "Lambda.Unknown", "Sandbox.Timedout", "Runtime.ExitError",
    "RetryableError", "ConflictError",
}  # fmt: skip
STEPS = {
    "run": {
        "plan",
        "ensure-cluster",
        "decide",
        "repair",
        "submit",
        "await-outcome",
        "export",
        "teardown",
        "finish",
        "trouble",
    },
    "cluster": {
        "cluster-create",
        "cluster-await",
        "cluster-decide",
        "cluster-ready",
        "cluster-fail",
    },
    "teardown": {"teardown-check", "teardown-delete", "teardown-await", "teardown-done"},
}
INVOKE = "arn:aws:states:::lambda:invoke"
each_machine = pytest.mark.parametrize("name", sorted(STEPS))


def _states(machine: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every state, those inside Map and Parallel included."""
    for name, state in machine["States"].items():
        yield name, state
        inner = [state.get("ItemProcessor"), state.get("Iterator"), *state.get("Branches", [])]
        for nested in inner:
            if nested:
                yield from _states(nested)


def _tasks(name: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        (state_name, state)
        for state_name, state in _states(MACHINES[name])
        if state["Type"] == "Task"
    ]


def _targets(state: dict[str, Any]) -> set[str]:
    found = {state.get("Next"), state.get("Default")}
    found |= {choice.get("Next") for choice in state.get("Choices", [])} | {
        catch["Next"] for catch in state.get("Catch", [])
    }
    return {target for target in found if target}


def test_there_are_three_machines() -> None:
    assert set(MACHINES) == set(STEPS)


@each_machine
def test_every_task_calls_the_steps_function_with_a_known_step(name: str) -> None:
    for state_name, task in _tasks(name):
        assert task["Resource"] in (INVOKE, f"{INVOKE}.waitForTaskToken"), state_name
        assert task["Parameters"]["FunctionName"] == "${StepsFunctionArn}", state_name
        assert task["Parameters"]["Payload"]["step"] in STEPS[name], state_name


@each_machine
def test_the_page_of_the_reference_names_every_step_of_its_machine(name: str) -> None:
    page = (ROOT / "docs/reference/state-machines.md").read_text()
    [row] = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
    told = row.rpartition("| `")[2].partition("`")[0].split()
    called = [task["Parameters"]["Payload"]["step"] for _, task in _tasks(name)]
    assert sorted(told) == sorted(set(called))


@each_machine
def test_every_task_retries_what_may_pass_and_backs_off(name: str) -> None:
    for state_name, task in _tasks(name):
        assert {error for retry in task["Retry"] for error in retry["ErrorEquals"]} >= RETRIED, (
            state_name
        )
        assert all(
            retry["MaxAttempts"] > 0 and retry["BackoffRate"] > 1 for retry in task["Retry"]
        ), state_name


@pytest.mark.parametrize(
    ("name", "state_name"),
    [("run", "Plan"), ("run", "Decide"), ("run", "EnsureCluster"), ("run", "AwaitOutcome"),
     ("run", "Teardown"),
     ("cluster", "Decide"), ("cluster", "Await"), ("cluster", "Ready"), ("teardown", "Delete")],
)  # fmt: skip
def test_ten_minutes_without_dynamodb_end_neither_a_healthy_run_nor_a_cluster_that_is_made(
    name: str, state_name: str
) -> None:
    (retry,) = MACHINES[name]["States"][state_name]["Retry"]
    pauses = (
        min(retry["IntervalSeconds"] * retry["BackoffRate"] ** n, retry["MaxDelaySeconds"])
        for n in range(retry["MaxAttempts"])
    )
    assert sum(pauses) / 2 >= 600  # full jitter halves a pause on average


@each_machine
def test_every_task_catches_everything_at_last(name: str) -> None:
    for state_name, task in _tasks(name):
        assert "States.ALL" in task["Catch"][-1]["ErrorEquals"], state_name


@each_machine
def test_an_input_or_result_that_is_too_large_is_caught_by_its_name(name: str) -> None:
    """AWS's guide: States.ALL catches neither States.DataLimitExceeded nor States.Runtime."""
    for state_name, task in _tasks(name):
        by_name, last = task["Catch"][-2:]
        assert by_name["ErrorEquals"] == ["States.DataLimitExceeded"], state_name
        assert {**by_name, "ErrorEquals": ["States.ALL"]} == last, state_name


@each_machine
def test_every_wait_hands_out_its_token_and_ends_by_itself(name: str) -> None:
    for state_name, task in _tasks(name):
        waits = task["Resource"].endswith(".waitForTaskToken")
        assert (task["Parameters"]["Payload"].get("token.$") == "$$.Task.Token") == waits, (
            state_name
        )
        if waits:
            assert task.get("TimeoutSeconds", 0) > 0 or task.get("TimeoutSecondsPath"), state_name
            assert any(
                "States.Timeout" in catch["ErrorEquals"] or "States.ALL" in catch["ErrorEquals"]
                for catch in task["Catch"]
            )


@each_machine
def test_every_state_can_be_reached_and_leads_somewhere(name: str) -> None:
    machine = MACHINES[name]
    seen, todo = set(), [machine["StartAt"]]
    while todo:
        state_name = todo.pop()
        if state_name in seen:
            continue
        seen.add(state_name)
        state = machine["States"][state_name]
        targets = _targets(state)
        assert targets or state.get("End") or state["Type"] in ("Succeed", "Fail"), (
            f"{state_name} leads nowhere"
        )
        todo += targets
    assert seen == set(machine["States"])


@each_machine
def test_machines_are_jsonpath_and_keep_their_payloads_small(name: str) -> None:
    text = json.dumps(MACHINES[name])
    assert MACHINES[name].get("QueryLanguage", "JSONPath") == "JSONPath"
    assert "JSONata" not in text
    assert "{%" not in text


@each_machine
def test_results_never_pile_up_in_the_machines_state(name: str) -> None:
    """The store is the truth: a result is either dropped or a small selection of it."""
    for state_name, state in MACHINES[name]["States"].items():
        if state["Type"] in ("Task", "Map", "Parallel"):
            assert state.get("ResultPath", "$") is None or "ResultSelector" in state, state_name


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"Step": "plan", "Next": "Done"}, "a step needs Tries"),
        ({"Type": "Pass", "Waits": "Done"}, "Waits belongs to a state with Step"),
        ({"Type": "Pass", "Trouble": "Done"}, "OneFailed: there is such a state already"),
    ],
)
def test_a_page_that_means_nothing_is_refused(state: dict[str, Any], words: str) -> None:
    states = {"OneFailed": {"Type": "Succeed"}, "One": state, "Done": {"Type": "Succeed"}}
    page = {"Comment": "", "StartAt": "One", "Payload": {}, "States": states}
    with pytest.raises(statemachines.BadPage, match=words):
        statemachines.machine(page)
