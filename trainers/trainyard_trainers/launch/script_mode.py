"""The variables SM_* that a program finds which is written as a script of SageMaker's.

As AWS's toolkit makes them (sagemaker-training 5.1: to_env_vars of mapping.py), so that the same
script gets the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainyard_job.common import places

from . import interfaces
from .allocation import Allocation, Job
from .hyperparameters import arguments

_DEV = Path("/dev")
#: Bytes of a variable with its name, '=' and an end (MAX_ARG_STRLEN of Linux, 128 KiB).
_LONGEST_VARIABLE = 131072 - 2
#: logging.INFO, as AWS's SDK sends it.
_LOG_LEVEL = 20
_CHANNEL_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")


def variables(values: Mapping[str, Any]) -> dict[str, str]:
    """Each as SM_NAME: a text as it is, null as the empty text, all else as JSON.

    One that Linux would not take is left out: with it no program could be started.
    """
    found = {f"SM_{name.upper()}": _text(value) for name, value in values.items()}
    return {
        name: text
        for name, text in found.items()
        if len(name) + len(text.encode(errors="surrogateescape")) < _LONGEST_VARIABLE
    }


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def of_program(job: Job, hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """What is the same on every backend, by the names that `variables` takes."""
    module = str(job.document["program"][-1])
    single = {f"hp_{name}": value for name, value in hyperparameters.items()}
    return {
        **single,
        "hps": dict(hyperparameters),
        "user_args": arguments(hyperparameters),
        "user_entry_point": module,
        "module_name": module.removesuffix(".py"),
        "module_dir": str(job.work_dir),
        "num_cpus": os.cpu_count() or 1,
        "num_gpus": gpus(),
    }


def of_node(allocation: Allocation) -> dict[str, str]:
    """The variables on a cluster with Slurm; {} for a program that is no such script.

    The directories are made: such a script takes them for there.
    """
    job = allocation.job
    if job.hyperparameters is None:
        return {}
    model, data = job.run_dir / places.SCRIPT_MODEL, job.run_dir / places.SCRIPT_DATA
    for path in (model, data):
        with suppress(OSError):  # the program says it better
            path.mkdir(parents=True, exist_ok=True)
    found = channels(job)
    own = {
        "hosts": list(allocation.node.names),
        "current_host": allocation.node.name,
        "network_interface_name": _interface(allocation),
        "model_dir": str(model),
        "output_data_dir": str(data),
        "channels": sorted(found),
        **{f"channel_{name}": path for name, path in found.items()},
        "log_level": _LOG_LEVEL,
    }
    if kind := job.document.get("instanceType"):
        own["current_instance_type"] = kind
    return variables({**of_program(job, job.hyperparameters), **own})


def meeting_point(allocation: Allocation) -> dict[str, str]:
    """Where a script's hosts find each other, which AWS's PyTorch images say; a launcher that
    starts several processes says it by itself.
    """
    if allocation.job.hyperparameters is None or allocation.job.recipe != "command":
        return {}
    return {
        "MASTER_ADDR": allocation.master_address,
        "MASTER_PORT": str(allocation.master_port),
    }


def channels(job: Job) -> dict[str, str]:
    """The run's inputs, each by the last part of its path; of one name the first counts."""
    found: dict[str, str] = {}
    for one in job.document.get("inputs") or []:
        path = str(one["path"])
        name = path.rstrip("/").rpartition("/")[2]
        if name and set(name) <= _CHANNEL_CHARACTERS:
            found.setdefault(name, str(job.work_dir / path))  # an absolute path stays as it is
    return found


def gpus() -> int:
    """Devices of NVIDIA's that this container or node has."""
    return sum(1 for _ in _numbered("nvidia"))


def _numbered(kind: str) -> Iterator[Path]:
    with suppress(OSError):
        for path in _DEV.glob(f"{kind}[0-9]*"):
            if path.name.removeprefix(kind).isdigit():
                yield path


def _interface(allocation: Allocation) -> str:
    if allocation.on_loopback:
        return "lo"
    return interfaces.interface_of(allocation.address) or ""
