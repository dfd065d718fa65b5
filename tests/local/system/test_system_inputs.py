"""What a run reads is there before its program starts, at each attempt, and is never exported."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from tests.support.system import Json, System

from trainyard_cli.problems import ApiProblem
from trainyard_contracts import places
from trainyard_sdk.upload.packing import pack
from trainyard_sdk.upload.rules import DATA_RULE_FILES, Rules
from trainyard_sdk.upload.scan import scan
from trainyard_sdk.upload.send import send
from trainyard_sdk.upload.to_s3 import Destination, s3_client, send_to_s3

BUCKET = "sagemaker-corpus"
#: Reads all that it is given, and waits at its first attempt to be interrupted.
READ = """
import hashlib, json, os, pathlib, sys, time
attempt, node = os.environ["TRAINYARD_ATTEMPT"], os.environ["SLURMD_NODENAME"]
found = {
    f"{top}/{path.relative_to(top)}": hashlib.sha256(path.read_bytes()).hexdigest()
    for top in map(pathlib.Path, sys.argv[1:])
    for path in sorted(top.rglob("*"))
    if path.is_file()
}
output = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
(output / f".seen-{node}").write_text(json.dumps(found))
(output / f".seen-{node}").rename(output / f"seen-{attempt}-{node}.json")
while attempt == "1" and os.environ["INTERRUPTED"] == "yes":
    time.sleep(0.1)
"""


def job(*paths: str, nodes: int = 1, interrupted: str = "no") -> Json:
    return {
        "recipe": "command",
        "nodes": nodes,
        "script": "read.py",
        "arguments": list(paths),
        "files": {"read.py": READ},
        "environment": {"INTERRUPTED": interrupted},
    }


def seen(system: System, run_id: str, attempt: int) -> list[Json]:
    output = system.run_dir(run_id) / "output"
    return [json.loads(path.read_text()) for path in output.glob(f"seen-{attempt}-*.json")]


def sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.fixture(scope="module")
def corpus(system: System, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Objects of somebody's bucket: small ones as we upload them, and one that came in parts."""
    s3 = system.aws("s3")
    s3.create_bucket(Bucket=BUCKET)
    objects = {
        "v1/a.txt": b"first\n",
        "v1/inner/b+c d.bin": bytes(range(256)) * 100,
        "v1/large.bin": os.urandom(11 * 1024 * 1024),
        "other/x.txt": b"not asked for",
    }
    directory = tmp_path_factory.mktemp("corpus")
    for key in ("v1/a.txt", "v1/inner/b+c d.bin"):
        (directory / key).parent.mkdir(parents=True, exist_ok=True)
        (directory / key).write_bytes(objects[key])
    client, where = s3_client(system.api.connection), Destination(BUCKET, "v1/")
    for expected in (["a.txt", "inner/b+c d.bin"], []):
        assert send_to_s3(client, scan(directory / "v1"), where, lambda *_: None) == expected
    s3.put_object(Bucket=BUCKET, Key="other/x.txt", Body=objects["other/x.txt"])
    body, step = objects["v1/large.bin"], 5 * 1024 * 1024
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="v1/large.bin")["UploadId"]
    parts = []
    for number, start in enumerate(range(0, len(body), step), 1):
        part = s3.upload_part(
            Bucket=BUCKET,
            Key="v1/large.bin",
            UploadId=upload,
            PartNumber=number,
            Body=body[start : start + step],
        )
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    s3.complete_multipart_upload(
        Bucket=BUCKET, Key="v1/large.bin", UploadId=upload, MultipartUpload={"Parts": parts}
    )
    return {key.removeprefix("v1/"): body for key, body in objects.items() if key[:3] == "v1/"}


