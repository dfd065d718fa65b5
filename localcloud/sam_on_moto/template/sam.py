"""A SAM template as CloudFormation: aws-sam-translator does with it what AWS does.

Local code is staged first, as SAM would build it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sam_on_moto.iam.managed_policies import MANAGED_POLICIES
from sam_on_moto.template.cloudformation import parameter_values
from sam_on_moto.template.intrinsics import TemplateError

BUCKET = "local-code"
_SKIP = shutil.ignore_patterns(
    "__pycache__", "*.pyc", "*.egg-info", ".pytest_cache", ".mypy_cache", ".ruff_cache", "build"
)


def load(path: Path, parameters: Mapping[str, str], staging: Path, region: str) -> dict[str, Any]:
    """The template at `path`, its code staged under `staging`, translated to plain CloudFormation.

    Raises TemplateError for a template that is missing, is no SAM template, or names code that is
    not there.
    """
    os.environ.setdefault("AWS_DEFAULT_REGION", region)  # the translator asks boto for a region
    from samtranslator.model.exceptions import InvalidDocumentException
    from samtranslator.translator.transform import transform
    from samtranslator.yaml_helper import yaml_parse
    from yaml import YAMLError

    try:
        source = yaml_parse(path.read_text())
    except OSError as error:
        raise TemplateError(f"cannot read the template {path}: {error.strerror}") from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise TemplateError(f"{path} is not YAML: {error}") from None
    if not isinstance(source, dict) or not isinstance(source.get("Resources"), dict):
        raise TemplateError(f"{path} is no CloudFormation template: it has no Resources")
    values = parameter_values(source.get("Parameters", {}), parameters)
    shared = _shared(source)
    for logical_id, resource in source["Resources"].items():
        if not isinstance(resource, dict):
            raise TemplateError(f"{logical_id}: it is no resource: it has no Type")
        _package(path.parent, staging, logical_id, resource, shared)
    try:
        translated: dict[str, Any] = transform(source, values, _ManagedPolicyNames())
    except InvalidDocumentException as error:
        causes = "\n  ".join(cause.message for cause in error.causes)
        raise TemplateError(f"{path} is no valid SAM template:\n  {causes}") from None
    return translated


class _ManagedPolicyNames:
    def load(self) -> dict[str, str]:
        return {arn.split("/")[-1]: arn for arn in MANAGED_POLICIES}


def _shared(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """What Globals gives to every function."""
    functions = (source.get("Globals") or {}).get("Function") or {}
    return functions if isinstance(functions, Mapping) else {}


def _package(
    root: Path,
    staging: Path,
    logical_id: str,
    resource: dict[str, Any],
    shared: Mapping[str, Any],
) -> None:
    properties = resource.get("Properties") or {}
    match resource.get("Type"):
        case "AWS::Serverless::Function":
            source = root / _folder({**shared, **properties}, "CodeUri", logical_id)
            properties["CodeUri"] = _stage(source, staging, logical_id, "")
        case "AWS::Serverless::LayerVersion":
            source = root / _folder(properties, "ContentUri", logical_id)
            properties["ContentUri"] = _stage(
                source, staging, logical_id, "python" if _is_python(source, resource) else ""
            )
        case "AWS::Serverless::StateMachine" if isinstance(properties.get("DefinitionUri"), str):
            definition = root / properties.pop("DefinitionUri")
            try:
                properties["Definition"] = json.loads(definition.read_text())
            except (OSError, ValueError) as error:
                raise TemplateError(
                    f"{logical_id}: cannot read the state machine {definition}: {error}"
                ) from None


def _folder(properties: Mapping[str, Any], name: str, logical_id: str) -> str:
    """The folder of the code, which the resource itself names. Raises TemplateError."""
    if "InlineCode" in properties:
        raise TemplateError(f"{logical_id}: InlineCode is not supported; put it into a folder")
    folder = properties.get(name)
    if not isinstance(folder, str):
        raise TemplateError(f"{logical_id}: {name} must name the folder of its code")
    return folder


def _is_python(source: Path, layer: Mapping[str, Any]) -> bool:
    """Whether `sam build` puts the layer below python/.

    Of a layer that a Makefile builds, its requirements.txt says so.
    """
    method = (layer.get("Metadata") or {}).get("BuildMethod", "")
    return method.startswith("python") or (
        method == "makefile" and (source / "requirements.txt").is_file()
    )


def _stage(source: Path, staging: Path, logical_id: str, below: str) -> str:
    """Copy a code folder.

    `sam build` would install its requirements, too. Here they come from the local cloud's own
    environment.
    """
    if not source.is_dir():
        raise TemplateError(f"{logical_id}: there is no folder {source}")
    target = staging / logical_id
    shutil.copytree(source, target / below if below else target, ignore=_SKIP, dirs_exist_ok=True)
    return f"s3://{BUCKET}/{logical_id}"


def merge_layers(layers: list[Path], opt_root: Path) -> Path:
    """The folder that is /opt of functions with these layers, in order: later layers win.

    The same layers share one folder.
    """
    digest = hashlib.sha256("\n".join(map(str, layers)).encode()).hexdigest()[:16]
    target = opt_root / digest
    if not target.exists():
        target.mkdir(parents=True)
        for layer in layers:
            shutil.copytree(layer, target, dirs_exist_ok=True, copy_function=_link)
    return target


def _link(source: str, target: str) -> str:
    """Hard links: staged code is never changed, and /opt is read-only on AWS as well."""
    if os.path.exists(target):
        os.unlink(target)
    os.link(source, target)
    return target
