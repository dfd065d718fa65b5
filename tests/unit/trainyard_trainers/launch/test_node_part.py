"""The launcher's reading of the job, of Slurm's variables and of how processes end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import types
import uuid
from pathlib import Path

import pytest
from tests.support.waiting import eventually

from trainyard_agent.host import slurm_names
from trainyard_job.common.attempt import Attempt
from trainyard_trainers.common import failure
from trainyard_trainers.launch import allocation, elastic, other_parts
from trainyard_trainers.launch.allocation import Job, Node


@pytest.fixture
def attempt_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "run" / "attempts" / "2"
    directory.mkdir(parents=True)
    (directory.parents[1] / "work").mkdir()
    return directory


def write_job(attempt_dir: Path, **fields: object) -> Job:
    document = {
        # The port of the rendezvous is the run's: no two tests meet there.
        "runId": f"run-{uuid.uuid4().hex}",
        "attempt": 2,
        "program": ["main.py"],
        "recipe": "command",
        **fields,
    }
    (attempt_dir / "job.json").write_text(json.dumps(document))
    return Job.read(attempt_dir)


def run_launch(attempt_dir: Path) -> tuple[int, dict[str, object], str]:
    command = [sys.executable, "-m", "trainyard_trainers.launch", str(attempt_dir)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    return (
        done.returncode,
        json.loads((attempt_dir / "launch-localhost.json").read_text()),
        done.stdout + done.stderr,
    )


@pytest.mark.parametrize(
    ("node_list", "names"),
    [
        ("ip-10-0-0-3", ("ip-10-0-0-3",)),
        ("ip-10-0-0-[3-5,9]", ("ip-10-0-0-3", "ip-10-0-0-4", "ip-10-0-0-5", "ip-10-0-0-9")),
        ("a,b", ("a", "b")),
        ("n[07,09]x,m1", ("n07x", "n09x", "m1")),
        ("b[1,3],a2", ("b1", "b3", "a2")),
        (
            "ip-10-[0-1]-7-[98-100]",
            tuple(f"ip-10-{net}-7-{host}" for net in (0, 1) for host in (98, 99, 100)),
        ),
    ],
)
def test_the_hosts_of_a_node_list_in_slurms_order(node_list: str, names: tuple[str, ...]) -> None:
    assert allocation.expand(node_list) == names
    assert slurm_names.expand(node_list) == names, "the agent reads the same lists"


def test_a_nodes_place_comes_from_slurm() -> None:
    env = {
        "SLURM_PROCID": "1",
        "SLURM_NNODES": "2",
        "SLURM_JOB_NODELIST": "ip-1-[2-3]",
        "SLURMD_NODENAME": "ip-1-3",
        "SLURM_JOB_ID": "9",
    }
    assert Node.from_environment(env) == Node("ip-1-3", 1, ("ip-1-2", "ip-1-3"), "9")


def test_every_attempt_and_job_gets_a_port_of_its_own() -> None:
    ports = {
        allocation.rendezvous_port("run-a", attempt, job)
        for attempt in (1, 2, 3)
        for job in ("7", "8")
    }
    assert len(ports) == 6
    assert all(10000 <= port < 20000 for port in ports)


def test_the_users_variables_never_hide_ours(attempt_dir: Path) -> None:
    job = write_job(
        attempt_dir,
        environment={"COLOUR": "a b;$(x)", "TRAINYARD_ATTEMPT": "99"},
        checkpointEverySeconds=1.5,
        checkpointKeep=4,
    )
    environment = job.environment()
    assert environment["COLOUR"] == "a b;$(x)"
    attempt = Attempt.from_environment(environment)
    assert (attempt.number, attempt.run_dir, attempt.attempt_dir) == (
        2,
        attempt_dir.parents[1],
        attempt_dir,
    )
    assert (attempt.every_seconds, attempt.every_steps, attempt.keep) == (1.5, None, 4)


def test_without_a_rule_a_checkpoint_is_due_each_minute() -> None:
    assert Attempt.from_environment({}).every_seconds == 60
    assert Attempt.from_environment({"TRAINYARD_CHECKPOINT_EVERY_STEPS": "5"}).every_seconds is None
    with pytest.raises(
        ValueError, match="TRAINYARD_CHECKPOINT_EVERY_STEPS: 'x' is not a whole number"
    ):
        Attempt.from_environment({"TRAINYARD_CHECKPOINT_EVERY_STEPS": "x"})


@pytest.mark.real
def test_a_plain_program_gets_its_arguments_as_data_and_its_own_files(attempt_dir: Path) -> None:
    (attempt_dir.parents[1] / "work" / "part.py").write_text("NAME = 'part'")
    (attempt_dir.parents[1] / "work" / "main.py").write_text(
        "import sys, part\nprint(part.NAME, sys.argv[1:])\nassert 'torch' not in sys.modules"
    )
    write_job(attempt_dir, arguments=["$(touch /tmp/x)", "; rm -rf", "a 'b\""])
    code, report, text = run_launch(attempt_dir)
    assert (code, report["exitCode"], report["kind"]) == (0, 0, None)
    assert "part ['$(touch /tmp/x)', '; rm -rf', 'a \\'b\"']" in text


@pytest.mark.real
def test_a_python_error_is_recorded_in_one_line_with_its_traceback(attempt_dir: Path) -> None:
    (attempt_dir.parents[1] / "work" / "main.py").write_text(
        "raise ValueError('bad batch\\nof many lines')"
    )
    write_job(attempt_dir)
    code, report, text = run_launch(attempt_dir)
    assert (code, report["kind"], report["error"]) == (1, "python-error", "ValueError: bad batch")
    assert "main.py" in str(report["traceback"])
    assert "ValueError: bad batch" in text


@pytest.mark.real
@pytest.mark.parametrize(
    ("program", "code", "kind", "number"),
    [
        ("import sys; sys.exit(3)", 3, "exit", None),
        ("import sys; sys.exit()", 0, None, None),
        ("import os; os.kill(os.getpid(), 9)", 137, "signal", 9),
        ("import os; os.kill(os.getpid(), 15)", 143, "stopped", None),
        ("import sys; sys.exit(79)", 79, "fenced", None),
        ("import trainyard_job; raise trainyard_job.Fenced('2')", 79, "fenced", None),
        ("import trainyard_job as j; raise j.CheckpointFailed('full')", 74, "checkpoint", None),
    ],
)
def test_how_a_program_ends_is_told_apart(
    attempt_dir: Path, program: str, code: int, kind: str | None, number: int | None
) -> None:
    (attempt_dir.parents[1] / "work" / "main.py").write_text(program)
    write_job(attempt_dir)
    ended, report, _ = run_launch(attempt_dir)
    assert (ended, report["kind"], report["signal"]) == (code, kind, number)


def appears(path: Path) -> None:
    eventually(f"{path} appears", path.exists, 30, poll=0.01)


STUBBORN = """
import pathlib, signal, time
signal.signal(signal.SIGTERM, lambda *_: pathlib.Path("told").touch())
pathlib.Path("ready").touch()
while not pathlib.Path("done").exists():
    time.sleep(0.02)
