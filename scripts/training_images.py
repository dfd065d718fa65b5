"""Write images.json of the training-job backend from the SageMaker SDK's own data.

The SDK is read and never imported, nor is it a library of ours:

    pip download sagemaker==2.257.7 --no-deps && unzip -d sdk sagemaker-*.whl
    .venv/bin/python scripts/training_images.py sdk --date 2026-11-24
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import botocore.session

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "layers/core/trainyard/backends/training_job/images.json"
#: Our name of each family of images, and the SDK's file that has it. pytorch-neuron is what the SDK
#: takes for pytorch on Trainium; it knows the newer images for HyperPod's recipes only.
FILES = {
    "pytorch": "pytorch",
    "tensorflow": "tensorflow",
    "mxnet": "mxnet",
    "huggingface": "huggingface",
    "pytorch-neuron": "pytorch-neuron",
    "pytorch-neuronx": "hyperpod-recipes-neuron",
    "pytorch-smp": "pytorch-smp",
}
_USUAL_SUFFIX = "amazonaws.com"


class Registries:
    """Accounts by region, each map of them once."""

    def __init__(self) -> None:
        self.maps: list[dict[str, str]] = []

    def number(self, accounts: dict[str, str]) -> int:
        found = dict(sorted(accounts.items()))
        if found not in self.maps:
            self.maps.append(found)
        return self.maps.index(found)

    def suffixes(self) -> dict[str, str]:
        """The DNS suffix of each region that has not the usual one."""
        resolver = botocore.session.get_session().get_component("endpoint_resolver")
        found = {}
        for region in sorted({region for accounts in self.maps for region in accounts}):
            endpoint = resolver.construct_endpoint("ecr", region) or {}
            host = str(endpoint.get("hostname", f"ecr.{region}.{_USUAL_SUFFIX}"))
            suffix = host.partition(f"{region}.")[2]
            if suffix != _USUAL_SUFFIX:
                found[region] = suffix
        return found


def images_of(sdk: Path, date: str) -> dict[str, Any]:
    """The content of images.json, by the SDK that lies unpacked in `sdk`."""
    registries = Registries()
    families = {name: _family(sdk, file, registries) for name, file in FILES.items()}
    return {
        "source": f"sagemaker {_version(sdk)}, image_uri_config and image_uris.py",
        "date": date,
        "families": families,
        "registries": registries.maps,
        "suffixes": registries.suffixes(),
        "tagEnds": _tag_ends(sdk),
    }


def _version(sdk: Path) -> str:
    (folder,) = sdk.glob("sagemaker-*.dist-info")
    return folder.name.removeprefix("sagemaker-").removesuffix(".dist-info")


def _family(sdk: Path, file: str, registries: Registries) -> dict[str, Any]:
    config = json.loads((sdk / f"sagemaker/image_uri_config/{file}.json").read_text())["training"]
    if file == "pytorch-smp":
        config = {**config, "versions": _by_pytorch(config), "version_aliases": {}}
    images: dict[str, Any] = {}
    for version, entry in config["versions"].items():
        for base, found in _by_base(entry):
            for one in _by_python(found):
                kept = _image(one, registries)
                if kept is not None:
                    images.setdefault(version, {}).setdefault(base, []).append(kept)
    aliases = {short: full for short, full in config["version_aliases"].items() if full in images}
    return {"processors": config["processors"], "aliases": aliases, "images": images}


def _by_pytorch(config: dict[str, Any]) -> dict[str, Any]:
    """Images of SMP v2 by PyTorch's version, which their tags have.

    The file's own keys are the library's versions, but for those that its alias begins: 2.0 is
    2.0.1, and 2.2 is the library's 2.3.1.
    """
    versions = config["versions"]
    found = {}
    for short, full in config["version_aliases"].items():
        found[short] = versions[full]
        if full.startswith(f"{short}."):
            found[full] = versions[full]
    return found


def _by_base(entry: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Hugging Face's images by the framework below, such as pytorch2.8.0; others have ''."""
    if "version_aliases" not in entry:
        yield "", entry
        return
    for name, found in entry.items():
        if name != "version_aliases":
            shorts = [short for short, full in entry["version_aliases"].items() if full == name]
            for base in (name, *shorts):
                yield base, found


def _by_python(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "repository" in entry:
        yield entry
        return
    for python, found in entry.items():
        yield {**found, "py_versions": [python]}


def _image(entry: dict[str, Any], registries: Registries) -> dict[str, Any] | None:
    """None for Python 2, and for images older than today's toolkit (sagemaker-...)."""
    pythons = [python for python in entry.get("py_versions", []) if python.startswith("py3")]
    if not pythons or entry["repository"].startswith("sagemaker-"):
        return None
    kept = {
        "repository": entry["repository"],
        "pythons": pythons,
        "registries": registries.number(entry["registries"]),
    }
    end = "-".join(
        [*sorted(entry.get("sdk_versions", []))[-1:], *entry.get("container_version", {}).values()]
    )
    return {**kept, "end": end} if end else kept


def _tag_ends(sdk: Path) -> dict[str, str]:
    """What the SDK puts behind some old tags on p4d and for SMDDP and SMP: a table in its code."""
    tree = ast.parse((sdk / "sagemaker/image_uris.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if names == ["container_versions"]:
                table: dict[str, str] = ast.literal_eval(node.value)
                return table
    raise SystemExit("image_uris.py has no table container_versions: look what became of it")


def written(content: dict[str, Any]) -> str:
    """JSON with one image or one map of registries in a line: small, and fit to be compared."""
    text = json.dumps(content, indent=1, sort_keys=False)
    return re.sub(r"\{[^{}\[\]]*(\[[^\[\]{}]*\])?[^{}\[\]]*\}", _one_line, text) + "\n"


def _one_line(match: re.Match[str]) -> str:
    return json.dumps(json.loads(match[0]), separators=(",", ":"))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sdk", type=Path, help="where the SDK's wheel lies unpacked")
    parser.add_argument("--date", required=True, help="of today, such as 2026-11-24")
    given = parser.parse_args(arguments)
    TARGET.write_text(written(images_of(given.sdk, given.date)))


if __name__ == "__main__":
    main()
