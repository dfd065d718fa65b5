"""The batch script and the bundle of a job that runs in a container image."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.spec_parts import ON_FSX, cluster_spec
from tests.unit.trainyard.domain.test_recipes import EVIL, GOLDEN, RUN, run

from trainyard.domain.recipes import batch_script, job_bundle, needs
from trainyard.domain.records import Attempt
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.specs import JobSpec

IMAGE = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-training:2.7"


def job(**changes: Any) -> JobSpec:
    return JobSpec.model_validate({"nodes": 1, "module": "train", "image": IMAGE, **changes})


def test_the_step_runs_in_the_image_that_its_first_node_has_imported() -> None:
    script = batch_script(RUN, 3, 2, in_image=True)
    assert script == (GOLDEN / "job-in-image.sbatch").read_text()


def test_all_before_the_step_is_as_without_an_image_and_no_variable_of_the_node_goes_along() -> (
    None
):
    on_nodes, in_image = batch_script(RUN, 3, 2), batch_script(RUN, 3, 2, in_image=True)
    assert in_image.startswith(on_nodes.partition("export PYTHONPATH")[0])
    assert "PYTHONPATH" not in in_image
    assert "@PYTHON@" not in in_image


def test_no_string_of_the_users_is_in_the_script() -> None:
    bundle = job_bundle(run(image=IMAGE, arguments=[EVIL]), Attempt(number=3))
    assert bundle.batch_script == batch_script(RUN, 3, 2, in_image=True)


def test_the_bundle_names_image_digest_and_what_is_mounted_besides() -> None:
    mounts = [{"bucket": "sagemaker-texts", "mountPath": "/data"}]
    cluster = read_cluster_spec({**cluster_spec(), **ON_FSX, "s3Mounts": mounts})
    first = job_bundle(run(image=IMAGE), Attempt(number=1), cluster).image
    assert first is not None
    assert (first.name, first.digest, first.mounts) == (IMAGE, "", ["/data"])
    later = run(image=IMAGE).changed(image_digest="sha256:1")
    second = job_bundle(later, Attempt(number=2), cluster).image
    assert second is not None
    assert second.digest == "sha256:1", "a tag that moved changes nothing"
    assert job_bundle(run(), Attempt(number=1), cluster).image is None


def test_an_older_agent_is_told_that_the_job_needs_images() -> None:
    assert needs(run(image=IMAGE)) == "image"
    assert needs(run()) == ""


def test_packages_of_the_jobs_own_belong_into_the_image() -> None:
    with pytest.raises(ValueError, match=r"image: .* remove 'pythonEnvironment'"):
        job(pythonEnvironment={"requirements": ["numpy"]})
    with pytest.raises(ValueError, match="must be an image such as"):
        job(image="Not An Image")


def test_a_file_must_lie_where_all_nodes_have_it() -> None:
    cluster = read_cluster_spec(cluster_spec())
    assert job(image="/fsx/images/a.sqsh").unfit(cluster) is None
    assert job().unfit(cluster) is None
    field, words = job(image="/home/a.sqsh").unfit(cluster) or ("", "")
    assert field == "image"
    assert "not below /fsx" in words
