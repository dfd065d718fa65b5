"""Starts a function as Lambda does a cold one, and times its first answer."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sam_on_moto.functions.runtime_api import Invocation, RuntimeApi

ROOT = Path(__file__).resolve().parents[1]
ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Cold:
    """Milliseconds from the process's start to the end of init and to the answer; CPU time."""

    init: float
    answer: float
    cpu: float


def started(
    python: str,
    name: str,
    packages: Iterable[Path],
    variables: Mapping[str, str],
    event: Mapping[str, Any],
) -> Cold:
    """One call of functions/NAME in a process of Lambda's own runtime client.

    Raises RuntimeError if the answer is not 200.
    """
    function = ROOT / "functions" / name
    api = RuntimeApi()
    call = Invocation(
        json.dumps(event).encode(),
        time.time() + ANSWER_SECONDS,
        f"arn:aws:lambda:us-east-1:123456789012:function:{name}",
    )
    begun = time.perf_counter()
    process = subprocess.Popen(
        [python, "-m", "awslambdaric", "handler.handler"],
        cwd=function,
        env=_environment(api.address, name, (*packages, function), variables),
        stdout=subprocess.DEVNULL,
    )
    try:
        api.ready.wait(ANSWER_SECONDS)
        ready = time.perf_counter()
        api.send(call)
        answered = call.done.wait(ANSWER_SECONDS)
        ended = time.perf_counter()
    finally:
        process.kill()
        _, process.returncode, used = os.wait4(process.pid, 0)
        api.close()
    if not answered or call.failed or json.loads(call.result)["statusCode"] != 200:
        raise RuntimeError(
            f"the first answer of {name} is not 200: {call.result[:2000]!r} {api.init_error!r}"
        )
    return Cold(
        init=(ready - begun) * 1000,
        answer=(ended - begun) * 1000,
        cpu=(used.ru_utime + used.ru_stime) * 1000,
    )


def _environment(
    address: str, name: str, packages: Iterable[Path], variables: Mapping[str, str]
) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, packages)),
        "AWS_LAMBDA_RUNTIME_API": address,
        "AWS_LAMBDA_FUNCTION_NAME": name,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIACOLDSTART",
        "AWS_SECRET_ACCESS_KEY": "none",
        **variables,
    }
