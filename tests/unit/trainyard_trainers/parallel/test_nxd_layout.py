"""neuronx-distributed's checkpoint layout is read as written, however split; torn ones are not."""

from __future__ import annotations

import os
import pickletools
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.support import nxd_samples as samples

from trainyard_trainers.parallel import nxd_layout
from trainyard_trainers.parallel.nxd_layout import Checkpoint

FULL = samples.weights()


@pytest.mark.parametrize("xser", [False, True])
@pytest.mark.parametrize(
    ("tp", "dp", "zero1"),
    [(1, 1, False), (2, 1, True), (4, 1, False), (1, 2, True), (2, 2, False), (4, 2, True)],
)
def test_a_checkpoint_of_any_split_is_read_whole(
    tmp_path: Path, tp: int, dp: int, zero1: bool, xser: bool
) -> None:
    found = samples.write(tmp_path, FULL, tp, dp, zero1=zero1, xser=xser)
    found.validate()
    assert (found.tp_size, found.dp_size, found.zero1) == (tp, dp, zero1)
    assert found.names() == list(FULL)
    state = samples.adam(FULL)
    for name, weight in FULL.items():
        assert torch.equal(found.full(name), weight)
        assert found.shape(name) == tuple(weight.shape)
        for key, value in state[name].items():
            assert torch.equal(found.full_optimizer(name, key), value), (name, key)
    assert found.scheduler() == {"last_epoch": 3}
    assert found.user_content() == {"config": {}, "step": 3}


def test_the_files_have_the_names_that_neuronx_distributed_gives_them(tmp_path: Path) -> None:
    path = samples.write(
        tmp_path, {"model.norm.weight": torch.ones(4)}, 2, 2, zero1=True, xser=True
    ).path
    model, optim = (
        "model/dp_rank_00_tp_rank_01_pp_rank_00.pt",
        "optim/dp_rank_01_tp_rank_01_pp_rank_00.pt",
    )
    for name in (
        "checkpoint",
        "done",
        "scheduler.pt",
        "user_content.pt",
        model,
        f"{model}.info.pt",
        f"{model}.tensors/tensor_0.pt",
    ):
        assert (path / name).is_file(), name
    assert sorted(one.name for one in (path / f"{optim}.tensors").iterdir()) == [
        "tensor_0.pt",
        "tensor_1.pt",
        "tensor_2.pt",
    ]
    assert not list((path / "model").glob("dp_rank_01*"))
    assert (path / "done").read_text() == (path / "checkpoint").read_text() == "1"


def test_references_are_pickled_under_the_name_of_torch_xla(tmp_path: Path) -> None:
    path = (
        samples.write(tmp_path, {"model.norm.weight": torch.ones(4)}, xser=True).path
        / "model/dp_rank_00_tp_rank_00_pp_rank_00.pt"
    )
    with zipfile.ZipFile(path) as archive:
        data = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
    named = [
        argument
        for operation, argument, _ in pickletools.genops(data)
        if operation.name == "GLOBAL"
    ]
    assert named == ["torch_xla.utils.serialization TensorReference"]


def test_a_rank_writes_its_own_files_only() -> None:
    model, ranks = {"model.norm.weight": torch.ones(4, device="meta")}, nxd_layout.Ranks(1, 2, 1, 2)
    state = {
        "state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.ones(2)}},
        "param_groups": [],
    }
    assert set(nxd_layout.files("step_1", ranks, model=model, optimizer=state, zero1=True)) == {
        "step_1/optim/dp_rank_01_tp_rank_01_pp_rank_00.pt"
    }
    assert nxd_layout.files("step_1", ranks, model=model, optimizer=state) == {}


