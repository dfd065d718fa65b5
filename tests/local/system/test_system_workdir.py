"""A directory of the user's own goes with its run: the same bytes at each attempt, results back."""

from __future__ import annotations

import hashlib
import json

import httpx
from tests.support.spec_parts import cluster_spec
from tests.support.system import Json, System, eventually
from tests.support.trees import packed, upload_spec

#: Knows nothing of Trainyard but its output directory: it has packages, data, and a snapshot beside
#: itself, by which it goes on.
TRAIN = b"""
import hashlib, json, os, pathlib, time
from tools.numbers import STEPS
attempt, node = os.environ["TRAINYARD_ATTEMPT"], os.environ["SLURMD_NODENAME"]
first = os.environ["SLURM_PROCID"] == "0"
found = {
    str(path): hashlib.sha256(path.read_bytes()).hexdigest()
    for path in sorted(pathlib.Path(".").rglob("*"))
    if path.is_file() and path.suffix in (".py", ".bin", ".yaml")
}
output = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
snapshot = pathlib.Path("snapshot.json")
step = json.loads(snapshot.read_text())["step"] if snapshot.exists() else 0
seen = {"files": found, "resumed": step}
if first and not step:
    pathlib.Path("new").write_text(json.dumps({"step": STEPS // 2}))
    pathlib.Path("new").rename(snapshot)
(output / f".seen-{node}").write_text(json.dumps(seen))
(output / f".seen-{node}").rename(output / f"seen-{attempt}-{node}.json")
# The files stay as they came until all nodes have seen them.
nodes = int(os.environ["SLURM_NNODES"])
while attempt == "1" or len(list(output.glob(f"seen-{attempt}-*.json"))) < nodes:
    time.sleep(0.1)
if first:
    pathlib.Path("models").mkdir(exist_ok=True)
    pathlib.Path("models/final.bin.pt").write_bytes(b"trained to %d" % STEPS)
    pathlib.Path("conf.yaml").write_text("steps: changed by the program")
"""
FILES = {
    "train.py": TRAIN,
    "tools/__init__.py": b"",
    "tools/numbers.py": b"STEPS = 40\n",
    "conf.yaml": b"steps: 40\n",
    "data/large.bin": bytes(range(256)) * 40_000,
}
HASHES = {path: hashlib.sha256(body).hexdigest() for path, body in FILES.items()}


def upload(system: System, files: dict[str, bytes]) -> str:
    """As a client does: ask, PUT what is missing, ask again until it is complete; the id."""
    tree, packs = packed(files, links={"latest": "data"}, empty=("models",), chunk=4 * 1024 * 1024)
    body = upload_spec(tree, packs)
    bytes_of = {**packs, body["tree"]["sha256"]: tree.document()}

    def complete() -> str | None:
        answer: Json = system.api._call("POST", "/v1/uploads", body=body)
        for missing in answer["missing"]:
            put = httpx.put(
                missing["url"], content=bytes_of[missing["sha256"]], headers=missing["headers"]
            )
            assert put.status_code == 200, put.text
        return str(answer["id"]) if answer["state"] == "Complete" else None

    return str(eventually("the upload is complete", complete))


def job(workdir: str, nodes: int = 2) -> Json:
    return {"recipe": "command", "nodes": nodes, "script": "train.py", "workdir": workdir}


def seen(system: System, run_id: str, attempt: int) -> list[Json]:
    """What each node's program saw at the attempt."""
    output = system.run_dir(run_id) / "output"
    return [json.loads(path.read_text()) for path in output.glob(f"seen-{attempt}-*.json")]


def test_a_directory_is_the_same_at_each_attempt_and_its_results_come_back(
    system: System, shared: str
) -> None:
    run_id = system.submit("workdir", job(upload(system, FILES)), shared)
    both = f"both nodes run the program of {run_id}"
    run = system.until(run_id, both, lambda _: len(seen(system, run_id, 1)) == 2)
    assert run["code"]["files"] == len(FILES)
    victim = system.node(shared, run["attempts"][0]["nodes"][1])
    system.fault("kill-node", shared, node=victim["instanceId"])
    ended = system.ended(run_id, "Succeeded")
    assert [attempt["outcome"] for attempt in ended["attempts"]] == ["lost", "succeeded"]
    for number in (1, 2):
        assert [found["files"] for found in seen(system, run_id, number)] == [HASHES, HASHES]
    assert {found["resumed"] for found in seen(system, run_id, 2)} == {20}
    exported = {key.partition("/export/")[2] for key in system.exported(run_id)}
    working = {key for key in exported if key.startswith("working/")}
    assert working == {
        "working/snapshot.json", "working/models/final.bin.pt", "working/conf.yaml"
    }, "what came with the submission and is unchanged is not a result"  # fmt: skip


def test_a_run_of_the_same_directory_uploads_nothing_and_needs_no_upload_later(
    system: System, shared: str
) -> None:
    files = {"train.py": b"import pathlib\npathlib.Path('seen').touch()\n"}
    tree = upload(system, files)
    first = system.submit("once", job(tree, nodes=1), shared)
    system.ended(first, "Succeeded")
    s3, bucket = system.aws("s3"), system.local["bucket"]
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="uploads/")
    for key in [found["Key"] for page in pages for found in page.get("Contents", [])]:
        s3.delete_object(Bucket=bucket, Key=key)  # as S3 does after 30 days
    again = system.submit("again", job(tree, nodes=1), shared)
    system.ended(again, "Succeeded")
    assert f"{system.api.run(again)['objectsPrefix']}/export/working/seen" in system.exported(again)


def test_a_run_with_an_upload_of_its_own_cluster_has_its_copy_before_the_cluster_is_asked_for(
    system: System,
) -> None:
    files = {"train.py": b"print('trained')\n", "model.pt": b"as it came"}
    run_id = system.submit("own", job(upload(system, files), nodes=1), cluster_spec("own-code"))
    types = [entry["type"] for entry in system.until(
        run_id, "the run has a cluster", lambda run: run["status"] != "Pending"
    ) and system.timeline(run_id)]  # fmt: skip
    assert "CodeKept" in types
    run = system.ended(run_id, "Succeeded")
    system.api.delete_cluster(run["clusterName"])
    system.assert_gone(system.api.cluster(run["clusterName"]))
