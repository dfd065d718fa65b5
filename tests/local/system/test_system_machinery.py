"""Trouble in Lambda workers, state machines, agents or events hardly disturbs training."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.system import (
    Invocations,
    Json,
    System,
    eventually,
    light_job,
    signal_all,
    total,
    ulid,
)


@contextmanager
def killing_workers(system: System, function: str, at_most: int) -> Iterator[None]:
    """Kill the runtime process of every other invocation of a function at some moment of it."""
    stop = threading.Event()

    def work() -> None:
        for _ in range(at_most):
            before = killed_in_the_middle(system, function, stop)
            while system.invocations(function).started <= before.started + 1 and not stop.wait(
                0.03
            ):
                pass
            await_idle(
                system, function, stop
            )  # the repetition is left alone, or no invocation would ever end
            if stop.is_set():
                return

    with beside(work):
        try:
            yield
        finally:
            stop.set()


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Do something in a thread beside the test, and wait for its end."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def killed_in_the_middle(system: System, function: str, stop: threading.Event) -> Invocations:
    """Kill the function's runtime processes in the middle of their next invocation."""
    while not stop.is_set():
        before = system.invocations(function)
        signal_all(before.workers, signal.SIGSTOP)
        # Every other blow is in time, however fast the machine.
        # A process that was stopped in the middle of an invocation gets no other one.
        into = random.choice((0.0, random.uniform(0.0, 0.02)))
        if strike(system, function, before, into, wait=0.5) and before.workers:
            return before
        stop.wait(0.05)
    return system.invocations(function)


def strike(system: System, function: str, before: Invocations, into: float, *, wait: float) -> bool:
    """Kill stopped runtime processes `into` seconds of the invocation that they are given.

    False if none comes within `wait` seconds.
    """
    deadline = time.monotonic() + wait
    while (
        not (taken := system.invocations(function).started > before.started)
        and time.monotonic() < deadline
    ):
        time.sleep(0.01)
    signal_all(before.workers, signal.SIGCONT)
    if taken:
        time.sleep(into)
        signal_all(before.workers, signal.SIGKILL)
    return taken


def await_idle(system: System, function: str, stop: threading.Event) -> None:
    """Until the function's runtime processes use no processor time."""
    pids = system.invocations(function).workers
    used: list[int] = []
    while (now := [ticks(pid) for pid in pids]) != used and not stop.wait(0.2):
        used = now


