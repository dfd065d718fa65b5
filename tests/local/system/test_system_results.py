"""A program without Trainyard keeps its result: its files are exported, or its cluster stays."""

from __future__ import annotations

from tests.support.spec_parts import cluster_spec
from tests.support.system import Json, System

#: What any tutorial does, and the same into the directory that is meant for it.
PLAIN = """
import os, pathlib
pathlib.Path("out").mkdir()
pathlib.Path("out/model.pt").write_bytes(b"weights")
seen = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"]) / "seen"
seen.write_text(seen.read_text() + "again" if seen.exists() else "once")
"""


def plain(program: str) -> Json:
    return {"recipe": "command", "nodes": 1, "script": "train.py", "files": {"train.py": program}}


def test_a_plain_scripts_model_is_exported_before_its_cluster_goes(system: System) -> None:
    run_id = system.submit("plain", plain(PLAIN), cluster_spec("plain"))
    assert "TRAINYARD_OUTPUT_DIR" in system.api.run(run_id)["warnings"][0]
    run = system.ended(run_id, "Succeeded")
    bucket, prefix = system.local["bucket"], system.export_prefix(run_id)
    held = {
        key: system.aws("s3").get_object(Bucket=bucket, Key=prefix + key)["Body"].read()
        for key in OWN
    }
    assert held == OWN
    system.assert_gone(system.api.cluster(run["clusterName"]))


OWN = {"working/out/model.pt": b"weights", "output/seen": b"once"}


def test_a_run_without_any_result_keeps_its_cluster_and_says_what_to_do(system: System) -> None:
    run_id = system.submit("nothing", plain("print('trained')"), cluster_spec("nothing"))
    run = system.ended(run_id, "Succeeded")
    assert "No result was found" in run["teardownRefused"]
    assert "No result was found" in system.story(run_id)
    system.sweep()
    assert system.api.cluster(run["clusterName"])["status"] == "Ready"
    system.api.delete_cluster(run["clusterName"])
    system.assert_gone(system.api.cluster(run["clusterName"]))
