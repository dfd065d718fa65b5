"""Conversion to and from Hugging Face: the same bits and logits, little memory, all or nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support import checkpoints
from tests.support import nxd_samples as samples

from trainyard_job.common.attempt import Attempt
from trainyard_trainers.checkpoints.writer import content_writer
from trainyard_trainers.cli import main
from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.llm import convert
from trainyard_trainers.llm.config import ModelConfig, to_hf
from trainyard_trainers.llm.convert import CheckFailed
from trainyard_trainers.llm.model import parameter_shapes
from trainyard_trainers.llm.safetensors_format import Directory
from trainyard_trainers.parallel import nxd_layout

GQA = replace(samples.TINY, num_key_value_heads=2)
TIED = replace(GQA, tie_word_embeddings=True)


def trained(
    directory: Path, model: ModelConfig = GQA, tp: int = 1, **options: Any
) -> nxd_layout.Checkpoint:
    """A checkpoint that says what the model is."""
    dtype = options.pop("dtype", torch.float32)
    return samples.write(
        directory, samples.weights(model, dtype), tp, config=to_hf(model), **options
    )


def tensors(directory: Path) -> dict[str, torch.Tensor]:
    found = Directory(directory)
    return {name: torch.cat(list(found.blocks(name))) for name in found.names()}


@pytest.mark.parametrize(
    ("model", "tp", "back"),
    [(GQA, 1, 2), (TIED, 2, 1), (samples.TINY, 4, 2)],
    ids=["gqa", "tied", "mha"],
)
@pytest.mark.parametrize("xser", [False, True])
def test_weights_go_to_hugging_face_and_back_bit_by_bit(
    tmp_path: Path, model: ModelConfig, tp: int, back: int, xser: bool
) -> None:
    source = trained(tmp_path / "trained", model, tp, xser=xser)
    there = convert.to_hf(source.path, tmp_path / "hf")
    again = convert.from_hf(tmp_path / "hf", tmp_path / "again", tp=back, xser=xser, step=9)
    for converted in (there, again):
        assert converted.difference is not None
        assert converted.difference < 1e-5
    found = nxd_layout.Checkpoint(tmp_path / "again" / "step_9")
    full = samples.weights(model)
    assert found.tp_size == back
    assert found.names() == list(full) == list(tensors(tmp_path / "hf"))
    for name, weight in full.items():
        assert torch.equal(found.full(name), weight)
        assert torch.equal(tensors(tmp_path / "hf")[name], weight)
    assert ("lm_head.weight" in full) is not model.tie_word_embeddings
    assert convert.to_hf(tmp_path / "again", tmp_path / "hf2").difference == there.difference


def test_transformers_reads_what_was_written_and_the_other_way_round(tmp_path: Path) -> None:
    import transformers

    config = transformers.LlamaConfig(
        **{key: value for key, value in to_hf(GQA).items() if key not in ("torch_dtype", "dtype")}
    )
    torch.manual_seed(5)
    theirs = transformers.LlamaForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="20KB")
    convert.from_hf(tmp_path / "theirs", tmp_path / "ours", tp=2)
    convert.to_hf(tmp_path / "ours", tmp_path / "hf", shard_bytes=20_000)
    found = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    tokens = torch.arange(32).view(1, 32)
    with torch.no_grad():
        assert torch.equal(found(tokens).logits, theirs(tokens).logits)
    assert len(list((tmp_path / "hf").glob("*.safetensors"))) > 1


def test_the_safetensors_library_reads_the_files_and_writes_what_is_read(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    convert.to_hf(trained(tmp_path).path, tmp_path / "hf", check="never")
    library = load_file(tmp_path / "hf" / "model.safetensors")
    assert all(torch.equal(library[name], weight) for name, weight in samples.weights(GQA).items())
    (tmp_path / "lib").mkdir()
    mixed = {
        "half": torch.randn(3, 5).bfloat16(),
        "numbers": torch.arange(7),
        "none": torch.empty(0, 4),
    }
    save_file(mixed, tmp_path / "lib" / "model.safetensors")
    directory = Directory(tmp_path / "lib")
    assert torch.equal(torch.cat(list(directory.blocks("half"))), mixed["half"])
    assert torch.equal(torch.cat(list(directory.blocks("numbers", 2, 6))), mixed["numbers"][2:6])


def test_the_config_is_readable_by_old_and_new_transformers(tmp_path: Path) -> None:
    """transformers 4 silently takes rope_theta 10000 if a file has it in rope_parameters only."""
    source = trained(tmp_path, dtype=torch.bfloat16)
    torch.save({"config": {**to_hf(GQA), "eos_token_id": 2}}, source.path / "user_content.pt")
    convert.to_hf(source.path, tmp_path / "hf")
    written = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert written["rope_theta"] == written["rope_parameters"]["rope_theta"] == 500000.0
    assert written["torch_dtype"] == written["dtype"] == "bfloat16"
    assert written["eos_token_id"] == 2


def test_tokens_that_begin_and_end_a_text_are_taken_from_what_names_them_and_never_invented(
    tmp_path: Path,
) -> None:
    from transformers import AutoConfig

    source = trained(tmp_path)
    unknown = convert.to_hf(source.path, tmp_path / "unknown", check="never")
    assert "bos_token_id and eos_token_id not known: null" in str(unknown)
    found = AutoConfig.from_pretrained(tmp_path / "unknown")
    assert (found.bos_token_id, found.eos_token_id) == (None, None)
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_text(
        json.dumps(
            {
                "added_tokens": [{"id": 7, "content": "<s>"}, {"id": 9, "content": "<e>"}],
                "model": {"vocab": {"pad": 3}},
            }
        )
    )
    (tokenizer / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": {"content": "<s>"}, "eos_token": "<e>", "pad_token": "pad"})
    )
    (tokenizer / "generation_config.json").write_text(json.dumps({"eos_token_id": [9, 8]}))
    known = convert.to_hf(source.path, tmp_path / "known", check="never", tokenizer=tokenizer)
    assert "not known" not in str(known)
    written = json.loads((tmp_path / "known" / "config.json").read_text())
    assert written["bos_token_id"] == 7
    assert written["eos_token_id"] == [9, 8]
    assert written["pad_token_id"] == 3


def test_what_a_directory_says_of_its_tokens_comes_back_from_it(tmp_path: Path) -> None:
    convert.to_hf(trained(tmp_path).path, tmp_path / "hf", check="never")
    path = tmp_path / "hf" / "config.json"
    document = {**json.loads(path.read_text()), "bos_token_id": 11, "eos_token_id": [12, 13]}
    path.write_text(json.dumps(document))
    convert.from_hf(tmp_path / "hf", tmp_path / "nxd", tp=1, check="never")
    again = convert.to_hf(tmp_path / "nxd", tmp_path / "again", check="never")
    assert again.unknown == ()
    written = json.loads((tmp_path / "again" / "config.json").read_text())
    assert (written["bos_token_id"], written["eos_token_id"]) == (11, [12, 13])


def test_the_dtype_can_be_changed_both_ways(tmp_path: Path) -> None:
    convert.to_hf(trained(tmp_path).path, tmp_path / "hf", dtype=torch.bfloat16)
    full = {name: weight.bfloat16() for name, weight in samples.weights(GQA).items()}
    assert all(torch.equal(tensor, full[name]) for name, tensor in tensors(tmp_path / "hf").items())
    convert.to_hf(trained(tmp_path / "2").path, tmp_path / "hf32", check="never")
    convert.from_hf(
        tmp_path / "hf32", tmp_path / "again", tp=1, dtype=torch.bfloat16, check="always"
    )
    assert torch.equal(
        nxd_layout.Checkpoint(tmp_path / "again" / "step_0").full("lm_head.weight"),
        full["lm_head.weight"],
    )


def test_a_trainyard_checkpoint_is_verified_first(tmp_path: Path) -> None:
    attempt = Attempt("run", 1, tmp_path, tmp_path / "attempts" / "1", tmp_path / "checkpoints")
    attempt.checkpoint_dir.mkdir()
    parts = samples.parts(
        samples.weights(GQA), 2, 1, zero1=False, xser=False, step=7, config=to_hf(GQA)
    )
    target = checkpoints.save(
        attempt, 7, {name: content_writer(samples.detached(content)) for name, content in parts}
    )
    assert convert.to_hf(target, tmp_path / "hf").difference is not None
    with open(target / "step_7" / "model" / nxd_layout.rank_name(0, 1), "r+b") as stream:
        stream.seek(3000)
        stream.write(b"\xff\xfe")
    with pytest.raises(
        ValueError,
        match=r"is not a whole checkpoint: .*tp_rank_01.* does not have the manifest's sha256",
    ):
        convert.to_hf(target, tmp_path / "hf2")
    assert not (tmp_path / "hf2").exists()


def test_tokenizer_files_are_copied_along(tmp_path: Path) -> None:
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    source = trained(tmp_path)
    with pytest.raises(ValueError, match=r"tokenizer: .* holds none of tokenizer\.json"):
        convert.to_hf(source.path, tmp_path / "hf", tokenizer=tokenizer)
    for name in ("tokenizer.json", "tokenizer_config.json", "optimizer.bin"):
        (tokenizer / name).write_text("{}")
    convert.to_hf(source.path, tmp_path / "hf", tokenizer=tokenizer)
    assert sorted(path.name for path in (tmp_path / "hf").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_shards_are_filled_in_order_and_the_index_names_each_weights_file(tmp_path: Path) -> None:
    convert.to_hf(trained(tmp_path).path, tmp_path / "hf", shard_bytes=10_000, check="never")
    index = json.loads((tmp_path / "hf" / "model.safetensors.index.json").read_text())
    full = samples.weights(GQA)
    assert index["metadata"]["total_size"] == sum(weight.nbytes for weight in full.values())
    assert list(index["weight_map"]) == list(full)
    files = sorted(set(index["weight_map"].values()))
    assert files[0] == f"model-00001-of-{len(files):05d}.safetensors"
    for file in files:
        assert (
            sum(full[name].nbytes for name, place in index["weight_map"].items() if place == file)
            <= 10_000
        )
    assert all(torch.equal(tensor, full[name]) for name, tensor in tensors(tmp_path / "hf").items())


def test_logits_that_differ_keep_the_output_from_appearing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two weights of the same shape change places between what is read and what is written."""
    source = trained(tmp_path)
    full, swap = samples.weights(GQA), {"k_proj": "v_proj", "v_proj": "k_proj"}
    converted = convert.to_hf(source.path, tmp_path / "good", check="never")
    ours = {name: full[".".join(swap.get(part, part) for part in name.split("."))] for name in full}
    with pytest.raises(CheckFailed, match="transformers' logits differ from ours by"):
        convert.check_logits(converted.path, GQA, ours.__getitem__)

    def swapped(self: nxd_layout.Checkpoint, name: str) -> torch.Tensor:
        return ours[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nxd_layout.Checkpoint, "full", swapped)
        assert main(["to-hf", str(source.path), str(tmp_path / "bad")]) == 1
    assert "Nothing was written" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good", "step_3"]


