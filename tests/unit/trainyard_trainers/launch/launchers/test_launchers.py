"""What each recipe starts on a node, as golden files; what it refuses; and whose failure came first among ranks that tell it themselves."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from tests.support.repository import ROOT

from trainyard_contracts.recipe_names import RecipeName
from trainyard_trainers.common.failure import Failure
from trainyard_trainers.launch import launchers, ranks
from trainyard_trainers.launch.allocation import Allocation, Job, Node
from trainyard_trainers.launch.elastic import Placement
from trainyard_trainers.launch.launchers import CannotLaunch, accelerate, deepspeed, mpirun, neuron

GOLDEN = ROOT / "tests/data/launchers"
EVIL = "; rm -rf / #$(reboot)`id` 'a' \"b\"\n#SBATCH --uid=0"
NODES = ("ip-10-0-0-3", "ip-10-0-0-4")
#: The golden files are written anew with this in the environment; look at the difference.
WRITE = "TRAINYARD_WRITE_GOLDEN"


def allocation(
    directory: Path,
    *,
    rank: int = 0,
    local: bool = False,
    nodes: Sequence[str] = NODES,
    **fields: Any,
) -> Allocation:
    """A node's view of attempt 3 of a run on two nodes with two processes each."""
    attempt_dir = directory / "trainyard/runs/run-x/attempts/3"
    attempt_dir.mkdir(parents=True, exist_ok=True)
    document = {
        "runId": "run-x", "attempt": 3, "program": ["train.py"], "arguments": ["--text", EVIL], "processesPerNode": 2,
        "recipe": "torchrun", **fields,
    }  # fmt: skip
    hosts = {name: f"{'127' if local else '10'}.0.0.{name[-1]}" for name in nodes}
    return Allocation(
        Job(attempt_dir, document), Node(nodes[rank], rank, tuple(nodes), "17"), hosts
    )


def started(recipe: str, given: Allocation) -> dict[str, object]:
    """What the recipe would start, and with what."""
    if recipe == "mpirun":
        return {"command": mpirun.command(given), "hostfile": mpirun.hostfile(given)}
    if recipe == "deepspeed":
        return {
            "command": deepspeed.command(given),
            "hostfile": deepspeed.hostfile(given),
            "environment": deepspeed.environment(given),
        }
    placement: dict[str, object] = {
        "torchrun": Placement.of(given).torchrun_arguments(),
        "program": given.job.command(),
    }
    if recipe == "neuron":
        record = given.job.attempt_dir / "precompile.json"
        return {
            **placement,
            "environment": neuron.environment(given),
            "before": neuron.precompile_command(given, record),
        }
    return (
        {**placement, "environment": accelerate.environment(has_accelerator=False)}
        if recipe == "accelerate"
        else placement
    )