"""


@pytest.mark.real
@pytest.mark.parametrize("another_failed", [True, False])
def test_a_part_that_does_not_hear_sigterm_is_ended_only_if_another_part_has_failed(
    attempt_dir: Path, another_failed: bool
) -> None:
    (attempt_dir.parents[1] / "work" / "main.py").write_text(STUBBORN)
    write_job(attempt_dir)
    files = attempt_dir.parents[1] / "work"
    launcher = subprocess.Popen(
        [sys.executable, "-m", "trainyard_trainers.launch", str(attempt_dir)]
    )
    appears(files / "ready")
    other_parts.tell(
        attempt_dir, failure.Failure(137, 9) if another_failed else failure.Failure(143)
    )
    launcher.send_signal(signal.SIGTERM)
    appears(files / "told")
    if not another_failed:
        assert not (attempt_dir / "part-failed").exists(), "one that was stopped has not failed"
        (files / "done").touch()
    code = launcher.wait(120)
    report = json.loads((attempt_dir / "launch-localhost.json").read_text())
    assert (code, report["kind"]) == ((137, "peer") if another_failed else (0, None))


@pytest.mark.real
def test_processes_that_detach_themselves_end_with_the_job(attempt_dir: Path) -> None:
    """One keeps stdout open, one cleared its environment. Neither delays the end or is left."""
    (attempt_dir.parents[1] / "work" / "main.py").write_text(
        "import os\n"
        "reader, writer = os.pipe()\n"
        "for environment in (dict(os.environ), {}):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0:\n"
        # One write: print makes one of each of its words, and those of two processes mix.
        "            os.write(1, f'detached {os.getpid()}\\n'.encode())\n"
        "            os.write(writer, b'.')\n"
        "            os.execve('/bin/sleep', ['sleep', '300'], environment)\n"
        "        os._exit(0)\n"
        "for _ in range(2):\n"
        "    os.read(reader, 1)\n"
    )
    write_job(attempt_dir)
    code, report, text = run_launch(attempt_dir)
    pids = [int(line.split()[1]) for line in text.splitlines() if line.startswith("detached")]
    assert (code, report["kind"], len(pids)) == (0, None, 2)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert "2 processes of the job outlived it" in text


REFUSED_END = """
import sys
from trainyard_trainers.launch import node_part as launch
write = launch.write_json
def refuse_the_end(path, document):
    if "ended" in document:
        raise OSError(28, "No space left on device")
    write(path, document)
