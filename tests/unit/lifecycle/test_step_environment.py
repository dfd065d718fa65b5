"""The Python environment of jobs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.lifecycle import a_node, on_aws


@pytest.mark.real
def test_local_nodes_share_an_environment_that_also_sees_what_their_own_python_has(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    shared = tmp_path / "shared"
    environment = {"kind": "venv", "requirements": ["pip>=20", "pydantic"]}
    controller, *workers = [
        a_node(scripts, tmp_path / address, bundle, address, environment=environment)
        for address in ("10.1.0.5", "10.1.0.6", "10.1.0.7")
    ]
    for node in (controller, *workers):
        node.environ["TRAINYARD_SHARED"] = str(shared)
        scripts.step_environment.job_environment(node)
    pythons = {scripts.step_environment.job_python(node) for node in (controller, *workers)}
    assert pythons == {f"{shared}/trainyard/environments/c/bin/python"}
    program = "import pip, pydantic, pytest; print(pip.__file__); print(pytest.__file__)"
    own, base = scripts.node.command([pythons.pop(), "-c", program]).split()
    assert own.startswith(str(shared)), "what is installed into it comes first"
    assert base == pytest.__file__


@pytest.mark.real
def test_a_requirement_that_does_not_exist_fails_the_node_with_pips_words(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path
) -> None:
    node = a_node(
        scripts,
        tmp_path / "root",
        bundle,
        environment={"kind": "venv", "requirements": ["pip==0.0.99"]},
    )
    with pytest.raises(scripts.node.StepFailed, match=r"pip==0\.0\.99"):
        scripts.step_environment.job_environment(node)


def test_what_the_network_refuses_at_first_is_tried_again_but_not_for_ever(
    scripts: SimpleNamespace, tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = on_aws(scripts, tmp_path, bundle)
    monkeypatch.setattr(scripts.node.time, "sleep", lambda _seconds: None)
    tries: list[int] = []

    def action() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise scripts.node.StepFailed("refused")
        return "done"

    assert scripts.node.repeatedly(node, "mount", action) == "done"
    tries.clear()

    def never() -> str:
        tries.append(1)
        raise scripts.node.StepFailed("refused")

    with pytest.raises(scripts.node.StepFailed):
        scripts.node.repeatedly(node, "mount", never)
    assert len(tries) == scripts.node.TRIES
