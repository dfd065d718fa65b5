"""HyperParameters as the SageMaker SDK (v2) sends them: AWS's containers read their launch there.

Every value is JSON, so a string has quotes of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from trainyard.backends.training_job.intent import Intent
from trainyard_contracts.hyperparameters import encoded as of_value
from trainyard_contracts.training_job_launch import Distribution

#: Where the container finds the program when it may not reach S3.
ISOLATED_SOURCE = "/opt/ml/input/data/code/sourcedir.tar.gz"
_DATA_PARALLEL = "sagemaker_distributed_dataparallel_enabled"
_DATA_PARALLEL_OPTIONS = "sagemaker_distributed_dataparallel_custom_mpi_options"
_TYPE = "sagemaker_instance_type"


def hyperparameters(intent: Intent) -> dict[str, str]:
    """The user's, and those that start the program, which win."""
    return encoded({**intent.hyperparameters, **own(intent)})


def encoded(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: of_value(value) for name, value in values.items()}


def own(intent: Intent) -> dict[str, Any]:
    """What Trainyard sets: the program, how it is started, and TensorFlow's model_dir."""
    program = {
        "sagemaker_submit_directory": (
            ISOLATED_SOURCE if intent.spec.network_isolation else intent.program.source_uri
        ),
        "sagemaker_program": intent.program.entry_point,
        "sagemaker_container_log_level": intent.program.log_level,
        "sagemaker_job_name": intent.job_name,
        "sagemaker_region": intent.region,
    }
    return {**program, **_launch(intent), **_model_dir(intent)}


def _launch(intent: Intent) -> dict[str, JsonValue]:
    spec, how = intent.spec, intent.spec.distribution
    if how.kind == "none":
        return {}
    if _framework(intent) == "mxnet":
        return _mxnet(how)
    if how.kind == "torchrun":
        beside = {**_group(intent), **_library(how, spec.instance_type)} if how.library else {}
        return {**beside, "sagemaker_torch_distributed_enabled": True, **_single_type(intent)}
    if how.kind == "pytorchddp" and _framework(intent) == "huggingface":
        return {"sagemaker_pytorch_ddp_enabled": True, **_single_type(intent)}
    return {**_group(intent), **_by_kind(how, spec.instance_type)}


def _by_kind(how: Distribution, instance_type: str | None) -> dict[str, JsonValue]:
    if how.kind == "parameter-server":
        return {"sagemaker_parameter_server_enabled": True}
    if how.kind == "mpi":
        return _mpi(how)
    if how.kind == "smp":
        return {**_mpi(how), **_library(how, instance_type)}
    return _library(how, instance_type)


def _library(how: Distribution, instance_type: str | None) -> dict[str, JsonValue]:
    """SMDDP or SMP. The SDK turns pytorchddp into SMDDP, and so do we.

    With groups of instances the SDK sends `null` as the type.
    """
    keys: dict[str, JsonValue] = {_DATA_PARALLEL: how.data_parallel, _TYPE: instance_type}
    if how.model_parallel and how.parameters:
        keys["mp_parameters"] = how.parameters
    if how.data_parallel:
        keys[_DATA_PARALLEL_OPTIONS] = how.custom_mpi_options
    return keys


def _mpi(how: Distribution) -> dict[str, JsonValue]:
    return {
        "sagemaker_mpi_enabled": True,
        **_processes(how),
        "sagemaker_mpi_custom_mpi_options": how.custom_mpi_options,
    }


def _processes(how: Distribution) -> dict[str, JsonValue]:
    if how.processes_per_host is None:
        return {}
    return {"sagemaker_mpi_num_of_processes_per_host": how.processes_per_host}


def _mxnet(how: Distribution) -> dict[str, JsonValue]:
    """The SDK sends MXNet mpirun's options only beside the number of processes."""
    if how.kind == "parameter-server":
        return {"sagemaker_parameter_server_enabled": True}
    if how.processes_per_host is None:
        return {"sagemaker_mpi_enabled": True}
    return _mpi(how)


def _group(intent: Intent) -> dict[str, JsonValue]:
    """The group that the program runs on, which the SDK does not send with torchrun alone."""
    groups = intent.spec.instance_groups
    if not groups:
        return {}
    name = intent.spec.distribution.instance_group or groups[0].name
    return {"sagemaker_distribution_instance_groups": [name]}


def _single_type(intent: Intent) -> dict[str, JsonValue]:
    one = intent.spec.instance_type
    return {} if one is None else {_TYPE: one}


def _framework(intent: Intent) -> str:
    return intent.spec.framework.name if intent.spec.framework else ""


def _model_dir(intent: Intent) -> dict[str, JsonValue]:
    framework = intent.spec.framework
    if framework is None or framework.name != "tensorflow" or framework.model_dir == "none":
        return {}
    if framework.model_dir is not None:
        return {"model_dir": framework.model_dir}
    if intent.spec.distribution.kind in ("mpi", "smp"):
        return {"model_dir": "/opt/ml/model"}
    return {"model_dir": f"{intent.output_uri.rstrip('/')}/{intent.job_name}/model"}
