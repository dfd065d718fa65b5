"""The running parts of one local cloud, made once: what a template's resources become part of."""

from __future__ import annotations

from dataclasses import dataclass

from sam_on_moto.bus.schedules import Schedules
from sam_on_moto.cloud import Cloud
from sam_on_moto.functions.registry import Functions
from sam_on_moto.gateway.gateway import Gateway


@dataclass(frozen=True)
class Parts:
    """Everything that is made of a cloud beside what moto has."""

    cloud: Cloud
    functions: Functions
    gateway: Gateway
    schedules: Schedules
