"""Accelerate on the world that was asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trainyard_trainers.launch.launchers import accelerate


def test_accelerate_that_took_no_notice_of_its_peers_fails_and_says_what_would_do() -> None:
    def initialise(self: Any) -> None:
        self.num_processes, self.distributed_type, self.device = 1, "DistributedType.NO", "cpu"

    with pytest.raises(
        accelerate.WrongWorldSize, match=r"formed 1 of 4 processes .*ACCELERATE_USE_CPU"
    ):
        accelerate.checked(initialise, 4)(SimpleNamespace())
    accelerate.checked(initialise, 1)(SimpleNamespace())


def test_a_node_with_an_accelerator_is_not_made_to_train_on_its_cpu() -> None:
    assert accelerate.environment(has_accelerator=False) == {"ACCELERATE_USE_CPU": "true"}
    assert accelerate.environment(has_accelerator=True) == {}
