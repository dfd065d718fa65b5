"""What a script of SageMaker's finds in a container: hyperparameters, the variables SM_* as AWS's
toolkit (sagemaker-training 5.1, environment.py) has them, and its directories, of which all goes to
S3 with the run's output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainyard_contracts import places
from trainyard_trainers.launch import script_mode
from trainyard_trainers.launch.allocation import Job
from trainyard_trainers.launch.launchers.neuron import INSTANCES

from .surroundings import Surroundings

#: Names in hyperparameters.json that are for AWS's toolkit and for no program.
_TOOLKITS_PREFIX = "sagemaker_"
_TOOLKITS = frozenset({"_tuning_objective_metric", "default_user_module_name"})
#: Of those, what the variables of a framework's parameters leave out.
_NO_PARAMETERS = frozenset({
    "sagemaker_program", "sagemaker_submit_directory", "sagemaker_enable_cloudwatch_metrics",
    "sagemaker_region", "sagemaker_container_log_level", "sagemaker_job_name",
    "sagemaker_s3_output", *_TOOLKITS,
})  # fmt: skip
_GROUPS = "sagemaker_distribution_instance_groups"
#: SageMaker's own directories, below /opt/ml.
_CONFIG, _OUTPUT, _CHECKPOINTS = "input/config", "output", "checkpoints"
_LOG_LEVEL = 20
_ONE_GROUP = "homogeneousCluster"


def hyperparameters(where: Surroundings, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The program's own, as SageMaker laid them out: among them is what AWS's SDK adds for a
    framework. `given` (the bundle's) where it laid out none.
    """
    found = {name: value for name, value in _laid_out(where).items() if not _is_toolkits(name)}
    return found or dict(given or {})


def variables(where: Surroundings, job: Job) -> dict[str, str]:
    """Each SM_* that AWS's toolkit sets; SM_MODULE_DIR is where the program lies."""
    config = where.ml / _CONFIG
    resources = _read(config / "resourceconfig.json")
    inputs = _read(config / "inputdataconfig.json")
    kind = str(resources.get("current_instance_type") or "local")
    laid_out = _laid_out(where)
    neuron = INSTANCES.get(kind)
    found = script_mode.of_program(job, job.hyperparameters or {}) | {
        "hosts": resources["hosts"],
        "current_host": where.host,
        "current_instance_type": kind,
        "network_interface_name": where.interface,
        "resource_config": resources,
        "input_data_config": inputs,
        "framework_params": _framework(laid_out),
        "framework_module": None,
        "log_level": laid_out.get("sagemaker_container_log_level", _LOG_LEVEL),
        "num_neurons": neuron.cores if neuron else 0,
        "input_dir": str(where.ml / "input"),
        "input_config_dir": str(config),
        "output_dir": str(where.ml / _OUTPUT),
        **{name: str(path) for name, path in _directories(where).items()},
        **_groups(resources, laid_out),
    }
    channels = _channels(where, job, inputs)
    told = {"training_env": _training_environment(found, channels), "channels": sorted(channels)}
    single = {f"channel_{name}": path for name, path in channels.items()}
    return script_mode.variables(found | told | single)


def _directories(where: Surroundings) -> dict[str, Path]:
    return {
        "model_dir": where.ml / "model",
        "output_data_dir": where.ml / "output/data",
        "output_intermediate_dir": where.ml / "output/intermediate",
    }


def exported(where: Surroundings) -> dict[str, Path]:
    """Directories beside the run's own whose files are results, by their names among these."""
    own = _directories(where)
    return {
        places.SCRIPT_MODEL: own["model_dir"],
        places.SCRIPT_DATA: own["output_data_dir"],
        places.SCRIPT_INTERMEDIATE: own["output_intermediate_dir"],
    }


def lay_out(where: Surroundings, *, asked: bool) -> None:
    """The directories that such a script takes for there. Raises OSError.

    `asked`: the job has hyperparameters, or {}. Then /opt/ml/checkpoints, which no bucket is bound
    to here, leads into the run's output directory. Other programs find nothing there that is not
    theirs: some begin anew only where it is empty.
    """
    for path in exported(where).values():
        path.mkdir(parents=True, exist_ok=True)
    if asked:
        _keep_checkpoints(where)


def _keep_checkpoints(where: Surroundings) -> None:
    target, path = where.run_dir / places.SCRIPT_CHECKPOINTS, where.ml / _CHECKPOINTS
    target.mkdir(parents=True, exist_ok=True)
    try:
        if path.is_symlink() and where.run_dir.parent in path.readlink().parents:
            path.unlink()  # of an earlier job, on an instance of a warm pool
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.symlink_to(target)
    except OSError as error:
        words = f"{path} is not kept: something else is there ({error.strerror})"
        print(f"trainyard: {words}", file=sys.stderr, flush=True)


def _framework(laid_out: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in laid_out.items()
        if name.startswith(_TOOLKITS_PREFIX) and name not in _NO_PARAMETERS
    }


def _groups(resources: Mapping[str, Any], laid_out: Mapping[str, Any]) -> dict[str, Any]:
    """Groups of instances; without them all hosts are one."""
    told = resources.get("instance_groups") or []
    groups = {str(one["instance_group_name"]): one for one in told}
    own = str(resources.get("current_group_name") or _ONE_GROUP)
    return {
        "current_instance_group": own,
        "current_instance_group_hosts": groups.get(own, {}).get("hosts", resources["hosts"]),
        "instance_groups": list(groups),
        "instance_groups_dict": groups,
        "distribution_instance_groups": laid_out.get(_GROUPS) or list(groups),
        "is_hetero": len(groups) > 1,
    }


def _channels(where: Surroundings, job: Job, inputs: Mapping[str, Any]) -> dict[str, str]:
    """The job's channels, and the run's inputs of other names."""
    own = {name: str(where.ml / "input/data" / name) for name in inputs}
    return {**script_mode.channels(job), **own}


def _training_environment(found: Mapping[str, Any], channels: Mapping[str, str]) -> dict[str, Any]:
    """SM_TRAINING_ENV: most of the others at once, some by other names."""
    left_out = ("hps", "framework_params", "user_args")
    same = {
        name: value
        for name, value in found.items()
        if name not in left_out and not name.startswith("hp_")
    }
    return {
        **same,
        "hyperparameters": found["hps"],
        "additional_framework_parameters": found["framework_params"],
        "channel_input_dirs": dict(channels),
        "is_master": found["current_host"] == found["hosts"][0],
        "master_hostname": found["hosts"][0],
    }


def _laid_out(where: Surroundings) -> dict[str, Any]:
    """hyperparameters.json, whose values are JSON in texts."""
    found = _read(where.ml / "input/config/hyperparameters.json")
    return {name: _value(text) for name, text in found.items()}


def _value(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return text


def _is_toolkits(name: str) -> bool:
    return name.startswith(_TOOLKITS_PREFIX) or name in _TOOLKITS


def _read(path: Path) -> dict[str, Any]:
    """{} where it is not there, or is no map."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return dict(found) if isinstance(found, dict) else {}
