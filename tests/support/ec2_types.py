"""What EC2 answered of its instance types, as moto recorded it, in rows of our own module.

`python -m tests.support.ec2_types` writes the module anew, after moto was updated.
"""

from __future__ import annotations

import gzip
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import moto
from tests.support.repository import ROOT

MODULE = ROOT / "layers/contracts/trainyard_contracts/ec2_type_rows.py"
RECORDED = Path(moto.__file__).parent / "ec2/resources/instance_types.json.gz"


def recorded() -> dict[str, dict[str, Any]]:
    """Each type's part of a DescribeInstanceTypes answer."""
    answers: dict[str, dict[str, Any]] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return answers


def rows() -> list[str]:
    return [f"{name}|{row(answer)}" for name, answer in sorted(recorded().items())]


def source() -> str:
    return f"DescribeInstanceTypes of EC2, as moto {version('moto')} recorded it"


def module() -> str:
    lines = "\n".join(rows())
    return f'''"""Rows of EC2's instance types, written by `python -m tests.support.ec2_types`."""

from __future__ import annotations

SOURCE = "{source()}"
TAKEN_ON = "2026-11-24"
#: Type, architecture, vCPUs, accelerators, whether it has disks of its own, whether it has EFA.
ROWS = """
{lines}
"""
'''


def row(answer: dict[str, Any]) -> str:
    fields = (
        "/".join(answer["ProcessorInfo"]["SupportedArchitectures"][-1:]),
        str(answer["VCpuInfo"]["DefaultVCpus"]),
        accelerators(answer),
        "disk" if answer.get("InstanceStorageSupported") else "",
        "efa" if answer["NetworkInfo"]["EfaSupported"] else "",
    )
    return "|".join(fields)


def accelerators(answer: dict[str, Any]) -> str:
    parts = [
        (part["Manufacturer"].lower(), part["Count"]) for part in _parts(answer, "GpuInfo", "Gpus")
    ]
    neuron = _parts(answer, "NeuronInfo", "NeuronDevices") or _parts(
        answer, "InferenceAcceleratorInfo", "Accelerators"
    )
    parts += [("aws", part["Count"]) for part in neuron]
    return " ".join(f"{maker} {count}" for maker, count in parts)


def _parts(answer: dict[str, Any], info: str, member: str) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = answer.get(info, {}).get(member, [])
    return parts


if __name__ == "__main__":
    MODULE.write_text(module())
