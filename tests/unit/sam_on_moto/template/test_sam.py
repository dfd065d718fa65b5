"""A SAM template is read, and its functions and layers are staged, as `sam build` does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import cloud_sample

from sam_on_moto.template import sam as template
from sam_on_moto.template.intrinsics import TemplateError


def test_a_missing_template_is_told(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="cannot read the template"):
        template.load(tmp_path / "template.yaml", {}, tmp_path, "us-east-1")


def test_python_layers_lie_below_python_and_others_as_they_are(tmp_path: Path) -> None:
    staged = tmp_path / "staged"
    template.load(cloud_sample.write(tmp_path / "app"), {}, staged, "us-east-1")
    opt = template.merge_layers([staged / "SharedLayer", staged / "PlainLayer"], tmp_path / "opt")
    assert (opt / "python" / "shared_code.py").is_file()
    assert (opt / "plain.txt").is_file()
    assert (
        template.merge_layers([staged / "SharedLayer", staged / "PlainLayer"], tmp_path / "opt")
        == opt
    )


def test_globals_name_the_folder_of_functions_that_name_none(tmp_path: Path) -> None:
    text = cloud_sample.TEMPLATE.replace("      CodeUri: fact\n", "")
    text = text.replace("  Function:\n    Runtime", "  Function:\n    CodeUri: fact\n    Runtime")
    path = cloud_sample.write(tmp_path / "app", template=text)
    translated = template.load(path, {}, tmp_path / "staged", "us-east-1")
    code = translated["Resources"]["FactFunction"]["Properties"]["Code"]
    assert code == {"S3Bucket": template.BUCKET, "S3Key": "FactFunction"}
    assert (tmp_path / "staged/FactFunction").is_dir()
