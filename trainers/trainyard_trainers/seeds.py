"""The name by which programs of users import `common.seeds`: it stays for them."""

from .common.seeds import deterministic, random_state, restore_random_state, seed_rank

__all__ = [
    "deterministic",
    "random_state",
    "restore_random_state",
    "seed_rank",
]