def ticks(pid: int) -> int:
    """Processor time a process has used, in hundredths of a second; -1 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("function", ["steps", "on-fact"])
def test_lambda_workers_killed_in_the_middle_of_their_work_change_nothing(
    system: System, shared: str, function: str
) -> None:
    failed, runs = system.invocations(function).failed, 0
    with killing_workers(system, function, at_most=8):
        # An invocation takes a few hundredths of a second: not every blow is in time to hurt.
        while system.invocations(function).failed - failed < 3 and runs < 4:
            run_id = system.submit("killed", light_job(2, steps=40, every=10), shared)
            run = system.ended(run_id, "Succeeded", 150)
            runs += 1
            assert [attempt["number"] for attempt in run["attempts"]] == [1], system.story(run_id)
            assert run["export"]["state"] == "verified"
            assert system.value(run_id) == total(40)
            entries = [entry["id"] for entry in system.timeline(run_id)]
            assert len(entries) == len(set(entries))
            assert not system.timeline(run_id, "Trouble"), system.story(run_id)
    assert system.invocations(function).failed - failed >= 2


def test_a_submission_whose_lambda_worker_dies_is_repeated_and_makes_one_run(
    system: System, shared: str
) -> None:
    failed, runs, name = system.invocations("api").failed, [], f"killed-submit-{ulid().lower()}"
    for into in (0.0, 0.006, 0.012):  # the later ones may come when the work is done
        system.api.clusters()  # so that a process waits for the submission, not it for a process
        before = system.invocations("api")
        assert before.workers
        signal_all(before.workers, signal.SIGSTOP)
        with beside(lambda before=before, into=into: strike(system, "api", before, into, wait=10)):
            runs.append(system.submit(name, light_job(1, steps=1, every=1), shared))
    assert system.invocations("api").failed > failed
    for run_id in runs:
        system.ended(run_id, "Succeeded")
    found = [run["id"] for run in system.api.runs() if run["name"] == name]
    assert sorted(found) == sorted(runs)


def test_sessions_that_are_cut_off_repeat_nothing_and_the_timeline_says_what_held_the_run_up(
    system: System, shared: str
) -> None:
    for when, how in (("before-exit-code", "drop"), ("in-output", "close")):
        system.fault("cut-session", shared, when=when, how=how)
    run_id = system.submit("cut-off", light_job(1, steps=20, every=10, hold_at=15), shared)
    system.training(run_id)
    system.fault("cut-session", shared, when="before-output", how="drop")
    system.release(run_id)
    run = system.ended(run_id, "Succeeded")
    submit, export = system.timeline(run_id, "Delayed")
    assert (
        "The submission of attempt 1 has no answer yet: the session's data channel broke off"
        in submit["message"]
    )
    assert (
        "The request for the export has no answer yet: the session's data channel broke off"
        in export["message"]
    )
    assert [attempt["number"] for attempt in run["attempts"]] == [1]
    assert (
        len(
            {
                entry["data"]["jobId"]
                for entry in system.timeline(run_id, "AttemptStarted", "AttemptSubmitted")
            }
        )
        == 1
    )
    assert run["export"]["tries"] == 1
    assert system.value(run_id) == total(20)


@contextmanager
def storm(system: System, run_id: str) -> Iterator[list[Json]]:
    """Run each step of the run several times at once, again and again; what they answer."""
    stop, answers = threading.Event(), list[Json]()

    def blow() -> None:
        with ThreadPoolExecutor(4) as pool:
            while not stop.is_set():
                actions = system.actions(run_id)
                calls: list[Json] = [
                    {"step": step} for step in ("decide", "decide", "submit", "submit")
                ]
                calls += [
                    {"step": "repair", "action": action} for action in actions for _ in range(2)
                ]
                calls = [{**call, "runId": run_id, "generation": 1} for call in calls]
                answers.extend(pool.map(lambda call: system.invoke("steps", call), calls))

    with beside(blow):
        try:
            yield answers
        finally:
            stop.set()


def test_steps_that_run_several_times_at_once_make_one_job_for_each_attempt_and_tell_one_story(
    system: System, shared: str
) -> None:
    run_id = system.submit("at-once", light_job(2, steps=60, every=10, hold_at=25), shared)
    with storm(system, run_id) as answers:
        lost = system.training(run_id, checkpoints=2)["attempts"][0]["nodes"][1]
        system.fault("kill-node", shared, node=lost)
        system.until(
            run_id,
            "the second attempt trains",
            lambda run: len(run["attempts"]) == 2 and run["attempts"][1]["firstStepAt"],
        )
    run = system.ended(run_id, "Succeeded")
    failures = {answer["errorType"] for answer in answers if "errorType" in answer}
    assert failures <= {"ConflictError", "RetryableError"}
    assert [attempt["number"] for attempt in run["attempts"]] == [1, 2], system.story(run_id)
    for attempt in run["attempts"]:
        told = [
            entry
            for entry in system.timeline(run_id, "AttemptStarted", "AttemptSubmitted")
            if entry["attempt"] == attempt["number"]
        ]
        assert {entry["data"]["jobId"] for entry in told} == {attempt["jobId"]}
        assert len(told) == 2, system.story(run_id)
    assert (
        len(system.timeline(run_id, "Submitting")) == len(system.timeline(run_id, "Resuming")) == 1
    ), system.story(run_id)
    assert not system.timeline(run_id, "Trouble"), system.story(run_id)
    assert system.value(run_id) == total(60)


def test_a_stopped_state_machine_is_started_again_and_goes_on_where_the_run_stands(
    system: System, shared: str
) -> None:
    run_id = system.submit("restarted", light_job(1, steps=40, every=10, hold_at=15), shared)
    before = system.training(run_id, checkpoints=1)
    [arn] = system.running("run", run_id)
    system.aws("stepfunctions").stop_execution(
        executionArn=arn, error="Test", cause="a person stopped it"
    )
    eventually("no machine of the run runs", lambda: not system.running("run", run_id), 10)

    def restarted() -> bool:
        system.sweep()
        return bool(system.running("run", run_id))

    eventually("the sweep starts the next generation", restarted, 60)
    system.until(run_id, "generation 2 owns the run", lambda run: run["generation"] == 2)
    [entry] = system.timeline(run_id, "MachineRestarted")
    assert "generation 2" in entry["message"]
    system.release(run_id)
    run = system.ended(run_id, "Succeeded")
    assert [attempt["jobId"] for attempt in run["attempts"]] == [before["attempts"][0]["jobId"]]
    assert system.value(run_id) == total(40)


def test_a_controllers_agent_killed_in_training_starts_again_and_loses_no_event(
    system: System, shared: str
) -> None:
    run_id = system.submit(
        "agent-killed", light_job(2, steps=80, every=10, step_seconds=0.05, hold_at=15), shared
    )
    system.training(run_id, checkpoints=1)
    agent = system.daemon(system.controller(shared)["instanceId"])
    system.release(run_id)
    signal_all([agent.pid], signal.SIGKILL)
    run = system.ended(run_id, "Succeeded")
    assert system.daemon(system.controller(shared)["instanceId"]).pid != agent.pid
    assert len(run["attempts"]) == 1, system.story(run_id)
    shown = {
        80: "whole",
        70: "whole",
        60: "whole",
        50: "pruned",
        40: "pruned",
        30: "pruned",
        20: "pruned",
        10: "pruned",
    }
    eventually(
        "each checkpoint is listed, and those beyond `keep` as pruned",
        lambda: (
            {found["step"]: found["status"] for found in system.api.checkpoints(run_id)} == shown
        ),
        15,
    )
    assert not system.timeline(run_id, "NodeLost", "AgentSilent"), system.story(run_id)
    assert system.value(run_id) == total(80)


def test_a_silent_worker_agent_is_told_of_and_the_job_is_left_alone(
    system: System, shared: str
) -> None:
    run_id = system.submit("agent-silent", light_job(2, steps=40, every=10, hold_at=15), shared)
    node = system.node(shared, system.training(run_id)["attempts"][0]["nodes"][1])
    system.fault("stop-agent", shared, node=node["instanceId"])
    system.until(
        run_id, "AgentSilent is in the timeline", lambda _: system.timeline(run_id, "AgentSilent")
    )
    system.fault("start-agent", shared, node=node["instanceId"])
    system.until(
        run_id, "AgentBack is in the timeline", lambda _: system.timeline(run_id, "AgentBack")
    )
    system.release(run_id)
    run = system.ended(run_id, "Succeeded")
    assert "nothing is done to the job" in system.timeline(run_id, "AgentSilent")[0]["message"]
    assert len(run["attempts"]) == 1
    assert run["incidents"] == []


def forged(step: Json, cluster: Json) -> list[tuple[str, Json]]:
    """Foreign and malformed events of the agents' bus, made from a step that was told."""
    an_end = {**step, "outcome": "failed", "jobId": "1", "exitCode": 1}
    return [
        ("AttemptEnded", {**an_end, "id": ulid(), "clusterArn": cluster["arn"][:-1] + "~"}),
        ("AttemptEnded", {**an_end, "id": ulid(), "clusterName": "another-cluster"}),
        ("AttemptEnded", {**an_end, "id": ulid(), "runId": "run-00000000000000000000000000"}),
        # what the control plane alone may say
        ("CancelRequested", {**step, "id": ulid(), "life": 1}),
        ("AttemptEnded", {"id": ulid()}),
        ("AttemptEnded", {**an_end, "id": "'; DROP TABLE runs; --"}),
        ("AttemptEnded", {**an_end, "id": ulid(), "attempt": "one"}),
        ("NodeLost", {**step, "id": ulid(), "lost": "everything"}),
        ("NoSuchEvent", {}),
        ("ExportFinished", {**step, "id": ulid(), "exportId": "another-export", "ok": True}),
    ]


