"""The image classifier learns on two ranks, ends equal after a kill, and names what misfits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy
import pytest
import torch
from tests.support.forked_jobs import ForkedJob, running

from trainyard_trainers.classify import train as classify
from trainyard_trainers.classify.train import ClassifyConfig, Images, make_model, read_images, split
from trainyard_trainers.common.config import ConfigError, build
from trainyard_trainers.common.packages import PackageMissing


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digits as a file, which ranks read much faster than they import scikit-learn."""
    path, found = tmp_path_factory.mktemp("digits") / "digits.pt", read_images("digits")
    torch.save({"images": found.images, "labels": found.labels}, path)
    return str(path)


@pytest.mark.parametrize(("model", "steps"), [("mlp", 150), ("conv", 70)])
def test_a_classifier_of_two_ranks_tells_digits_apart(
    tmp_path: Path, digits: str, model: str, steps: int
) -> None:
    data = "digits" if model == "mlp" else digits
    arguments = ["--model", model, "--data", data, "--steps", str(steps), "--evaluate-every", "50"]
    with running(ForkedJob(tmp_path / "run", 1, classify.main, (arguments,))) as job:
        assert job.wait() == [0, 0], job.log()
    metrics = json.loads((tmp_path / "run/final/metrics.json").read_text())
    assert metrics["step"] == steps
    assert metrics["accuracy"] > 0.9
    assert metrics["validationImages"] == 359
    assert job.log().count("validation after step 50: accuracy") == 1


def test_a_classifier_that_was_killed_and_resumed_ends_with_the_bits_of_one_that_was_not(
    tmp_path: Path, digits: str
) -> None:
    arguments = ["--model", "conv", "--steps", "40", "--dropout", "0.3", "--step-seconds", "0.01"]
    often = {"TRAINYARD_CHECKPOINT_EVERY_STEPS": "4"}
    with running(ForkedJob(tmp_path / "whole", 1, classify.main, (arguments,))) as whole:
        assert whole.wait() == [0, 0], whole.log()
    with running(
        ForkedJob(tmp_path / "run", 1, classify.main, (arguments,), environment=often)
    ) as killed:
        killed.until("a checkpoint", lambda: list(killed.checkpoints.glob("step-*")))
        killed.kill()
    with running(ForkedJob(tmp_path / "run", 2, classify.main, (arguments,))) as last:
        assert last.wait() == [0, 0], last.log()
        assert "training resumes after step" in last.log()
    for name in ("model.pt", "metrics.json"):
        assert (tmp_path / "run/final" / name).read_bytes() == (
            tmp_path / "whole/final" / name
        ).read_bytes()


def test_files_of_both_kinds_give_the_same_images(tmp_path: Path) -> None:
    images, labels = (
        torch.randint(0, 256, (6, 4, 5), dtype=torch.uint8),
        torch.tensor([0, 1, 2, 0, 1, 2]),
    )
    torch.save({"images": images, "labels": labels}, tmp_path / "some.pt")
    numpy.savez(tmp_path / "some.npz", images=images.numpy(), labels=labels.numpy())
    one, other = read_images(str(tmp_path / "some.pt")), read_images(str(tmp_path / "some.npz"))
    assert one.images.shape == (6, 1, 4, 5)
    assert float(one.images.max()) <= 1
    assert torch.equal(one.images, other.images)
    assert torch.equal(one.labels, other.labels)
    assert (
        one.fingerprint()
        == other.fingerprint()
        != one.chosen(torch.tensor([1, 0, 2, 3, 4, 5])).fingerprint()
    )


def test_a_split_by_seed_holds_out_the_same_images_every_time_and_none_twice() -> None:
    data = Images(torch.arange(50.0).view(50, 1, 1, 1), torch.zeros(50, dtype=torch.int64))
    training, validation = split(data, 0.2, seed=4)
    again, _ = split(data, 0.2, seed=4)
    other, _ = split(data, 0.2, seed=5)
    assert (len(training), len(validation)) == (40, 10)
    assert torch.equal(training.images, again.images)
    assert not torch.equal(training.images, other.images)
    assert (
        len({float(value) for value in torch.cat([training.images, validation.images]).flatten()})
        == 50
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"labels": torch.zeros(2, dtype=torch.int64)}, "has no 'images'"),
        (
            {"images": torch.zeros(2, 4, 4), "labels": torch.zeros(3, dtype=torch.int64)},
            "with one label each",
        ),
        (
            {"images": torch.zeros(2, 4, 4), "labels": torch.zeros(2)},
            "must be whole numbers from 0",
        ),
        ([1, 2], "must hold a dict"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_key(
    tmp_path: Path, content: object, message: str
) -> None:
    torch.save(content, tmp_path / "some.pt")
    with pytest.raises(ConfigError, match=f"^data: .*{message}"):
        read_images(str(tmp_path / "some.pt"))


def test_a_file_that_is_missing_damaged_or_of_another_kind_is_refused_by_key(
    tmp_path: Path,
) -> None:
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04torn")
    (tmp_path / "torn.pt").write_bytes(b"torn")
    for name in ("torn.npz", "torn.pt", "missing.pt", "missing.npz", "images.csv"):
        with pytest.raises(ConfigError, match=f"^data: .*{name}"):
            read_images(str(tmp_path / name))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "resnet"}, "^model: 'resnet' is not one of mlp, conv"),
        ({"validation_share": "1"}, "^validation_share: 1.0 must be between 0 and 1"),
        ({"dropout": "1"}, "^dropout: "),
        ({"batches": "3"}, "^batches: there is no such key; did you mean batch"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_by_key(
    values: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        build(ClassifyConfig, values)


def test_more_samples_a_step_than_there_are_is_refused_on_every_rank(tmp_path: Path) -> None:
    torch.save({"images": torch.zeros(6, 4, 4), "labels": torch.arange(6)}, tmp_path / "few.pt")
    arguments = ["--data", str(tmp_path / "few.pt"), "--batch", "3"]
    with running(ForkedJob(tmp_path / "run", 1, classify.main, (arguments,))) as job:
        assert job.wait() == [2, 2]
    assert (
        job.log().count(
            "batch: 3 a rank on 2 ranks need 6 samples a step, but there are 5; use at most 2"
        )
        >= 2
    )


def test_an_image_too_small_for_a_convolution_is_refused_by_key() -> None:
    with pytest.raises(ConfigError, match=r"^model: conv needs images of 2 x 2 pixels"):
        make_model(ClassifyConfig(model="conv"), torch.Size([1, 1, 8]), 2)


def test_without_scikit_learn_the_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(
        PackageMissing,
        match=r"data: 'digits' needs the package scikit-learn.*pip install scikit-learn",
    ):
        read_images("digits")