def test_objects_and_uploaded_data_are_there_at_both_attempts_and_are_no_results(
    system: System, shared: str, corpus: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "texts/train").mkdir(parents=True)
    (tmp_path / "texts/train/0.txt").write_text("tokens")
    packed = pack(tmp_path / "texts", rules=Rules(DATA_RULE_FILES))
    assert send(system.api, packed, lambda _done, _total: None, "texts") == 2
    assert send(system.api, packed, lambda _done, _total: None, "texts") == 0
    inputs = [
        {"source": f"s3://{BUCKET}/v1/", "path": "data/corpus"},
        {"source": "texts", "path": "texts"},
    ]
    run_id = system.submit(
        "reads", job("data/corpus", "texts", nodes=2, interrupted="yes"), shared, inputs=inputs
    )
    both = "both nodes have read"
    run = system.until(run_id, both, lambda _: len(seen(system, run_id, 1)) == 2)
    victim = system.node(shared, run["attempts"][0]["nodes"][1])
    system.fault("kill-node", shared, node=victim["instanceId"])
    system.ended(run_id, "Succeeded")
    expected = {f"data/corpus/{name}": sha(body) for name, body in corpus.items()}
    expected["texts/train/0.txt"] = sha(b"tokens")
    for number in (1, 2):
        assert seen(system, run_id, number) == [expected, expected]
    exported = [key.partition("/export/")[2] for key in system.exported(run_id)]
    assert not [key for key in exported if "corpus" in key or "texts" in key or "inputs" in key]
    assert "It reads 'data/corpus' (3 objects, " in system.story(run_id)


def test_an_absolute_path_is_one_copy_that_two_runs_read(
    system: System, shared: str, corpus: dict[str, bytes]
) -> None:
    given = [{"source": f"s3://{BUCKET}/v1", "path": "/fsx/corpora/v1"}]
    if os.geteuid() != 0:
        pytest.skip("a mount namespace takes root")
    first = system.submit("one", job("/fsx/corpora/v1"), shared, inputs=given)
    system.ended(first, "Succeeded")
    [copy] = (system.state_dir / "fsx").glob("*/corpora/v1/a.txt")
    before = copy.stat().st_ino
    second = system.submit("two", job("/fsx/corpora/v1"), shared, inputs=given)
    system.ended(second, "Succeeded")
    assert copy.stat().st_ino == before
    expected = {f"/fsx/corpora/v1/{name}": sha(body) for name, body in corpus.items()}
    assert seen(system, first, 1) == seen(system, second, 1) == [expected]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (f"s3://{BUCKET}/v9/", "no object below"),
        ("s3://sagemaker-corpus-of-others/", "name it in jobInputs"),
        ("never-uploaded", "trainyard data upload DIRECTORY never-uploaded"),
    ],
)
def test_what_is_not_there_is_refused_before_there_is_a_run(
    system: System, shared: str, corpus: dict[str, bytes], source: str, words: str
) -> None:
    with pytest.raises(ApiProblem) as refused:
        system.submit("no", job("x"), shared, inputs=[{"source": source, "path": "x"}])
    assert words in f"{refused.value.detail} {refused.value.errors}"


def test_what_only_the_nodes_can_see_ends_the_run_in_one_sentence(
    system: System, shared: str, corpus: dict[str, bytes]
) -> None:
    system.aws("s3").put_object(Bucket=BUCKET, Key="v8/secret.txt", Body=b"not for nodes")
    iam, path = system.aws("iam"), places.cluster_roles_path("trainyard", shared)
    [role] = iam.list_roles(PathPrefix=path)["Roles"]
    denial = {
        "Effect": "Deny",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{BUCKET}/v8/*",
    }
    given = {"RoleName": role["RoleName"], "PolicyName": "trouble"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [denial]})
    iam.put_role_policy(**given, PolicyDocument=document)
    try:
        inputs = [{"source": f"s3://{BUCKET}/v8/", "path": "data"}]
        run_id = system.submit("denied", job("data"), shared, inputs=inputs)
        run = system.ended(run_id, "Failed")
    finally:
        iam.delete_role_policy(**given)
    assert run["problem"]["code"] == "input-refused"
    words = f"inputs.0.source: s3://{BUCKET}/v8/: the nodes' role may not read it"
    assert words in run["problem"]["detail"]
