"""What is said of an exception: whether it would come again, whether memory ran out, and where the
program itself was.
"""

from __future__ import annotations

import argparse
import importlib
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from trainyard_trainers.common import exceptions
from trainyard_trainers.common.exceptions import DEVICE, ENVIRONMENT, FILE, HOST, PROGRAM, Account


def ended_by(work: Callable[[], object]) -> Account:
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - as the launcher catches it
        return exceptions.account_of(error)
    raise AssertionError("it ended well")


def program(tmp_path: Path, text: str) -> Callable[[], object]:
    path = tmp_path / "train.py"
    path.write_text(text)
    return lambda: runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize(
    ("text", "exception", "lasting"),
    [
        ("def train(:\n", "SyntaxError", PROGRAM),
        ("if True:\nx = 1\n", "IndentationError", PROGRAM),
        ("print(lerning_rate)", "NameError", PROGRAM),
        ("dict(1, 2, 3)", "TypeError", None),
        ("def f(a): ...\nf(b=1)", "TypeError", PROGRAM),
        ("def f(a): ...\nf()", "TypeError", PROGRAM),
        ("def f(a): ...\nf(1, 2)", "TypeError", PROGRAM),
        ("None + 1", "TypeError", None),
        ("import there_is_no_such_module", "ModuleNotFoundError", ENVIRONMENT),
        ("from json import nothing", "ImportError", ENVIRONMENT),
        ("import json; json.nothing", "AttributeError", ENVIRONMENT),
        ("{}.nothing", "AttributeError", None),
        ("open('/no/such/data')", "FileNotFoundError", FILE),
        ("try:\n    open('/no/such')\nfinally:\n    nothing", "NameError", FILE),
        ("try:\n    open('/no/such')\nfinally:\n    raise ValueError", "ValueError", None),
        ("eval('1 +')", "SyntaxError", None),
        ("raise ValueError('bad batch')", "ValueError", None),
        ("class Bad(Exception): ...\nraise Bad", "Bad", None),
    ],
)
def test_only_what_is_wrong_in_the_program_or_missing_around_it_lasts(
    tmp_path: Path, text: str, exception: str, lasting: str | None
) -> None:
    found = ended_by(program(tmp_path, text))
    assert (found.exception, found.lasting) == (exception, lasting)


def test_a_mistake_in_the_handling_of_a_passing_error_lasts_no_longer_than_that_error(
    tmp_path: Path,
) -> None:
    text = "try:\n    {}\nexcept Exception:\n    logger.warning('again')\n"
    passing = ended_by(program(tmp_path, text.format("raise ConnectionError('reset')")))
    assert (passing.exception, passing.lasting) == ("NameError", None)
    lasting = ended_by(program(tmp_path, text.format("import there_is_no_such_module")))
    assert lasting.lasting == ENVIRONMENT


def test_the_traceback_begins_where_the_program_does(tmp_path: Path) -> None:
    launcher = importlib.import_module("trainyard_trainers.launch.program")
    path = tmp_path / "train.py"
    path.write_text("def step():\n    raise ValueError('bad batch')\nstep()\n")
    try:
        launcher.runpy.run_path(str(path), run_name="__main__")
    except ValueError as error:
        stack = error.__traceback__
        assert stack is not None
        stack = stack.tb_next  # without this test's own frame
        text = exceptions.formatted(error.with_traceback(stack))
    lines = text.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "train.py" in lines[1]
    assert "line 3" in lines[1]
    assert "runpy" not in text
    assert lines[-1] == "ValueError: bad batch"


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (MemoryError(), HOST),
        (RuntimeError("[enforce] DefaultCPUAllocator: can't allocate memory: 9 bytes"), HOST),
        (OSError(12, "Cannot allocate memory"), HOST),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB."), DEVICE),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be ..."), DEVICE),
        (
            RuntimeError(
                "NCCL error in: ProcessGroupNCCL.cpp:2077, unhandled cuda error, NCCL 2.21.5\n"
                "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
                "Cuda failure 2 'out of memory'"
            ),
            DEVICE,
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), DEVICE),
        (RuntimeError('nrt_tensor_allocate status=4 message="Allocation Failure"'), DEVICE),
        (RuntimeError("the memory of an elephant"), None),
        (RuntimeError("NCCL error in: unhandled system error"), None),
    ],
)
def test_which_memory_ran_out_is_known_by_the_words_of_who_says_it(
    error: Exception, memory: str | None
) -> None:
    def work() -> None:
        raise error

    found = ended_by(work)
    assert (found.memory, found.lasting) == (memory, None)


def test_an_error_that_hides_a_lack_of_memory_names_it() -> None:
    def work() -> None:
        try:
            raise MemoryError("Unable to allocate 8.00 GiB for an array")
        except MemoryError as error:
            raise RuntimeError("the batch cannot be made") from error

    found = ended_by(work)
    assert (found.memory, found.exception) == (HOST, "RuntimeError")
    assert found.error == (
        "RuntimeError: the batch cannot be made "
        "(MemoryError: Unable to allocate 8.00 GiB for an array)"
    )


def exit_of(work: Callable[[], object]) -> Account | None:
    try:
        work()
    except SystemExit as end:
        return exceptions.account_of_exit(end)
    raise AssertionError("it did not exit")


def test_a_command_line_that_argparse_refuses_is_wrong_on_every_node() -> None:
    parser = argparse.ArgumentParser(prog="train.py")
    parser.add_argument("--steps", type=int, required=True)
    found = exit_of(lambda: parser.parse_args(["--steps", "many"]))
    assert found is not None
    assert found.lasting == PROGRAM
    assert found.error == "train.py: error: argument --steps: invalid int value: 'many'"


def test_an_exit_says_no_more_than_the_program_did() -> None:
    assert exit_of(lambda: exec("raise SystemExit(2)")) is None
    assert exit_of(lambda: exec("raise SystemExit(3)")) is None
    words = exit_of(lambda: exec("raise SystemExit('no data in /data\\nstop')"))
    assert words is not None
    assert (words.error, words.lasting) == ("no data in /data", None)


def test_a_long_traceback_keeps_its_beginning_and_its_end() -> None:
    def work(depth: int = 0) -> None:
        if depth == 60:
            raise ValueError("x" * 9000)
        work(depth + 1)

    found = ended_by(work)
    assert len(found.traceback) <= exceptions.MOST_CHARACTERS
    assert found.traceback.startswith("Traceback (most recent call last):\n")
    assert found.traceback.rstrip().endswith("xxx")
