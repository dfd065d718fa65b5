"""sam_on_moto alone runs a template that is not ours: it is started, used as AWS is, and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import psutil
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.support.patience import patient
from tests.support.waiting import eventually

import sam_on_moto

HOME = Path(sam_on_moto.__file__).parent
EXAMPLE = HOME / "example/template.yaml"


def start(folder: Path, *arguments: str, cwd: Path | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sam_on_moto", *arguments]
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(folder)}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return subprocess.Popen(
        command,
        cwd=cwd or folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module", params=[(), ("--stock-speed",)], ids=["fast", "stock speed"])
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """What the command prints of the example while it runs; afterwards nothing of it is left."""
    folder = tmp_path_factory.mktemp("shop")
    process = start(folder, str(EXAMPLE), "--port", "0", *request.param)
    try:
        yield printed(process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=patient(10))
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, errors) == (0, "")
    assert list(folder.iterdir()) == []
    assert tagged(folder) == []


def printed(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout
    assert process.stderr
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line == "}\n":
            facts: dict[str, Any] = json.loads("".join(lines))
            return facts
    raise AssertionError(process.stderr.read())


def tagged(folder: Path) -> list[psutil.Process]:
    """The processes of a cloud whose state lies in the folder."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        if environment.get("SAM_ON_MOTO", "").startswith(str(folder)):
            found.append(process)
    return found


def client(shop: dict[str, Any], service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=shop["endpoint"],
        region_name=shop["region"],
        aws_access_key_id=shop["accessKeyId"],
        aws_secret_access_key=shop["secretAccessKey"],
    )


def call(shop: dict[str, Any], method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """A signed call of the example's API."""
    data = b"" if body is None else json.dumps(body).encode()
    request = AWSRequest(method, shop["apiUrl"] + path, data=data)
    keys = Credentials(shop["accessKeyId"], shop["secretAccessKey"])
    SigV4Auth(keys, "execute-api", shop["region"]).add_auth(request)
    return send(request.url, method, data, dict(request.headers))


def send(url: str, method: str, data: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    request = urllib.request.Request(url, data=data or None, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=patient(10)) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_the_example_works_with_and_without_the_patches_for_speed(shop: dict[str, Any]) -> None:
    placed = {"id": "1", "state": "placed", "what": "tea"}
    assert call(shop, "PUT", "/orders/1", {"what": "tea"}) == (201, placed)
    queue = {"QueueUrl": shop["outputs"]["Parcels"], "WaitTimeSeconds": 1}
    parcel = eventually(
        "a parcel", lambda: client(shop, "sqs").receive_message(**queue).get("Messages")
    )
    assert [message["Body"] for message in parcel] == ["1"]
    shipped = {**placed, "state": "shipped"}
    eventually("it is shipped", lambda: call(shop, "GET", "/orders/1") == (200, shipped))
    table = {"TableName": shop["outputs"]["Orders"]}
    item = client(shop, "dynamodb").get_item(**table, Key={"id": {"S": "1"}})["Item"]
    assert item["state"] == {"S": "shipped"}
    assert call(shop, "GET", "/orders/2") == (404, {"message": "no order 2"})
    assert send(shop["apiUrl"] + "/orders/1", "GET", b"", {})[0] == 403


def test_the_line_that_the_page_begins_with_works_in_the_folder_that_it_names(
    tmp_path: Path,
) -> None:
    """Rooms are on the path of modules there, so none may have a name of the standard library."""
    [line] = [text for text in (HOME / "README.md").read_text().splitlines() if "example/" in text
              and text.startswith("    ")]  # fmt: skip
    assert line == "    python -m sam_on_moto example/template.yaml"
    process = start(tmp_path, *line.split()[3:], "--port", "0", cwd=HOME)
    try:
        shop = printed(process)
        placed = {"id": "1", "state": "placed", "what": "tea"}
        assert call(shop, "PUT", "/orders/1", {"what": "tea"}) == (201, placed)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=patient(10))
    finally:
        process.kill()
        process.wait()


def test_what_only_trainyard_does_is_refused(shop: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="has no service 'sagemaker'"):
        client(shop, "sagemaker").list_clusters()


def test_a_template_that_cannot_be_deployed_is_refused_in_words(tmp_path: Path) -> None:
    process = start(tmp_path, "gone.yaml", "--port", "0")
    output, errors = process.communicate(timeout=patient(20))
    assert (process.returncode, output) == (1, "")
    assert "cannot read the template" in errors
    assert list(tmp_path.iterdir()) == []