def test_a_wrong_rope_theta_is_seen_by_the_logits(tmp_path: Path) -> None:
    convert.to_hf(trained(tmp_path).path, tmp_path / "hf", check="never")
    with pytest.raises(CheckFailed):
        convert.check_logits(
            tmp_path / "hf", replace(GQA, rope_theta=10000.0), samples.weights(GQA).__getitem__
        )


def test_the_head_of_tied_embeddings_is_left_out_when_it_is_the_embedding(tmp_path: Path) -> None:
    full = samples.weights(TIED)
    head = {**full, "lm_head.weight": full["model.embed_tokens.weight"]}
    source = samples.write(tmp_path / "same", head, 2, config=to_hf(TIED))
    assert convert.to_hf(source.path, tmp_path / "hf").tensors == len(full)
    other = samples.write(
        tmp_path / "other", {**head, "lm_head.weight": torch.ones(64, 32)}, 2, config=to_hf(TIED)
    )
    with pytest.raises(
        ValueError, match=r"tie_word_embeddings is true, but lm_head\.weight is not"
    ):
        convert.to_hf(other.path, tmp_path / "hf2")


def test_what_does_not_fit_is_said_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = trained(tmp_path)
    convert.to_hf(source.path, tmp_path / "hf", check="never")

    def refused(*words: object) -> str:
        assert main([str(word) for word in words]) == 2
        return capsys.readouterr().err

    assert "hf exists; give a directory that does not" in refused(
        "to-hf", source.path, tmp_path / "hf"
    )
    assert "there is no such directory" in refused("to-hf", tmp_path / "nothing", tmp_path / "out")
    assert "there is no complete step_N" in refused("to-hf", tmp_path / "hf", tmp_path / "out")
    assert (
        "parallel.tp: 3 does not divide num_attention_heads 4; for this model use one of 1, 2"
        in refused("from-hf", tmp_path / "hf", tmp_path / "out", "--tp", 3)
    )
    assert "tp: 0 is too small" in refused("from-hf", tmp_path / "hf", tmp_path / "out", "--tp", 0)
    assert "config.json" in refused("from-hf", tmp_path, tmp_path / "out", "--tp", 1)
    torch.save({"step": 3}, source.path / "user_content.pt")
    assert "give --config FILE" in refused("to-hf", source.path, tmp_path / "out")
    (tmp_path / "config.json").write_text(json.dumps(to_hf(replace(GQA, num_hidden_layers=3))))
    message = refused("to-hf", source.path, tmp_path / "out", "--config", tmp_path / "config.json")
    assert "lacks model.layers.1.self_attn.q_proj.weight" in message
    (tmp_path / "config.json").write_text(json.dumps(to_hf(replace(GQA, intermediate_size=64))))
    assert "mlp.gate_proj.weight has shape (48, 32), the config asks for (64, 32)" in refused(
        "to-hf", source.path, tmp_path / "out", "--config", tmp_path / "config.json"
    )
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".tmp*"))


