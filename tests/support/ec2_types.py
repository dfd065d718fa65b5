"""What EC2 answered of its instance types, as moto recorded it, in rows of our own file.

`python -m tests.support.ec2_types` writes the file anew, after moto was updated.
"""

from __future__ import annotations

import gzip
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import moto
from tests.support.repository import ROOT

FILE = ROOT / "layers/contracts/trainyard_contracts/ec2_types.json"
RECORDED = Path(moto.__file__).parent / "ec2/resources/instance_types.json.gz"


def recorded() -> dict[str, dict[str, Any]]:
    """Each type's part of a DescribeInstanceTypes answer."""
    answers: dict[str, dict[str, Any]] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return answers


def document() -> dict[str, Any]:
    rows = {name: row(answer) for name, answer in sorted(recorded().items())}
    return {
        "source": f"DescribeInstanceTypes of EC2, as moto {version('moto')} recorded it; "
        "taken from there on 2026-11-24",
        "types": rows,
    }


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
    FILE.write_text(json.dumps(document(), indent=0) + "\n")
