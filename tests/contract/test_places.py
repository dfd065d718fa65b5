"""What two processes must spell alike: the page of the contracts, and those who cannot import it."""

from __future__ import annotations

import ast
from pathlib import Path

from samtranslator.yaml_helper import yaml_parse

from trainyard_contracts import places
from trainyard_contracts.files import ClusterFile

ROOT = Path(__file__).resolve().parents[2]
LIFECYCLE = sorted((ROOT / "node_agent/lifecycle").glob("*.py"))


def read_of_cluster_file(path: Path) -> set[str]:
    """The keys that a lifecycle script reads of `cluster[...]`, `cluster.get(...)` and REQUIRED."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        owner, key = None, None
        if isinstance(node, ast.Subscript):
            owner, key = node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            owner, key = (
                (node.func.value, node.args[0]) if node.func.attr == "get" else (None, None)
            )
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", None)
        if name == "cluster" and isinstance(key, ast.Constant):
            found.add(str(key.value))
    return found


def test_lifecycle_scripts_read_what_the_control_plane_writes() -> None:
    written = {field.alias for field in ClusterFile.model_fields.values()}
    read = set().union(*map(read_of_cluster_file, LIFECYCLE))
    assert {"clusterName", "secretName", "slurmSetup", "users"} <= read <= written


def test_the_template_names_secrets_and_roles_as_the_contracts_do() -> None:
    text = (ROOT / "template.yaml").read_text()
    variables = yaml_parse(text)["Globals"]["Function"]["Environment"]["Variables"]
    stack = "${AWS::StackName}"
    assert variables["SECRET_PREFIX"] == {"Fn::Sub": places.secret_prefix(stack)}
    assert f":role{places.roles_path(stack)}*" in text
    assert f":secret:{places.secret_prefix(stack)}/*" in text
