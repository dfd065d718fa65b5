"""Steps and losses in what others' programs print; lines that look like one and are none."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_agent.jobs.log_steps import Steps


def read(*lines: str) -> tuple[int | None, float | None]:
    steps = Steps()
    steps.read(lines)
    return steps.step, steps.loss


PRINTED = [
    ("step=12 loss=0.3", 12, 0.3),
    ("step 12 | loss 0.3", 12, 0.3),
    ("Step: 12, Loss: 3e-1", 12, 0.3),
    ('{"step": 12, "loss": 0.3, "lr": 1e-4}', 12, 0.3),
    ("INFO 11:12:13 global_step: 12 train_loss: 0.3 val_loss: 9.9", 12, 0.3),
    ("[rank0]: step 12 | loss 0.3 | lr 1.2e-4 | 100 tok/s", 12, 0.3),
    # nanoGPT, nanochat, modded-nanogpt, llm.c
    ("iter 12: loss 0.3000, time 2100.12ms, mfu 1.00%", 12, 0.3),
    ("step 00012/21400 (0.06%) | loss: 0.300000 | lrm: 1.00 | dt: 500.10ms", 12, 0.3),
    ("step:12/3200 train_loss:0.3 train_time:500ms step_avg:50.00ms", 12, 0.3),
    ("step   12/19560 | loss 0.300000 (+nanz)| norm 1.2 | lr 1e-4", 12, 0.3),
    ("step 12: train loss 0.3, val loss 4.2", 12, 0.3),
    # torchtitan, with its colours
    ("[titan] \x1b[31mstep: 12  \x1b[32mloss:  0.3000  \x1b[33mmemory:  1.2GiB", 12, 0.3),
    # torchtune: its file, its bar
    ("Step 12 | loss:0.3 lr:2e-05 tokens_per_second_per_gpu:100", 12, 0.3),
    ("1|12|Loss: 0.3:   3%|3         | 12/400 [00:01<00:31, 12.0it/s]", 12, 0.3),
    # Megatron
    (
        " iteration       12/     100 | consumed samples:  96 | lm loss: 3.0E-01 | skipped: 0 |",
        12,
        0.3,
    ),
    # Lightning's bar: epochs count from 0
    ("Epoch 2:  24%|##4    | 12/50 [00:01<00:03, 11.2it/s, v_num=0, train_loss=0.300]", 112, 0.3),
    ("  3%|3         | 12/400 [00:01<00:31, 12.0it/s]", 12, None),
    ("12/400 [=>......................] - ETA: 10s - loss: 0.3000 - accuracy: 0.9", 12, 0.3),
    ("Epoch 3, loss 0.3", 3, 0.3),
    ("[GPU0] Epoch 3 | Batchsize: 32 | Steps: 64", 3, None),
    ("Train Epoch: 3 [640/60000 (1%)]\tLoss: 0.300000", 3, 0.3),
    ("{'loss': 0.3, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 3.25}", 3, 0.3),
    ("{'loss': '0.3', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '3.25'}", 3, 0.3),
]


@pytest.mark.parametrize(("line", "step", "loss"), PRINTED)
def test_what_the_usual_programs_print(line: str, step: int, loss: float | None) -> None:
    assert read(line) == (step, loss)


@pytest.mark.parametrize(
    "line",
    [
        "Loading checkpoint shards:  50%|#####     | 2/4 [00:01<00:01,  1.9it/s]",
        "Map:  10%|#         | 1000/10000 [00:00<00:01, 9000 examples/s]",
        "Downloading data: 100%|##########| 21/21 [00:00<00:00, 90kB/s]",
        "  Total optimization steps = 1,000",
        "max_step=1000 save_step: 500 warmup_steps=10",
        "Total steps: 1000",
        "time per step 12 ms",
        "step time 12ms",
        "eval_loss: 3.0 val loss 2.0",
        "loss function: CrossEntropyLoss",
        "2/4",
        "",
    ],
)
def test_what_is_no_step_of_training(line: str) -> None:
    assert read(line) == (None, None)


def test_hugging_faces_trainer_says_the_step_in_its_bar_and_the_loss_beside_it() -> None:
    bar = "{:3d}%|#         | {}/1000 [00:01<00:31, 12.0it/s]"
    said = [bar.format(n // 10, n) for n in range(500)]
    said.append("{'loss': 0.5, 'grad_norm': 1.0, 'learning_rate': 5e-05, 'epoch': 0.5}")
    evaluation = [f" {n * 4}%|#  | {n}/25 [00:01<00:01, 12.0it/s]" for n in range(26)]
    evaluation.append("{'eval_loss': 9.0, 'epoch': 0.5}")
    assert read(*said, *evaluation) == (499, 0.5)
    assert read(*said, *evaluation, bar.format(50, 501)) == (501, 0.5)


def test_a_bar_for_each_epoch_goes_on_counting() -> None:
    epoch = [f"{n}/100 [00:01<00:31, 12.0it/s]" for n in range(101)]
    assert read(*epoch, *epoch, *epoch[:8]) == (207, None)


def test_bars_of_several_ranks_count_once() -> None:
    lines = []
    for epoch in range(2):
        for n in range(101):
            lines.append(f"{n}/100 [00:01<00:31, 12.0it/s]")
            behind = n - 2 if n >= 2 else (99 + n if epoch else 0)
            lines.append(f"{behind}/100 [00:01<00:31, 12.0it/s]")
    assert read(*lines) == (200, None)


# -- what another stream tears ---------------------------------------------------------------------
SAID = "{'loss': '7.166', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '8.438'}"
SAID_BARELY = "{'loss': 7.166, 'learning_rate': 5e-05, 'epoch': 8}"


def tqdm_bar(number: int, total: int) -> str:
    """As tqdm writes it, with its return before it."""
    percent = 100 * number / total
    done = "#" * int(percent / 10)
    return f"\r{percent:3.0f}%|{done:<10}| {number}/{total} [00:58<00:08,  4.50it/s]"


def keras_bar(number: int, total: int) -> str:
    return f"\r{number}/{total} [==>......] - ETA: 8s - loss: 7.166"


def steps_of(text: str) -> list[int | None]:
    """The step after each of its lines."""
    steps, seen = Steps(), list[int | None]()
    for line in text.replace("\r", "\n").split("\n"):
        steps.read([line])
        seen.append(steps.step)
    return seen


@pytest.mark.parametrize("bar", [tqdm_bar, keras_bar])
@pytest.mark.parametrize("between", [SAID + "\n", SAID, SAID_BARELY, SAID[:60], "[INFO] saved\n"])
@pytest.mark.parametrize(
    ("number", "total"), [(263, 300), (261, 300), (300, 300), (10, 11), (9, 90)]
)
def test_a_bar_that_is_torn_anywhere_is_no_other_bar(
    bar: Callable[[int, int], str], between: str, number: int, total: int
) -> None:
    before = "".join(bar(n, total) for n in (0, 1, 2, number // 2, number - 1))
    after = "".join(bar(n, total) for n in range(number + 1, total + 1))
    torn = bar(number, total)
    for place in range(len(torn) + 1):
        text = f"{before}{torn[:place]}{between}{torn[place:]}"
        assert steps_of(text)[-1] in (number - 1, number), torn[:place]
        if after:
            assert steps_of(text + after)[-1] == total, torn[:place]


@given(st.data())
def test_bars_of_two_epochs_that_are_torn_all_the_time_never_say_too_much(
    data: st.DataObject,
) -> None:
    total = data.draw(st.integers(5, 400))
    text, torn = "", st.integers(0, 60)
    for number in [*range(total + 1), *range(total + 1)]:
        bar = tqdm_bar(number, total)
        place = 0 if number in (0, total) else data.draw(torn) if number % 7 == 0 else 0
        other = tqdm_bar(max(0, number - 1), total) if number % 2 else SAID + "\n"
        text += f"{bar[:place]}{other}{bar[place:]}" if place else bar
    assert steps_of(text)[-1] == 2 * total


def test_a_bar_torn_in_its_number_is_no_next_epoch() -> None:
    printed = "".join(tqdm_bar(n, 300) for n in range(263))
    torn = f"\r 88%|#########  | 26{SAID}\n3/300 [00:58<00:08,  4.50it/s]"
    rest = "".join(tqdm_bar(n, 300) for n in range(289, 301))
    assert steps_of(printed + torn)[-1] == 262
    assert steps_of(printed + torn + rest)[-1] == 300


def test_a_program_that_is_started_again_in_one_log_goes_on_with_its_bar() -> None:
    first = [tqdm_bar(n, 300) for n in range(263)]
    again = [tqdm_bar(n, 300) for n in (0, *range(201, 301))]
    assert steps_of("".join(first + again))[-1] == 300
    assert steps_of("".join(first + again[:30]))[-1] == 262


def test_a_resumed_bar_leaps_to_where_it_goes_on() -> None:
    assert steps_of(tqdm_bar(0, 300) + tqdm_bar(201, 300))[-1] == 201


def test_a_bar_that_is_erased_at_its_end_goes_on_counting() -> None:
    epoch = "".join(tqdm_bar(n, 100) for n in range(99)) + "\r" + " " * 60
    assert steps_of(epoch * 2)[-1] == 98 * 2


def test_an_epoch_counts_only_where_no_step_is_known() -> None:
    assert read("Epoch 1 loss 0.9", "step 50 loss 0.5", "Epoch 2 loss 0.4") == (50, 0.5)


def test_ranks_that_print_in_turn_do_not_make_training_go_back() -> None:
    assert read("[rank0] step 12 loss 0.3", "[rank1] step 11 loss 0.4")[0] == 12


@given(st.text(alphabet="step los=:0123456789./[]|'\"-+eE\x1b\x00 \u0660", max_size=200))
def test_any_line_is_read(line: str) -> None:
    step, loss = read(line)
    assert step is None or 0 <= step <= 10**12 * 2
    assert loss is None or abs(loss) < float("inf")


@pytest.mark.parametrize(
    "piece",
    ["step ", "loss " * 3, "1" * 50, "12/", " ", "\x1b[", "step:" + " " * 12, "iteration [", "e"],
)
def test_no_line_takes_long(piece: str) -> None:
    line = piece * (2_000_000 // len(piece))
    began = time.process_time()
    for _ in range(20):
        read(f"loss step [{line}")
    assert time.process_time() - began < 2.0, "20 lines of megabytes"