def of_other_sources(step: Json, shared: str) -> list[tuple[str, str, Json]]:
    """Events that say they are of others, or of AWS, with nothing that could be believed."""
    hyperpod = "SageMaker HyperPod Cluster"
    failed = {"ClusterName": shared, "ClusterStatus": "Failed"}
    an_end = {**step, "outcome": "failed", "jobId": "1", "exitCode": 1}
    return [
        ("someone.else", "AttemptEnded", an_end),
        ("aws.sagemaker", f"{hyperpod} State Change", failed),
        ("aws.sagemaker", f"{hyperpod} State Change", {"ClusterArn": "arn:x", **failed}),
        ("aws.sagemaker", f"{hyperpod} Event", {"EventDetails": None}),
        ("aws.sagemaker", f"{hyperpod} Node Health Event", {"ClusterName": None}),
    ]


def test_duplicate_reordered_foreign_and_malformed_events_change_nothing(
    system: System, shared: str
) -> None:
    # A worker that is killed again and again leaves its event to the dead letters until the next
    # sweep; that is of other tests.
    dead_before = system.dead_letters("FactsDeadLetters")
    run_id = system.submit("events", light_job(2, steps=70, every=10, hold_at=25), shared)
    run = system.training(run_id, checkpoints=2)
    told = [
        entry
        for entry in system.timeline(run_id)
        if entry["kind"] == "fact" and "clusterArn" in entry["data"]
    ]
    for entry in [*reversed(told), *told]:  # each twice, and the newest first
        system.put_event("trainyard.agent", entry["type"], entry["data"], ours=True)
    a_step = next(entry["data"] for entry in told if entry["type"] == "AttemptStepped")
    for kind, detail in forged(a_step, system.api.cluster(shared)):
        system.put_event("trainyard.agent", kind, detail, ours=True)
    for source, kind, detail in of_other_sources(a_step, shared):
        system.put_event(source, kind, detail, ours=False)
        system.put_event(source, kind, detail, ours=True)
    system.release(run_id)
    ended = system.ended(run_id, "Succeeded")
    assert [attempt["jobId"] for attempt in ended["attempts"]] == [run["attempts"][0]["jobId"]]
    entries = [entry["id"] for entry in system.timeline(run_id)]
    assert len(entries) == len(set(entries)), system.story(run_id)
    steps = sorted(found["step"] for found in system.api.checkpoints(run_id))
    assert steps == [10, 20, 30, 40, 50, 60, 70]
    assert not system.timeline(run_id, "CancelRequested", "NodeLost")
    assert system.api.cluster(shared)["status"] == "Ready"
    assert_dropped_after_the_end(system, run_id, {**a_step, "id": ulid(), "attempt": 1})
    assert system.dead_letters("FactsDeadLetters") <= dead_before