def test_zero1_chunks_are_padded_with_zeros_that_are_taken_off_again(tmp_path: Path) -> None:
    full = {"model.norm.weight": torch.ones(5), "lm_head.weight": torch.ones(3, 2)}
    found = samples.write(tmp_path, full, 1, 2, zero1=True)
    last = found.optimizer(1, 0)["base_state"]
    assert last[0]["exp_avg"].tolist() == [4.0, 5.0, 0.0]
    assert last[1]["exp_avg"].tolist() == [[1005.0, 1006.0], [0.0, 0.0]]
    assert found.optimizer(1, 0)["shape_info"] == {0: (5,), 1: (3, 2)}
    assert found.full_optimizer("model.norm.weight", "exp_avg").tolist() == [
        1.0,
        2.0,
        3.0,
        4.0,
        5.0,
    ]
    assert found.full_optimizer("lm_head.weight", "exp_avg_sq").tolist() == [
        [-1001.0, -1002.0],
        [-1003.0, -1004.0],
        [-1005.0, -1006.0],
    ]


def test_a_rank_without_any_row_pads_all_of_its_chunk() -> None:
    """For five ranks and two rows FSDP2 gives the last ranks nothing, nxd one row of zeros."""
    state = {
        "state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.ones(0, 3)}},
        "param_groups": [],
    }
    written = nxd_layout.files(
        "step_1",
        nxd_layout.Ranks(4, 5, 0, 1),
        model={"lm_head.weight": torch.ones(2, 3)},
        optimizer=state,
        zero1=True,
    )
    (content,) = written.values()
    assert content["base_state"][0]["exp_avg"].tolist() == [[0.0, 0.0, 0.0]]  # type: ignore[index]
    assert nxd_layout.chunk(torch.ones(2, 3), 4, 5).tolist() == [[0.0, 0.0, 0.0]]


def test_others_checkpoints_which_do_not_say_how_they_were_split_are_read(tmp_path: Path) -> None:
    found = samples.write(tmp_path, FULL, 2, 2, zero1=True, xser=True)
    (found.path / "user_content.pt").unlink()
    found = Checkpoint(found.path)
    found.validate()
    assert (found.tp_size, found.dp_size, found.user_content()) == (2, 2, {})
    name = "model.layers.0.mlp.down_proj.weight"
    assert torch.equal(found.full(name), FULL[name])
    assert torch.equal(found.full_optimizer(name, "exp_avg"), samples.adam(FULL)[name]["exp_avg"])


def test_the_newest_is_the_complete_one_of_the_highest_step_whatever_its_time(
    tmp_path: Path,
) -> None:
    full = {"model.norm.weight": torch.ones(4)}
    paths = {step: samples.write(tmp_path, full, step=step).path for step in (2, 9, 10, 11)}
    os.utime(paths[2] / "done", (4_000_000_000, 4_000_000_000))
    (paths[11] / "done").unlink()
    (tmp_path / "step_99.bak").mkdir()
    assert nxd_layout.newest(tmp_path) == paths[10]
    assert nxd_layout.newest(tmp_path / "nothing") is None


@pytest.mark.parametrize("xser", [False, True])
@pytest.mark.parametrize(
    "torn",
    [
        "done",
        "model/dp_rank_00_tp_rank_01_pp_rank_00.pt",
        "optim/dp_rank_01_tp_rank_00_pp_rank_00.pt",
        "optim/dp_rank_01_tp_rank_01_pp_rank_00.pt",
    ],
)
def test_a_checkpoint_without_one_of_its_files_is_refused_by_name(
    tmp_path: Path, torn: str, xser: bool
) -> None:
    path = samples.write(tmp_path, FULL, 2, 2, zero1=True, xser=xser).path
    (path / torn).unlink()
    with pytest.raises(ValueError, match=f"{torn} is missing"):
        Checkpoint(path).validate()


