"""The images' data are made of the SDK's own, of which a few lines are enough here."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.repository import ROOT

ACCOUNTS = {"us-east-1": "763104351884", "cn-north-1": "727897471807"}
TABLE = """
def _get_image_tag():
    container_versions = {"pytorch-1.6-gpu-py36": "cu110"}
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = ROOT / "scripts/training_images.py"
    spec = importlib.util.spec_from_file_location("trainyard_training_images", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def image(repository: str = "pytorch-training", **more: Any) -> dict[str, Any]:
    return {
        "repository": repository,
        "registries": ACCOUNTS,
        "py_versions": ["py2", "py310"],
        **more,
    }


@pytest.fixture
def sdk(tmp_path: Path, script: ModuleType) -> Path:
    """An SDK with each file, unpacked."""
    config = tmp_path / "sagemaker/image_uri_config"
    config.mkdir(parents=True)
    (tmp_path / "sagemaker-2.0.0.dist-info").mkdir()
    (tmp_path / "sagemaker/image_uris.py").write_text(TABLE)
    for file in script.FILES.values():
        family = {
            "processors": ["gpu"],
            "version_aliases": {"2.0": "2.0.1"},
            "versions": {"2.0.1": image()},
        }
        (config / f"{file}.json").write_text(json.dumps({"training": family}))
    return tmp_path


def rewrite(sdk: Path, file: str, **family: Any) -> None:
    path = sdk / f"sagemaker/image_uri_config/{file}.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({"training": {**content["training"], **family}}))


def family(script: ModuleType, sdk: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = script.images_of(sdk, "2026-11-24")["families"][name]
    return found


def test_the_source_and_the_date_are_written_down(script: ModuleType, sdk: Path) -> None:
    made = script.images_of(sdk, "2026-11-24")
    assert made["source"].startswith("sagemaker 2.0.0")
    assert made["date"] == "2026-11-24"
    assert made["tagEnds"] == {"pytorch-1.6-gpu-py36": "cu110"}


def test_equal_maps_of_accounts_are_kept_once(script: ModuleType, sdk: Path) -> None:
    made = script.images_of(sdk, "2026-11-24")
    assert made["registries"] == [dict(sorted(ACCOUNTS.items()))]
    assert made["suffixes"] == {"cn-north-1": "amazonaws.com.cn"}


def test_python_2_and_the_oldest_repositories_are_left_out(script: ModuleType, sdk: Path) -> None:
    versions = {
        "1.0.0": image("sagemaker-pytorch"),
        "1.1.0": image(py_versions=["py2"]),
        "2.0.1": image(),
    }
    rewrite(sdk, "pytorch", versions=versions, version_aliases={"1.0": "1.0.0", "2.0": "2.0.1"})
    made = family(script, sdk, "pytorch")
    assert list(made["images"]) == ["2.0.1"]
    assert made["images"]["2.0.1"][""][0]["pythons"] == ["py310"]
    assert made["aliases"] == {"2.0": "2.0.1"}


def test_a_version_with_a_repository_for_each_python_is_read(script: ModuleType, sdk: Path) -> None:
    by_python = {
        "py2": {"repository": "sagemaker-mxnet", "registries": ACCOUNTS},
        "py3": {"repository": "mxnet-training", "registries": ACCOUNTS},
    }
    rewrite(sdk, "mxnet", versions={"1.4.1": by_python}, version_aliases={})
    (only,) = family(script, sdk, "mxnet")["images"]["1.4.1"][""]
    assert (only["repository"], only["pythons"]) == ("mxnet-training", ["py3"])


def test_a_hugging_face_image_is_found_by_both_names_of_its_base(
    script: ModuleType, sdk: Path
) -> None:
    entry = {
        "version_aliases": {"pytorch2.8": "pytorch2.8.0"},
        "pytorch2.8.0": image(container_version={"gpu": "cu129"}),
    }
    rewrite(sdk, "huggingface", versions={"4.56.2": entry}, version_aliases={})
    bases = family(script, sdk, "huggingface")["images"]["4.56.2"]
    assert set(bases) == {"pytorch2.8.0", "pytorch2.8"}
    assert bases["pytorch2.8"][0]["end"] == "cu129"


def test_a_neuron_image_ends_with_its_newest_sdk(script: ModuleType, sdk: Path) -> None:
    entry = image(sdk_versions=["sdk2.4.0", "sdk2.9.1"], container_version={"trn": "ubuntu20.04"})
    rewrite(sdk, "pytorch-neuron", versions={"1.11.0": entry}, version_aliases={})
    (only,) = family(script, sdk, "pytorch-neuron")["images"]["1.11.0"][""]
    assert only["end"] == "sdk2.9.1-ubuntu20.04"


def test_images_of_model_parallelism_go_by_pytorch_s_version(script: ModuleType, sdk: Path) -> None:
    rewrite(
        sdk,
        "pytorch-smp",
        versions={"2.0.1": image(), "2.3.1": image(), "2.5.0": image()},
        version_aliases={"2.0": "2.0.1", "2.2": "2.3.1", "2.3.1": "2.5.0"},
    )
    assert set(family(script, sdk, "pytorch-smp")["images"]) == {"2.0", "2.0.1", "2.2", "2.3.1"}


def test_an_sdk_that_was_rearranged_is_said_and_not_guessed(script: ModuleType, sdk: Path) -> None:
    (sdk / "sagemaker/image_uris.py").write_text("")
    with pytest.raises(SystemExit, match="container_versions"):
        script.images_of(sdk, "2026-11-24")


def test_what_is_written_is_json_with_an_image_in_a_line(script: ModuleType, sdk: Path) -> None:
    content = script.images_of(sdk, "2026-11-24")
    text = script.written(content)
    assert json.loads(text) == content
    assert '{"repository":"pytorch-training","pythons":["py310"],"registries":0}' in text


def test_the_file_that_is_shipped_was_written_by_the_script(script: ModuleType) -> None:
    text = script.TARGET.read_text()
    assert script.written(json.loads(text)) == text
