"""Instances are there unless a setting or a fault says otherwise."""

from __future__ import annotations

from trainyard_local.sagemaker.capacity import Capacity


def test_a_lack_lasts_for_good_or_for_its_time_or_until_it_is_ended() -> None:
    now = [10.0]
    found = Capacity(["ml.p5.48xlarge"], lambda: now[0])
    found.lack("ml.c5.xlarge", 5)
    found.lack("ml.m5.large", None)
    kinds = ("ml.p5.48xlarge", "ml.c5.xlarge", "ml.m5.large", "ml.t3.large")
    assert [found.there(kind) for kind in kinds] == [False, False, False, True]
    now[0] += 5
    found.restore("ml.m5.large")
    assert [found.there(kind) for kind in kinds] == [False, True, True, True]