@pytest.mark.parametrize(
    "where",
    ["model/dp_rank_00_tp_rank_01_pp_rank_00.pt", "optim/dp_rank_01_tp_rank_00_pp_rank_00.pt"],
)
def test_a_missing_or_cut_or_wrong_tensor_file_is_refused_by_name(
    tmp_path: Path, where: str
) -> None:
    path = samples.write(tmp_path, FULL, 2, 2, zero1=True, xser=True).path
    tensor = path / f"{where}.tensors" / "tensor_4.pt"
    whole = tensor.read_bytes()
    tensor.unlink()
    with pytest.raises(ValueError, match=r"tensor_4\.pt is missing"):
        Checkpoint(path).validate()
    tensor.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"tensor_4\.pt cannot be read"):
        Checkpoint(path).validate()
    torch.save(torch.ones(3), tensor)
    with pytest.raises(
        ValueError, match=r"tensor_4\.pt is torch.float32 \(3,\), dp_rank.*info\.pt says"
    ):
        Checkpoint(path).validate()
    tensor.write_bytes(whole)
    Checkpoint(path).validate()


def test_a_cut_rank_file_is_refused_by_name(tmp_path: Path) -> None:
    path = samples.write(tmp_path, FULL, 2).path
    model = path / "model" / "dp_rank_00_tp_rank_01_pp_rank_00.pt"
    model.write_bytes(model.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"dp_rank_00_tp_rank_01_pp_rank_00\.pt cannot be read"):
        Checkpoint(path).validate()


def test_the_last_ranks_are_missed_by_the_rows_of_the_vocabulary(tmp_path: Path) -> None:
    """Others do not write the number of ranks; without the last one's files names look complete."""
    path = samples.write(tmp_path, FULL, 2).path
    torch.save({"config": {"vocab_size": 64}}, path / "user_content.pt")
    Checkpoint(path).validate()
    for kind in ("model", "optim"):
        (path / kind / "dp_rank_00_tp_rank_01_pp_rank_00.pt").unlink()
    with pytest.raises(ValueError, match="has 32 rows on 1 tp ranks, vocab_size is 64"):
        Checkpoint(path).validate()


class _Malice:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.marker),)


def _read_all(path: Path) -> None:
    found = Checkpoint(path)
    found.validate()
    found.scheduler()


@pytest.mark.parametrize(
    "name", ["model/dp_rank_00_tp_rank_00_pp_rank_00.pt", "user_content.pt", "scheduler.pt"]
)
def test_code_in_a_pickle_is_refused_and_not_run(tmp_path: Path, name: str) -> None:
    path = samples.write(tmp_path, FULL, 1).path
    torch.save({"model.norm.weight": _Malice(tmp_path / "ran")}, path / name)
    with pytest.raises(
        ValueError, match=f"{name} is damaged, or holds more than tensors and plain data"
    ):
        _read_all(path)
    assert not (tmp_path / "ran").exists()


def test_pipelines_and_experts_are_refused(tmp_path: Path) -> None:
    model = samples.write(tmp_path, FULL, 1).path / "model"
    (model / "dp_rank_00_tp_rank_00_pp_rank_01.pt").write_bytes(b"")
    with pytest.raises(ValueError, match="a part of a pipeline"):
        Checkpoint(model.parent)
    (model / "dp_rank_00_tp_rank_00_pp_rank_01.pt").rename(
        model / "dp_rank_00_ep_rank_00_tp_rank_00_pp_rank_00.pt"
    )
    with pytest.raises(ValueError, match="neither experts"):
        Checkpoint(model.parent)


def test_a_directory_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no model/dp_rank_00_tp_rank_00_pp_rank_00\.pt"):
        Checkpoint(tmp_path)


def test_a_write_that_fails_leaves_nothing_and_one_that_exists_is_not_touched(
    tmp_path: Path,
) -> None:
    def broken() -> Iterator[tuple[str, object]]:
        yield "step_3/checkpoint", b"1"
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        nxd_layout.write(tmp_path, "step_3", broken())
    assert list(tmp_path.iterdir()) == []
    samples.write(tmp_path, {"model.norm.weight": torch.ones(4)})
    with pytest.raises(FileExistsError, match="step_3 exists"):
        nxd_layout.write(tmp_path, "step_3", iter(()))


def test_a_view_is_written_without_what_lies_around_it(tmp_path: Path) -> None:
    found = samples.write(tmp_path, {"model.norm.weight": torch.ones(1_000_000)[:8]})
    assert sum(path.stat().st_size for path in found.path.rglob("*.pt")) < 50_000
