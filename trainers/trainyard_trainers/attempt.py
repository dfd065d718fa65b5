"""The name by which programs of users import `trainyard_job.common.attempt`: it stays for them."""

from trainyard_job.common.attempt import DAY_SECONDS, Attempt

__all__ = [
    "DAY_SECONDS",
    "Attempt",
]
