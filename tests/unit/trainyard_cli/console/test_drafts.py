"""The text of the submit page: read as the command line reads a file."""

from __future__ import annotations

import pytest
from tests.support.repository import ROOT

from trainyard_cli.console import files
from trainyard_cli.console.drafts import run_spec
from trainyard_sdk.connection import Connection
from trainyard_sdk.problems import InvalidInput
from trainyard_sdk.spec_files import read_spec

AWS = Connection("https://api.example.com", "us-east-1", None)
LOCAL = Connection("http://127.0.0.1:9", "us-east-1", {"region": "us-east-1"})


@pytest.mark.parametrize("name", ["command", "ddp-demo", "finetune-bert"])
def test_an_example_is_read_as_its_file_is(name: str) -> None:
    path = ROOT / f"examples/{name}.yaml"
    assert run_spec(path.read_bytes(), AWS) == read_spec(str(path), "run")


def test_json_is_read_too() -> None:
    assert run_spec(b'{"job": {"nodes": 2}}', AWS) == {"job": {"nodes": 2}}


def test_the_page_begins_with_an_example_of_the_repository() -> None:
    shown = files.read().by_path["/static/example.yaml"].content
    assert shown == (ROOT / "examples/command.yaml").read_bytes()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "empty or no mapping"),
        (b"- a", "empty or no mapping"),
        (b"a: [", "not YAML"),
        (b"a: 1\na: 2", "not YAML"),
        (b"a: 2020-01-01", "JSON does not know"),
        (b"budget: {maxUsd: .nan}", "a number that is none"),
        (b"\xff", "cannot be read"),
        (b"instanceGroups: []", "a cluster's spec"),
        (b"run: {}", "of an array or a schedule"),
        (b"a: !!python/object/apply:os.system [true]", "not YAML"),
        (b"job: {workdir: .}", "uploads no directory"),
        (b"job: {workdir: /etc}", "uploads no directory"),
    ],
)
def test_what_is_no_spec_of_a_run_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        run_spec(text, AWS)
    assert words in caught.value.title
    assert caught.value.next_step


def test_the_upload_of_another_run_is_taken() -> None:
    spec = {"job": {"workdir": "0a" * 32}}
    assert run_spec(b'{"job": {"workdir": "%s"}}' % (b"0a" * 32), AWS) == spec


def test_a_container_is_refused_where_none_can_run() -> None:
    text = b"job: {image: pytorch}"
    assert run_spec(text, AWS) == {"job": {"image": "pytorch"}}
    with pytest.raises(InvalidInput, match="runs no containers"):
        run_spec(text, LOCAL)