def test_damaged_safetensors_are_refused_by_name(tmp_path: Path) -> None:
    convert.to_hf(trained(tmp_path).path, tmp_path / "hf", shard_bytes=20_000, check="never")
    last = max((tmp_path / "hf").glob("*.safetensors"))
    whole = last.read_bytes()
    for damaged in (b"", whole[:5], whole[:40], whole[:-1], b"\xff" * 8 + whole[8:]):
        last.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{last.name} is not a whole safetensors file"):
            convert.from_hf(tmp_path / "hf", tmp_path / "out", tp=1)
    last.unlink()
    with pytest.raises(ValueError, match=last.name):
        convert.from_hf(tmp_path / "hf", tmp_path / "out", tp=1)
    shutil.rmtree(tmp_path / "hf")
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "config.json").write_text(json.dumps(to_hf(GQA)))
    (tmp_path / "hf" / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(
        ValueError, match=r"other kinds of weights \(pytorch_model.bin\) are not read"
    ):
        convert.from_hf(tmp_path / "hf", tmp_path / "out", tp=1)


def test_fused_weights_of_others_are_refused(tmp_path: Path) -> None:
    full = {**samples.weights(GQA), "model.layers.0.self_attn.qkv_proj.weight_q": torch.ones(4, 4)}
    source = samples.write(tmp_path, full, config=to_hf(GQA))
    with pytest.raises(
        ValueError,
        match=r"holds model\.layers\.0\.self_attn\.qkv_proj\.weight_q.*fused projections",
    ):
        convert.to_hf(source.path, tmp_path / "hf")


def test_a_config_that_this_model_does_not_compute_is_refused(tmp_path: Path) -> None:
    source = trained(tmp_path)
    (tmp_path / "config.json").write_text(
        json.dumps({**to_hf(GQA), "rope_scaling": {"rope_type": "llama3"}})
    )
    with pytest.raises(ConfigError, match="rope_scaling: factor is missing"):
        convert.to_hf(source.path, tmp_path / "hf", config=tmp_path)


_PEAK = """
import sys
from pathlib import Path
from trainyard_trainers.llm import convert

def status(name):
    lines = open("/proc/self/status")
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024

before = status("VmRSS")
source, there, again, shard = sys.argv[1:]
convert.to_hf(Path(source), Path(there), shard_bytes=int(shard), check="never")
convert.from_hf(Path(there), Path(again), tp=2, xser=True, check="never")
print(status("VmHWM") - before)
"""


@pytest.mark.real
def test_conversion_needs_a_shard_of_memory_and_not_a_model(tmp_path: Path) -> None:
    model, shard = ModelConfig(64, 512, 2048, 14, 8), 10_000_000
    full = {name: torch.full(shape, 0.5) for name, shape in parameter_shapes(model).items()}
    assert sum(weight.nbytes for weight in full.values()) > shard + 200_000_000
    source = samples.write(tmp_path, full, 2, config=to_hf(model), optimizer=False)
    del full
    command = [
        sys.executable,
        "-c",
        _PEAK,
        str(source.path),
        str(tmp_path / "hf"),
        str(tmp_path / "again"),
        str(shard),
    ]
    growth = int(
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=150).stdout
    )
    assert growth < shard + 200_000_000