launch.write_json = refuse_the_end
sys.exit(launch.main(sys.argv[1:]))
"""


@pytest.mark.real
def test_an_end_that_cannot_be_reported_is_still_told_by_the_exit_code(attempt_dir: Path) -> None:
    write_job(attempt_dir, program=["train.py"])
    (attempt_dir.parents[1] / "work" / "train.py").write_text("raise SystemExit(74)")
    done = subprocess.run(
        [sys.executable, "-c", REFUSED_END, str(attempt_dir)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, "No space left" in done.stderr) == (74, True)
    assert not list(attempt_dir.glob(".*.room")), (
        "the room that was kept for the report is given up"
    )


def test_half_an_error_file_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))

    def write_half(self: Path, text: str, **_: object) -> None:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", write_half)
    failure.record_exception(ValueError("bad batch"))
    assert not path.exists()


@pytest.mark.real
@pytest.mark.parametrize("recipe", ["command", "torchrun"])
def test_a_mistake_in_the_program_is_told_with_its_class_and_where_it_is(
    attempt_dir: Path, recipe: str
) -> None:
    (attempt_dir.parents[1] / "work" / "main.py").write_text(
        "def train():\n    print(steps)\ntrain()\n"
    )
    write_job(attempt_dir, recipe=recipe, processesPerNode=1)
    code, report, text = run_launch(attempt_dir)
    assert (code, report["kind"], report["exception"]) == (1, "python-error", "NameError")
    assert report["lasting"] == "program"
    assert str(report["traceback"]).splitlines()[1].endswith('main.py", line 3, in <module>')
    printed = text[text.index("Traceback") :]
    assert "runpy" not in printed, "the log shows the program's own frames, too"
    assert "trainyard_trainers" not in printed


@pytest.mark.real
@pytest.mark.parametrize(
    ("program", "error", "lasting"),
    [
        (None, "FileNotFoundError: ", "environment"),
        ("import missing_module\n", "ModuleNotFoundError: No module named 'miss", "environment"),
        (
            "import argparse\nargparse.ArgumentParser().parse_args(['--lr'])\n",
            "main.py: error: unrecognized arguments: --lr",
            "program",
        ),
        ("open('/no/such/data')\n", "FileNotFoundError: ", "environment"),
        ("import sys\nsys.exit(2)\n", "", None),
    ],
)
def test_what_is_missing_or_refused_is_told_apart_from_what_may_pass(
    attempt_dir: Path, program: str | None, error: str, lasting: str | None
) -> None:
    if program is not None:
        (attempt_dir.parents[1] / "work" / "main.py").write_text(program)
    write_job(attempt_dir)
    _, report, _ = run_launch(attempt_dir)
    assert str(report["error"] or "").startswith(error)
    assert report["lasting"] == lasting


def worker(directory: Path, rank: int, code: int, at: float, error: str = "") -> object:
    path = directory / f"{rank}.json"
    if error:
        said = {"py_callstack": error, "timestamp": str(int(at)), "trainyard": {"at": at}}
        path.write_text(json.dumps({"message": {"message": error, "extraInfo": said}}))
    return types.SimpleNamespace(exitcode=code, error_file=str(path), pid=rank, timestamp=int(at))


GONE = "RuntimeError: gloo/transport/tcp/pair.cc:553 Connection closed by peer"


@pytest.mark.parametrize(
    ("failures", "first"),
    [
        ([(0, 1, 9.2, GONE), (1, 1, 9.1, "ValueError: a"), (2, 1, 9.0, GONE)], 1),
        ([(0, 1, 9.4, "ValueError: b"), (1, 1, 9.3, "ValueError: a")], 1),
        ([(0, -6, 9.0, ""), (1, 1, 9.8, "ValueError: a")], 1),
        ([(0, -11, 9.0, ""), (1, 1, 11.0, "ValueError: a")], 0),
        ([(0, -15, 9.0, ""), (1, -9, 9.0, "")], 1),
        ([(0, 1, 9.0, GONE), (1, 1, 8.0, GONE)], 1),
    ],
)
def test_of_torchruns_workers_the_one_that_failed_first_is_blamed_and_no_peer_of_it(
    tmp_path: Path, failures: list[tuple[int, int, float, str]], first: int
) -> None:
    workers = {rank: worker(tmp_path, rank, *rest) for rank, *rest in failures}
    assert elastic.first_failure(workers).rank == first


def test_a_part_that_misses_something_waits_for_what_the_others_say(tmp_path: Path) -> None:
    missing = failure.Failure(1, error="ImportError: x", lasting="environment")
    (tmp_path / "launch-b.json").write_text(json.dumps({"node": "b", "ended": 1.0}))
    began = time.monotonic()
    other_parts.let_others_say_the_same(tmp_path, missing, {"b"})
    other_parts.let_others_say_the_same(tmp_path, failure.Failure(1), {"c"})
    assert time.monotonic() - began < other_parts.SAME_SECONDS


@pytest.mark.real
@pytest.mark.parametrize("recipe", ["command", "torchrun"])
def test_an_error_of_any_length_and_script_is_told(attempt_dir: Path, recipe: str) -> None:
    (attempt_dir.parents[1] / "work" / "main.py").write_text(
        "raise ValueError('\U0001f600' * 20_000)\n"
    )
    write_job(attempt_dir, recipe=recipe, processesPerNode=1)
    code, report, _ = run_launch(attempt_dir)
    assert (code, report["kind"]) == (1, "python-error")
    assert str(report["error"]).startswith("ValueError: \U0001f600")
    assert str(report["traceback"]).strip().endswith("\U0001f600")


def test_a_rank_that_lost_its_peer_is_a_consequence_and_no_cause(tmp_path: Path) -> None:
    error_file = tmp_path / "error.json"
    message = (
        "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:12513"
    )
    error_file.write_text(
        json.dumps({"message": {"message": message, "extraInfo": {"py_callstack": "..."}}})
    )
    assert failure.of_worker(1, 0, error_file).kind == "peer"
    assert failure.of_worker(-signal.SIGKILL, 0, error_file).kind == "signal"
    assert failure.of_worker(-signal.SIGTERM, 0, None).kind == "stopped"
    assert failure.of_worker(1, 0, tmp_path / "none").kind == "exit"


CRASH_AT_EXIT = (
    "import os, signal\n"
    "class Library:\n"
    "    'Aborts while the interpreter ends, as a C++ thread does that nobody joined.'\n"
    "    def __del__(self, kill=os.kill, getpid=os.getpid, number=signal.SIGABRT):\n"
    "        kill(getpid(), number)\n"
    "held = [Library()]\n"
    "held.append(held)\n"
    "import sys\n"
    "sys.kept = held\n"
)


@pytest.mark.real
@pytest.mark.parametrize("recipe", ["command", "torchrun"])
def test_a_crash_of_the_interpreter_after_the_program_ended_well_is_no_failure(
    attempt_dir: Path, recipe: str
) -> None:
    (attempt_dir.parents[1] / "work" / "main.py").write_text(CRASH_AT_EXIT)
    write_job(attempt_dir, recipe=recipe)
    code, report, text = run_launch(attempt_dir)
    assert (code, report["kind"], report["signal"]) == (0, None, None), text
    assert "was killed by SIGABRT after its program had ended well" in text
    assert "was killed by SIGABRT after its program had ended well" in str(report["remark"])
    assert "Fatal Python error: Aborted" in text, "its stacks are in the log"


@pytest.mark.real
@pytest.mark.parametrize("recipe", ["command", "torchrun"])
@pytest.mark.parametrize(("end", "exits"), [("os.abort()", 0), ("os.kill(os.getpid(), 9)", 137)])
def test_a_crash_in_an_exit_handler_is_no_failure_and_a_kill_there_is_one(
    attempt_dir: Path, recipe: str, end: str, exits: int
) -> None:
    (attempt_dir.parents[1] / "work" / "main.py").write_text(
        f"import atexit, os\natexit.register(lambda: {end})\n"
    )
    write_job(attempt_dir, recipe=recipe)
    code, _, text = run_launch(attempt_dir)
    assert code == exits, text
    assert ("after its program had ended well" in text) == (exits == 0)


@pytest.mark.real
def test_no_core_is_made_unless_the_program_asks_for_one(attempt_dir: Path) -> None:
    (attempt_dir.parents[1] / "work" / "main.py").write_text(
        "import resource\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_CORE)\n"
        "assert soft == 0, soft\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))\n"
    )
    write_job(attempt_dir)
    code, _, text = run_launch(attempt_dir)
    assert code == 0, text


@pytest.mark.real
@pytest.mark.parametrize("recipe", ["command", "torchrun"])
@pytest.mark.parametrize(
    ("end", "exits", "kind"), [("os.abort()", 134, "signal"), ("sys.exit(3)", 3, "exit")]
)
def test_a_crash_or_failure_of_the_program_itself_stays_one(
    attempt_dir: Path, recipe: str, end: str, exits: int, kind: str
) -> None:
    (attempt_dir.parents[1] / "work" / "main.py").write_text(f"{CRASH_AT_EXIT}{end}\n")
    write_job(attempt_dir, recipe=recipe)
    code, report, text = run_launch(attempt_dir)
    assert (code, report["kind"]) == (exits, kind), text


@pytest.mark.real
@pytest.mark.parametrize("recipe", ["command", "torchrun"])
def test_a_rank_that_was_asked_to_stop_and_crashes_at_its_end_was_stopped(
    attempt_dir: Path, recipe: str
) -> None:
    (attempt_dir.parents[1] / "work" / "main.py").write_text(f"{CRASH_AT_EXIT}sys.exit(143)\n")
    write_job(attempt_dir, recipe=recipe)
    code, report, text = run_launch(attempt_dir)
    assert (code, report["kind"]) == (143, "stopped"), text
    assert "Fatal Python error: Aborted" in text, "its stacks are in the log"


@pytest.mark.real
@pytest.mark.parametrize("recipe", ["command", "torchrun"])
@pytest.mark.parametrize(
    ("end", "code", "kind"),
    [("sys.exit(3)", 3, "exit"), ("sys.exit(143)", 143, "stopped"), ("", 142, "signal")],
)
def test_a_program_that_cannot_leave_its_group_ends_as_it_said(
    attempt_dir: Path, recipe: str, end: str, code: int, kind: str
) -> None:
    alarm = "os.kill(os.getpid(), signal.SIGALRM)"
    late = f"atexit.register(lambda: {alarm})" if end else alarm
    (attempt_dir.parents[1] / "work" / "main.py").write_text(
        f"import atexit, os, signal, sys\n{late}\n{end}\n"
    )
    write_job(attempt_dir, recipe=recipe)
    exits, report, text = run_launch(attempt_dir)
    assert (exits, report["kind"]) == (code, kind), text


@pytest.mark.real
def test_a_crash_leaves_its_stacks_in_the_log_wherever_it_happens(attempt_dir: Path) -> None:
    (attempt_dir.parents[1] / "work" / "main.py").write_text(
        "import subprocess, sys\nsubprocess.run([sys.executable, 'crashes.py'])\n"
    )
    (attempt_dir.parents[1] / "work" / "crashes.py").write_text(
        "import ctypes\nctypes.string_at(0)\n"
    )
    write_job(attempt_dir)
    _, _, text = run_launch(attempt_dir)
    assert "Fatal Python error: Segmentation fault" in text
    assert 'crashes.py", line 2' in text


@pytest.mark.real
@pytest.mark.parametrize("recipe", ["command", "torchrun"])
def test_an_exception_is_the_cause_though_the_interpreter_crashes_on_its_way_out(
    attempt_dir: Path, recipe: str
) -> None:
    program = f"{CRASH_AT_EXIT}raise ValueError('bad batch')\n"
    (attempt_dir.parents[1] / "work" / "main.py").write_text(program)
    write_job(attempt_dir, recipe=recipe)
    code, report, _ = run_launch(attempt_dir)
    assert (code, report["kind"], report["signal"]) == (1, "python-error", None)
    assert report["error"] == "ValueError: bad batch"


@pytest.mark.real
def test_what_a_programs_threads_still_do_counts(attempt_dir: Path) -> None:
    (attempt_dir.parents[1] / "work" / "main.py").write_text(
        "import os, threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), os.abort())).start()\n"
    )
    write_job(attempt_dir)
    code, report, _ = run_launch(attempt_dir)
    assert (code, report["kind"], report["signal"]) == (134, "signal", 6)


@pytest.mark.real
@pytest.mark.parametrize("recipe", ["command", "torchrun"])
def test_a_program_that_leaves_its_process_group_to_the_interpreter_ends_well(
    attempt_dir: Path, recipe: str
) -> None:
    place = (
        "os.environ.update(RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='0')\n"
        if recipe == "command"
        else ""
    )
    (attempt_dir.parents[1] / "work" / "main.py").write_text(
        "import atexit, os, torch, torch.distributed as dist\n"
        f"{place}dist.init_process_group('gloo')\n"
        "dist.all_reduce(torch.ones(1))\n"
        "atexit.register(lambda: print('group at exit:', dist.is_initialized(), flush=True))\n"
    )
    write_job(attempt_dir, recipe=recipe)
    code, report, text = run_launch(attempt_dir)
    assert (code, report["kind"]) == (0, None), text
    assert "group at exit: True" in text, "what the program does at its exit may use the group"
