"""Finds an attempt's bundle again, also after a restart of the agent."""

from __future__ import annotations

import logging

from trainyard_agent.host.job_files import read_small
from trainyard_agent.jobs.attempt import Attempt
from trainyard_contracts import places
from trainyard_contracts.job_bundle import JobBundle

log = logging.getLogger(__name__)

#: The most that is read of a bundle.
BUNDLE_BYTES = 16 * 1024 * 1024


def bundle_of(attempt: Attempt) -> JobBundle | None:
    """The attempt's bundle; None if it cannot be read."""
    if attempt.bundle is None:
        try:
            attempt.bundle = JobBundle.model_validate_json(
                read_small(attempt.directory, attempt.directory / places.BUNDLE, BUNDLE_BYTES)
            )
        except (OSError, ValueError) as error:
            log.warning(
                "the bundle of %s attempt %d cannot be read: %s",
                attempt.run_id,
                attempt.number,
                error,
            )
    return attempt.bundle
