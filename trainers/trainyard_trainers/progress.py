"""The name by which programs of users import `trainyard_job.common.progress`: it stays for them."""

from trainyard_job.common.progress import Progress, StepReport

__all__ = [
    "Progress",
    "StepReport",
]
