"""No string of a user's meets a shell: the batch script is fixed, the rest travels as data."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.repository import ROOT
from tests.support.spec_parts import ON_FSX

from trainyard.domain import names
from trainyard.domain.recipes import batch_script, job_bundle, needs
from trainyard.domain.records import Attempt, Run
from trainyard_contracts.cluster_specs import ClusterSpec, read_cluster_spec
from trainyard_contracts.files import JobBundle
from trainyard_contracts.specs import CheckpointSpec, JobSpec, RunSpec
from trainyard_trainers.launch import launchers

GOLDEN = ROOT / "tests/data/launchers"
#: By the launchers' files, so that a new recipe is tested by being there.
RECIPES = launchers.known()
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)
RUN = "run-01jd0000000000000000000000"
EVIL = "; rm -rf / #$(reboot)`id`\n#SBATCH --uid=0"


def run(**job: object) -> Run:
    spec = RunSpec.model_validate(
        {"name": "demo", "cluster": {"name": "c"}, "job": {"nodes": 2, "module": "train", **job}}
    )
    return Run(id=RUN, name="demo", spec=spec, created_at=NOW, updated_at=NOW, cluster_name="c")


@settings(max_examples=50, deadline=None)
@given(
    st.text(st.characters(blacklist_characters="\x00", blacklist_categories=["Cs"]), max_size=100)
)
def test_shell_metacharacters_arrive_as_data(text: str) -> None:
    given_run = run(
        arguments=[text, EVIL], environment={"A": text, "B": EVIL}, files={"a.py": text}
    )
    bundle = job_bundle(given_run, Attempt(number=3))
    assert bundle.batch_script == batch_script(RUN, 3, 2)
    again = JobBundle.model_validate(json.loads(bundle.model_dump_json(by_alias=True)))
    assert again.arguments == [text, EVIL]
    assert again.environment == {"A": text, "B": EVIL}
    assert again.files == {"a.py": text}


def test_the_batch_script_is_what_recovery_relies_on() -> None:
    script = batch_script(RUN, 3, 2)
    for needed in (
        "--no-requeue",
        "--open-mode=append",
        "--exclusive",
        "--kill-on-bad-exit=1",
        "--wait=86400",
        "--export=ALL",
        "--nodes=2",
    ):
        assert needed in script
    assert "exec srun" in script
    assert script.rstrip().endswith("@PYTHON@ -m trainyard_trainers.launch @ATTEMPT_DIR@")


def test_the_bundle_says_which_nodes_to_leave_out_and_to_set_down() -> None:
    bundle = job_bundle(run(), Attempt(number=2, exclude=["ip-1", "ip-2"], down=["ip-1"]))
    assert (bundle.exclude_nodes, bundle.down_nodes, bundle.program) == (
        ["ip-1", "ip-2"],
        ["ip-1"],
        ["-m", "train"],
    )


def cluster(*types: str) -> ClusterSpec:
    workers = [
        {
            "name": f"workers-{number}",
            "role": "worker",
            "instanceType": name,
            "count": 1,
            "partition": f"part-{number}",
        }
        for number, name in enumerate(types)
    ]
    controller = {
        "name": "controller",
        "role": "controller",
        "instanceType": "ml.c5.large",
        "count": 1,
    }
    return read_cluster_spec({"name": "c", "instanceGroups": [controller, *workers], **ON_FSX})


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_has_the_same_batch_script_and_travels_as_data(recipe: str) -> None:
    bundle = job_bundle(run(recipe=recipe), Attempt(number=3), cluster("ml.trn1.32xlarge"))
    assert bundle.batch_script == (GOLDEN / "job.sbatch").read_text()
    assert (bundle.recipe, bundle.instance_type) == (recipe, "ml.trn1.32xlarge")


def test_an_instance_type_is_told_only_where_all_nodes_of_the_job_have_it() -> None:
    two = cluster("ml.trn1.2xlarge", "ml.trn1.32xlarge")
    assert job_bundle(run(), Attempt(number=1), two).instance_type is None
    assert (
        job_bundle(run(partition="part-1"), Attempt(number=1), two).instance_type
        == "ml.trn1.32xlarge"
    )


def test_the_recipe_neuron_is_refused_where_there_is_no_neuron_device() -> None:
    job = JobSpec.model_validate({"recipe": "neuron", "nodes": 1, "module": "train"})
    field, message = job.unfit(cluster("ml.p5.48xlarge")) or ("", "")
    assert (
        field,
        "needs Trainium or Inferentia2 nodes, but cluster 'c' has ml.p5.48xlarge; use 'torchrun'"
        in message,
    ) == ("recipe", True)
    assert job.unfit(cluster("ml.trn2.48xlarge")) is None


def test_a_jobs_environment_and_its_interval_travel_in_the_bundle() -> None:
    own = {"kind": "uv", "python": "3.12", "requirements": ["unidecode==1.3.8"]}
    given = run(pythonEnvironment=own)
    given = given.model_copy(
        update={
            "spec": given.spec.model_copy(
                update={"checkpoint": CheckpointSpec(every_seconds="auto")}
            )
        }
    )
    document = json.loads(job_bundle(given, Attempt(number=1)).model_dump_json(by_alias=True))
    assert document["pythonEnvironment"] == own
    assert (document["checkpointEverySeconds"], document["secondsBetweenFailures"]) == (
        "auto",
        86400,
    )
    JobBundle.model_validate(document)


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (
            {"job": {"recipe": "horovod"}},
            "job.recipe",
            ", ".join(map(repr, RECIPES[:-1])) + f" or {RECIPES[-1]!r}",
        ),
        ({"job": {"precompile": True}}, "job", "recipe 'torchrun' compiles nothing ahead"),
        (
            {"job": {"pythonEnvironment": {"kind": "pipenv", "requirements": ["a"]}}},
            "job.pythonEnvironment.kind",
            "'venv', 'uv' or 'conda'",
        ),
        (
            {"job": {"pythonEnvironment": {"requirements": ["--index-url=http://x"]}}},
            "job.pythonEnvironment.requirements.0",
            "pattern",
        ),
        (
            {"job": {"pythonEnvironment": {"python": "3.9", "requirements": ["a"]}}},
            "job.pythonEnvironment",
            "use kind 'uv' or 'conda'",
        ),
        (
            {"checkpoint": {"everySeconds": "often"}},
            "checkpoint.everySeconds",
            "at most 86400, or 'auto'",
        ),
        (
            {"checkpoint": {"secondsBetweenFailures": 1}},
            "checkpoint.secondsBetweenFailures",
            "greater than or equal to 60",
        ),
    ],
)
def test_a_bad_field_is_named_with_what_would_do(
    change: dict[str, dict[str, object]], field: str, words: str
) -> None:
    base: dict[str, dict[str, object]] = {"job": {"nodes": 1, "module": "train"}, "checkpoint": {}}
    document = {
        "name": "demo",
        "cluster": {"name": "c"},
        **{key: {**value, **change.get(key, {})} for key, value in base.items()},
    }
    with pytest.raises(ValidationError) as refused:
        RunSpec.model_validate(document)
    [error] = refused.value.errors()
    assert ".".join(map(str, error["loc"])) == field
    assert words in error["msg"]


@pytest.mark.parametrize("name", ["a", "a" * 63, "a" * 55 + "-" + "b" * 7])
def test_a_cluster_made_for_a_run_has_a_valid_name(name: str) -> None:
    made = names.cluster_for_run(name, RUN)
    assert len(made) <= 63
    assert made.endswith("-000000")
    assert "--" not in made[-8:]


def test_a_job_is_always_submitted_to_a_partition_of_workers() -> None:
    assert job_bundle(run(), Attempt(number=1), cluster("ml.c5.large")).partition == "part-0"
    assert (
        job_bundle(
            run(partition="part-1"), Attempt(number=1), cluster("ml.c5.large", "ml.c5.large")
        ).partition
        == "part-1"
    )


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        (None, "has several partitions; name one of part-0, part-1"),
        ("dev", "no partition 'dev'; it has part-0, part-1"),
    ],
)
def test_a_job_that_names_no_partition_of_workers_is_refused_where_there_are_several(
    partition: str | None, words: str
) -> None:
    job = run(nodes=1, partition=partition).spec.job
    field, message = job.unfit(cluster("ml.c5.large", "ml.c5.large")) or ("", "")
    assert field == "partition"
    assert words in message


def test_a_job_asks_only_for_secrets_that_its_cluster_gives() -> None:
    job = run(nodes=1, secrets={"HF_TOKEN": "trainyard-jobs/hf:token"}).spec.job
    plain = cluster("ml.c5.large")
    assert job.unfit(plain) == (
        "secrets.HF_TOKEN",
        f"cluster '{plain.name}' gives its jobs no secret 'trainyard-jobs/hf'; name it in "
        "jobSecrets of the cluster's spec",
    )
    assert job.unfit(plain.model_copy(update={"job_secrets": ["trainyard-jobs/hf"]})) is None


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"secrets": {"A": "arn:aws:secretsmanager:x:1:secret:y"}}, r"job\.secrets\.A"),
        ({"secrets": {"A": "a b"}}, r"job\.secrets\.A"),
        ({"secrets": {"LD_PRELOAD": "a"}}, "is set by Trainyard or the node"),
        ({"secrets": {"A": "a"}, "environment": {"A": "b"}}, "A is in 'environment', too"),
    ],
)
def test_a_secret_that_cannot_be_meant_is_refused(job: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        run(**job)


def test_a_bundle_names_secrets_and_holds_none() -> None:
    secrets = {"HF_TOKEN": "trainyard-jobs/hf:token"}
    bundle = job_bundle(run(secrets=secrets), Attempt(number=1))
    assert bundle.secrets == secrets
    assert "HF_TOKEN" not in bundle.environment


def test_hyperparameters_travel_with_their_types_and_an_older_agent_is_told() -> None:
    asked = run(hyperparameters={"lr": 0.1, "flag": True})
    assert needs(asked) == "hyperparameters"
    assert job_bundle(asked, Attempt(number=1)).hyperparameters == {"lr": 0.1, "flag": True}
    assert needs(run(hyperparameters={})) == "hyperparameters", "the variables are wanted"
    assert job_bundle(run(), Attempt(number=1)).hyperparameters is None