@pytest.mark.parametrize("recipe", ["torchrun", "accelerate", "deepspeed", "mpirun", "neuron"])
def test_what_a_recipe_starts_on_the_second_node(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/env/bin/python")
    given = allocation(tmp_path, rank=1, recipe=recipe, instanceType="ml.trn1.32xlarge")
    text = json.dumps(started(recipe, given), indent=1).replace(str(tmp_path), "/fsx") + "\n"
    path = GOLDEN / f"{recipe}.json"
    if os.environ.get(WRITE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"with {WRITE}=1 the golden files are written anew"


@pytest.mark.parametrize("recipe", ["torchrun", "accelerate", "deepspeed", "mpirun", "neuron"])
def test_a_users_strings_are_arguments_of_their_own(recipe: str, tmp_path: Path) -> None:
    given = allocation(tmp_path, recipe=recipe, instanceType="ml.trn1.32xlarge")
    found = started(recipe, given)
    words = found.get("command") or found["program"]
    assert isinstance(words, list)
    assert words[-2:] == ["--text", EVIL]
    assert not [word for word in words[:-1] if "rm -rf" in word]


def test_every_recipe_of_the_contracts_has_its_file_and_the_other_way_round() -> None:
    assert launchers.known() == sorted(get_args(RecipeName))
    for recipe in launchers.known():
        assert callable(launchers.named(recipe).run)
    with pytest.raises(
        CannotLaunch,
        match="recipe 'horovod' is unknown on this cluster; it has accelerate, command, deepspeed",
    ):
        launchers.named("horovod")


def test_importing_the_launchers_imports_no_torch() -> None:
    program = "import sys; from trainyard_trainers.launch import launchers; [launchers.named(n) for n in launchers.known()]; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout.strip() == "False"


# -- the world that was asked for ----------------------------------------------------------------
WHOLE = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "10.0.0.3",
    "MASTER_PORT": "12000",
    "TRAINYARD_WORLD_SIZE": "4",
}


def test_a_process_that_is_alone_in_its_world_is_told_from_one_of_many() -> None:
    assert ranks.wrong_world(WHOLE) is None
    assert "formed 1 process, but the job asks for 4" in str(
        ranks.wrong_world({**WHOLE, "WORLD_SIZE": "1"})
    )
    assert "did not set RANK, LOCAL_RANK" in str(
        ranks.wrong_world({**WHOLE, "RANK": "", "LOCAL_RANK": ""})
    )


def test_a_rank_of_the_wrong_world_fails_before_its_program_starts(tmp_path: Path) -> None:
    given = allocation(tmp_path)
    program = tmp_path / "program.py"
    program.write_text("print('TRAINED')")
    (given.job.attempt_dir / "ranks").mkdir()
    variables = {
        **WHOLE,
        "WORLD_SIZE": "1",
        "TRAINYARD_ATTEMPT_DIR": str(given.job.attempt_dir),
        "TRAINYARD_NODE_NAME": NODES[0],
    }
    command = [
        sys.executable,
        "-c",
        f"from trainyard_trainers.launch import ranks; ranks.run([{str(program)!r}])",
    ]
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, "TRAINED" in done.stdout) == (1, False)
    end = ranks.outcome(given, 1)
    assert (end.kind, end.rank) == ("python-error", 1)
    assert str(end.error).startswith(
        "WrongWorldSize: the launcher formed 1 process, but the job asks for 4"
    )


def test_accelerate_that_took_no_notice_of_its_peers_fails_and_says_what_would_do() -> None:
    def initialise(self: Any) -> None:
        self.num_processes, self.distributed_type, self.device = 1, "DistributedType.NO", "cpu"

    with pytest.raises(
        accelerate.WrongWorldSize, match=r"formed 1 of 4 processes .*ACCELERATE_USE_CPU"
    ):
        accelerate.checked(initialise, 4)(SimpleNamespace())
    accelerate.checked(initialise, 1)(SimpleNamespace())


def test_a_node_with_an_accelerator_is_not_made_to_train_on_its_cpu() -> None:
    assert accelerate.environment(has_accelerator=False) == {"ACCELERATE_USE_CPU": "true"}
    assert accelerate.environment(has_accelerator=True) == {}


# -- whose failure came first --------------------------------------------------------------------
def report(
    given: Allocation, node: str, rank: int, end: Failure | None = None, ended: float = 0.0
) -> None:
    """What a rank wrote down."""
    directory = given.job.attempt_dir / "ranks"
    directory.mkdir(exist_ok=True)
    about = {"node": node, "rank": rank, "pid": 1, "started": 0.0}
    document = {**about, "ended": ended, **end.as_json()} if end else about
    (directory / f"{node}.{rank}.json").write_text(json.dumps(document))


KILLED = Failure(137, 9, 2)
LOST_ITS_PEER = Failure(1, rank=0, error="RuntimeError: Connection closed by peer [10.0.0.4]:12513")


