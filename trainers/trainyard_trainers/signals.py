"""The name by which programs of users import `trainyard_job.common.signals`: it stays for them."""

from trainyard_job.common.signals import FORWARDED, Requests

__all__ = [
    "FORWARDED",
    "Requests",
]