def assert_dropped_after_the_end(system: System, run_id: str, step: Json) -> None:
    system.put_event("trainyard.agent", "AttemptStepped", step, ours=True)
    eventually(
        "the late event is dropped",
        lambda: system.said("on-fact", step["id"], "the run is Succeeded"),
    )
    assert step["id"] not in [entry["id"] for entry in system.timeline(run_id)]


def test_an_event_that_nobody_could_record_is_recorded_by_the_sweep(
    system: System, shared: str
) -> None:
    run_id = system.submit("parked", light_job(1, steps=20, every=10, hold_at=15), shared)
    system.training(run_id)
    step = system.timeline(run_id, "AttemptStepped")[0]["data"]
    event = {**step, "id": ulid()}
    detail = json.loads(system.signed("AttemptStepped", event))
    system.park(
        "FactsDeadLetters",
        json.dumps(
            {"source": "trainyard.agent", "detail-type": "AttemptStepped", "detail": detail}
        ),
    )
    system.sweep()
    eventually(
        "the event is in the timeline",
        lambda: event["id"] in [entry["id"] for entry in system.timeline(run_id)],
    )
    eventually("no letter is left", lambda: system.dead_letters("FactsDeadLetters") == 0)
    system.release(run_id)
    system.ended(run_id, "Succeeded")


def test_what_an_execution_counts_of_its_history_is_no_less_than_what_it_has(
    system: System, shared: str
) -> None:
    run_id = system.submit("history", light_job(2, steps=40, every=10, hold_at=15), shared)
    node = system.training(run_id, checkpoints=1)["attempts"][0]["nodes"][1]
    system.fault("kill-node", shared, node=node)
    system.release(run_id)
    system.ended(run_id, "Succeeded")
    states = system.aws("stepfunctions")
    machine = system.local["outputs"]["RunMachineArn"]
    (arn,) = [
        found["executionArn"]
        for found in states.list_executions(stateMachineArn=machine)["executions"]
        if run_id in found["name"]
    ]
    pages = states.get_paginator("get_execution_history").paginate(executionArn=arn)
    events = [event for page in pages for event in page["events"]]
    counted = [
        json.loads(event["stateExitedEventDetails"]["output"])["decision"]["spent"]
        for event in events
        if event["type"] == "TaskStateExited"
        and event["stateExitedEventDetails"]["name"] == "Decide"
    ]
    assert len(counted) > 5
    repeated = [
        event
        for event in events
        if event["type"] in ("TaskFailed", "TaskTimedOut", "LambdaFunctionFailed")
    ]
    assert len(events) <= counted[-1] + 3 * len(repeated), (
        "there are 10,000 events of room for what is repeated"
    )