def test_the_node_of_the_first_cause_reports_it_and_the_others_a_consequence(
    tmp_path: Path,
) -> None:
    here, there = allocation(tmp_path), allocation(tmp_path, rank=1)
    report(here, NODES[0], 0, LOST_ITS_PEER, ended=1.0)
    report(here, NODES[0], 1, Failure(143, rank=1), ended=3.0)
    report(here, NODES[1], 2, KILLED, ended=2.0)
    report(here, NODES[1], 3)
    assert ranks.outcome(there, 137) == KILLED
    assert ranks.outcome(here, 137).kind == "peer"


def test_ranks_that_only_lost_their_peers_are_no_cause(tmp_path: Path) -> None:
    given = allocation(tmp_path)
    report(given, NODES[0], 0, LOST_ITS_PEER, ended=1.0)
    assert ranks.outcome(given, 1).kind == "peer"


def test_a_rank_whose_keeper_was_killed_too_was_killed(tmp_path: Path) -> None:
    given = allocation(tmp_path)
    report(given, NODES[0], 0, Failure(143, rank=0), ended=1.0)
    report(given, NODES[0], 1)
    assert ranks.outcome(given, 137) == Failure(137, 9, 1)


def test_ranks_that_were_asked_to_stop_make_a_stopped_job_whatever_their_launcher_calls_it(
    tmp_path: Path,
) -> None:
    given = allocation(tmp_path)
    for rank in (0, 1):
        report(given, NODES[0], rank, Failure(143, rank=rank), ended=1.0)
    assert ranks.outcome(given, 1).kind == "stopped"


def test_a_launcher_that_started_too_few_and_calls_that_a_success_is_not_believed(
    tmp_path: Path,
) -> None:
    given = allocation(tmp_path)
    report(given, NODES[0], 0, Failure(0), ended=1.0)
    assert "1 of this node's 2 processes were started" in str(ranks.outcome(given, 0).error)
    report(given, NODES[0], 1, Failure(0), ended=1.0)
    assert ranks.outcome(given, 0).kind is None


def test_a_killed_rank_is_known_by_the_code_that_deepspeed_makes_of_it() -> None:
    assert [deepspeed.exit_code(code) for code in (0, 1, 143, 256 - signal.SIGKILL)] == [
        0,
        1,
        143,
        137,
    ]


def test_a_lock_that_a_killed_compiler_left_is_removed_and_anybody_elses_is_not(
    tmp_path: Path,
) -> None:
    given = allocation(tmp_path / "run")
    own = Path(deepspeed.environment(given)["TORCH_EXTENSIONS_DIR"])
    for directory in (own, tmp_path / "shared"):
        (directory / "op").mkdir(parents=True)
        (directory / "op/lock").touch()
        deepspeed.remove_stale_locks(directory, given)
    assert (not (own / "op/lock").exists(), (tmp_path / "shared/op/lock").exists()) == (True, True)


def test_deepspeed_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deepspeed.importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    with pytest.raises(
        CannotLaunch, match=r"no package deepspeed; add it to job\.pythonEnvironment\.requirements"
    ):
        deepspeed.run(allocation(tmp_path))


# -- Open MPI without ssh ------------------------------------------------------------------------
def test_a_daemons_command_is_taken_out_of_the_line_for_ssh_and_no_shell_reads_it() -> None:
    line = [
        "PATH=/opt/mpi/bin:$PATH ; export PATH ;",
        " /opt/mpi/bin/orted",
        "-mca",
        "ess",
        '"env"',
        "-mca",
        "x",
        '"$(reboot) a"',
    ]
    assert mpirun.daemon_command(line) == [
        "/opt/mpi/bin/orted",
        "-mca",
        "ess",
        "env",
        "-mca",
        "x",
        "$(reboot) a",
    ]
    with pytest.raises(CannotLaunch, match="prted"):
        mpirun.daemon_command(["prted", "--prtemca"])


