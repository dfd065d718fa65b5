"""How a node learns who it is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.lifecycle import CLUSTER, RESOURCES, on_aws


@pytest.mark.parametrize(
    ("address", "role"), [("10.1.0.5", "controller"), ("10.1.0.6", "worker"), ("10.1.0.8", "login")]
)
def test_a_node_finds_its_role_by_its_own_address(
    scripts: SimpleNamespace, address: str, role: str
) -> None:
    identity = scripts.node.identify(CLUSTER, RESOURCES, {"127.0.0.1", address})
    assert identity.role == role
    assert identity.controller_address == "10.1.0.5"
    assert identity.node_name == "ip-" + address.replace(".", "-")


def test_a_stale_resource_config_is_named_as_the_reason(scripts: SimpleNamespace) -> None:
    with pytest.raises(scripts.node.StepFailed, match=r"10\.9\.9\.9.*stale"):
        scripts.node.identify(CLUSTER, RESOURCES, {"10.9.9.9"})


@pytest.mark.parametrize(
    "empty",
    [{"Instances": None}, {}, {"Instances": [{"InstanceName": "gpu-1", "InstanceId": "i-2"}]}],
)
def test_a_group_without_instances_and_an_instance_without_address_are_passed_over(
    scripts: SimpleNamespace, empty: dict[str, Any]
) -> None:
    """The controller is provisioned first: when its scripts run, the workers' group says null."""
    resources = {
        **RESOURCES,
        "InstanceGroups": [RESOURCES["InstanceGroups"][0], {"Name": "gpu", **empty}],
    }  # type: ignore[index]
    me = scripts.node.identify(CLUSTER, resources, {"10.1.0.5"})
    assert (me.role, me.controller_address) == ("controller", "10.1.0.5")


def test_an_address_that_comes_late_is_waited_for(
    scripts: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "resource_config.json"
    given.write_text(json.dumps({**RESOURCES, "InstanceGroups": None}))
    monkeypatch.setattr(scripts.node, "own_addresses", lambda _environ: {"10.1.0.6"})
    monkeypatch.setattr(
        scripts.node.time, "sleep", lambda _seconds: given.write_text(json.dumps(RESOURCES))
    )
    assert scripts.node.await_identity(CLUSTER, given, {}).role == "worker"


def test_a_name_that_has_no_address_yet_is_waited_for_and_one_that_never_has_fails_the_node(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filesystem = {
        "dnsName": "fs-1.fsx.eu-west-1.amazonaws.com",
        "mountName": "abc",
        "mountPath": "/fsx",
    }
    node = on_aws(scripts, tmp_path, bundle, sharedFilesystem=filesystem)
    asked: list[str] = []

    def resolves(host: str) -> bool:
        asked.append(host)
        return asked.count(host) > 2

    monkeypatch.setattr(scripts.step_network, "resolves", resolves)
    monkeypatch.setattr(scripts.step_network, "LOOK_SECONDS", 0.0)
    scripts.step_network.names(node)
    assert set(asked) == {
        filesystem["dnsName"],
        *(f"{name}.eu-west-1.amazonaws.com" for name in ("secretsmanager", "s3", "events")),
    }
    monkeypatch.setattr(scripts.step_network, "resolves", lambda _host: False)
    monkeypatch.setattr(scripts.step_network, "NAMES_SECONDS", 0.0)
    with pytest.raises(scripts.node.StepFailed, match=r"fs-1\.fsx.* has no address after"):
        scripts.step_network.names(node)
