"""The loop that all trainers share; programs of users import its names from here."""

from .loop import (
    LoopConfig,
    NotFinite,
    StepResult,
    Task,
    Turn,
    main,
    show_graphs,
    train,
)

__all__ = [
    "LoopConfig",
    "NotFinite",
    "StepResult",
    "Task",
    "Turn",
    "main",
    "show_graphs",
    "train",
]
