"""Single fields of a spec are changed from the command line, and slips are named."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard_cli.overrides import differences, overridden, same_commit
from trainyard_cli.problems import InvalidInput

SPEC: dict[str, Any] = {
    "name": "mine",
    "cluster": {"name": "shared"},
    "job": {"nodes": 2, "script": "train.py", "arguments": ["--lr", "1"]},
}


def changed(*fields: str, **more: Any) -> dict[str, Any]:
    return overridden(SPEC, fields=fields, **more)


@pytest.mark.parametrize(
    ("given", "path", "value"),
    [
        ("job.nodes=4", ("job", "nodes"), 4),
        ("name=other", ("name",), "other"),
        ("name=12", ("name",), "12"),
        ("name='12'", ("name",), "12"),
        ("job.arguments=[a, b]", ("job", "arguments"), ["a", "b"]),
        ("job.arguments.1=0.1", ("job", "arguments", 1), "0.1"),
        ("job.arguments.2=more", ("job", "arguments", 2), "more"),
        ("job.arguments=[--steps, 010, 0.10, 1e-5]", ("job", "arguments", 1), "010"),
        ("job.arguments=[--steps, 010, 0.10, 1e-5]", ("job", "arguments", 2), "0.10"),
        ("job.environment={SEED: 1_0}", ("job", "environment", "SEED"), "1_0"),
        ("job.environment.A.B=010", ("job", "environment", "A.B"), "010"),
        ("job.environment.SEED=7", ("job", "environment", "SEED"), "7"),
        ("job.files.a/b.py=x: 1", ("job", "files", "a/b.py"), "x: 1"),
        ("checkpoint.everySeconds=auto", ("checkpoint", "everySeconds"), "auto"),
        ("checkpoint.everySeconds=2.5", ("checkpoint", "everySeconds"), 2.5),
        ("recovery.maxAttempts=3", ("recovery", "maxAttempts"), 3),
        ("export.enabled=false", ("export", "enabled"), False),
        (r"progress={regex: '(?P<step>\d+)'}", ("progress", "regex"), r"(?P<step>\d+)"),
        (r"progress.regex=at (?P<step>\d+)", ("progress", "regex"), r"at (?P<step>\d+)"),
    ],
)
def test_a_value_gets_to_its_field(given: str, path: tuple[Any, ...], value: Any) -> None:
    found: Any = changed(given)
    for part in path:
        found = found[part]
    assert found == value
    assert type(found) is type(value)


def test_null_takes_a_field_out_and_the_spec_that_was_given_stays_as_it_is() -> None:
    assert "script" not in changed("job.script=null")["job"]
    assert changed("job.arguments.0=null")["job"]["arguments"] == ["1"]
    assert SPEC["job"]["script"] == "train.py"
    assert changed("teardown=null") == SPEC


def test_a_cluster_of_the_runs_own_is_reached_by_its_items() -> None:
    spec = {**SPEC, "cluster": {"spec": {"name": "c", "instanceGroups": [{"count": 1}]}}}
    found = overridden(spec, fields=["cluster.spec.instanceGroups.0.count=4"])
    assert found["cluster"]["spec"]["instanceGroups"] == [{"count": 4}]


def test_variables_name_and_arguments_have_options_of_their_own() -> None:
    found = changed(environment=["A=1", "B=x=y"], name="n", arguments=["--lr", "2"])
    assert found["job"]["environment"] == {"A": "1", "B": "x=y"}
    assert (found["name"], found["job"]["arguments"]) == ("n", ["--lr", "2"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("job.node=4", "Did you mean job.nodes?"),
        ("job.processes_per_node=4", "Did you mean job.processesPerNode?"),
        ("jobs.nodes=4", "Did you mean job?"),
        ("checkpoint.everyStep=4", "Did you mean checkpoint.everySteps?"),
        ("zzz=4", "It has "),
        ("name.x=4", "docs/reference/specs.md"),
        ("job.arguments.x=4", "Write job.arguments.0"),
        ("job.arguments.9=4", "2 adds one"),
        ("job.nodes", "Write it as --set job.nodes=4"),
        ("=4", "Write it as --set job.nodes=4"),
        ("job.nodes=[1", "Put it in quotes"),
        (r'progress={regex: "step (?P<step>\d+)"}', "use single quotes inside"),
        (r'progress={regex: "step (?P<step>\d+)"}', "or --set progress.regex=VALUE"),
        (r'job.script="a\xg"', "use single quotes inside"),
        (r'job.script="\UFFFFFFFF"', "Put it in quotes"),
    ],
)
def test_a_slip_is_refused_with_what_may_be_meant(given: str, words: str) -> None:
    with pytest.raises(InvalidInput) as error:
        changed(given)
    assert words in error.value.next_step
    assert given.partition("=")[0] in str(error.value)


def test_what_is_no_mapping_is_not_set_into() -> None:
    with pytest.raises(InvalidInput, match="something else there"):
        overridden({"name": "a", "job": "text"}, fields=["job.nodes=4"])


def test_differences_name_the_fields_and_both_values() -> None:
    after = changed("job.nodes=4", "job.script=null", "recovery.maxAttempts=3")
    assert list(differences(SPEC, after)) == [
        ("job.nodes", 2, 4),
        ("job.script", "train.py", None),
        ("recovery", None, {"maxAttempts": 3}),
    ]
    assert list(differences(SPEC, dict(SPEC))) == []


def test_a_rerun_has_the_commit_of_its_run_unless_another_one_is_named() -> None:
    run = {"spec": {}, "code": {"commit": "c0ffee", "url": "u", "ref": "main"}}
    assert same_commit(run, ["job.nodes=2"]) == ["job.git.ref=c0ffee"]
    for other in ("job.git.ref=main", "job.git.url=https://h/x", "job.git=null"):
        assert same_commit(run, [other]) == []
    assert same_commit({"spec": {}, "code": None}, []) == []