def test_a_daemon_is_handed_to_its_node_by_its_address(tmp_path: Path) -> None:
    given = allocation(tmp_path)
    (given.job.attempt_dir / "hosts").write_text(
        "".join(f"{name} {address}\n" for name, address in given.hosts.items())
    )
    (given.job.attempt_dir / "mpirun").mkdir()
    mpirun.hand_over(given.job.attempt_dir, "10.0.0.4", shlex.split("orted -mca ess env"))
    assert json.loads((given.job.attempt_dir / "mpirun/ip-10-0-0-4.json").read_text()) == {
        "argv": ["orted", "-mca", "ess", "env"]
    }


def test_open_mpi_sees_nothing_of_slurm_and_talks_over_loopback_where_all_nodes_are_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURMD_NODENAME", "ip-127-0-0-3")
    kept = mpirun.environment(tmp_path)
    assert "SLURM_JOB_ID" not in kept
    assert kept["SLURMD_NODENAME"] == "ip-127-0-0-3", "by it the agent finds what a job left behind"
    local, real = (
        mpirun.command(allocation(tmp_path, local=True)),
        mpirun.command(allocation(tmp_path)),
    )
    assert [word for word in local if word not in real] == [
        "oob_tcp_if_include",
        "lo",
        "btl_tcp_if_include",
        "lo",
    ]


def test_a_program_that_is_missing_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CannotLaunch, match="'mpirun' is not on this node's PATH; install Open MPI"):
        launchers.program("mpirun", "Open MPI")


# -- Neuron --------------------------------------------------------------------------------------
def test_efa_is_for_several_nodes_of_types_that_have_it(tmp_path: Path) -> None:
    many = neuron.environment(allocation(tmp_path, instanceType="ml.trn1.32xlarge"))
    small = neuron.environment(allocation(tmp_path, instanceType="ml.trn1.2xlarge"))
    alone = neuron.environment(
        allocation(tmp_path, instanceType="ml.trn1.32xlarge", nodes=NODES[:1])
    )
    assert many["FI_PROVIDER"] == "efa"
    assert "FI_PROVIDER" not in {**small, **alone}
    assert many["NEURON_COMPILE_CACHE_URL"] == str(tmp_path / "trainyard/neuron-compile-cache"), (
        "shared by all nodes and runs"
    )


def test_neuron_refuses_what_the_node_cannot_do_and_says_what_it_can(tmp_path: Path) -> None:
    with pytest.raises(
        CannotLaunch, match=r"instance type ml\.p5\.48xlarge; known are ml\.trn1\.2xlarge"
    ):
        neuron.environment(allocation(tmp_path, instanceType="ml.p5.48xlarge"))
    with pytest.raises(
        CannotLaunch,
        match=r"processesPerNode is 4, but ml\.trn1\.2xlarge has 2 NeuronCores; ask for at most 2",
    ):
        neuron.environment(allocation(tmp_path, instanceType="ml.trn1.2xlarge", processesPerNode=4))


def test_training_is_refused_while_compilations_failed_and_compiles_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the compiler writes its record; nothing of Neuron runs here."""
    given = allocation(tmp_path, instanceType="ml.trn1.32xlarge")

    def stand_in(failed: int) -> None:
        record = {
            "failed": failed,
            "reason": f"{failed} of 3 graphs failed to compile" if failed else "",
            "failedModules": [],
        }
        write = f"import sys; open(sys.argv[1], 'w').write({json.dumps(record)!r})"
        monkeypatch.setattr(
            neuron, "precompile_command", lambda _, path: [sys.executable, "-c", write, str(path)]
        )

    stand_in(2)
    with pytest.raises(
        CannotLaunch, match="training does not start: 2 of 3 graphs failed to compile"
    ):
        neuron.precompiled(given)
    stand_in(0)
    neuron.precompiled(given)
    stand_in(2)
    neuron.precompiled(given)  # what is compiled is compiled, also for a later attempt
    monkeypatch.undo()
    with pytest.raises(
        CannotLaunch, match=r"training does not start: .*precompile-ip-10-0-0-3\.json is missing"
    ):
        neuron.precompiled(allocation(tmp_path / "other", instanceType="ml.trn1.32xlarge"))
