"""Whether an error is one that will come again."""

from __future__ import annotations

from trainyard.domain.decisions import Draft
from trainyard.domain.findings import Finding, shown
from trainyard.domain.problems import problem
from trainyard.domain.records import Attempt
from trainyard_contracts.diagnosis_words import is_consequence
from trainyard_contracts.events import AttemptEnded

#: A program that reports no steps and ended within this time did no work yet; one that ran for
#: longer did, as far as anybody can tell.
EARLY_SECONDS = 300


def is_the_programs(end: AttemptEnded) -> bool:
    """No loss of another node makes a program say this."""
    if end.outcome != "failed" or is_consequence(end.error or ""):
        return False
    crashed = end.error_kind == "signal" and end.signal in CRASHES
    return crashed or end.error_kind in ("python-error", "out-of-memory")


def met_beside_a_loss(draft: Draft, attempt: Attempt, end: AttemptEnded | None) -> str | None:
    """The signature of an error that may come from the loss, or may not; None if there is none."""
    told = end is not None and end.outcome == "failed" and end.exit_code is not None
    if end is None or not told or end.error_kind not in (None, "unknown", "checkpoint"):
        return None
    if is_consequence(end.error or ""):
        return None
    return signature_of(
        end, end.error or f"exit code {end.exit_code}", place_of(draft, attempt, end)
    )


#: What a program does to itself: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
CRASHES = frozenset({4, 6, 7, 8, 11})


def same_error(
    draft: Draft,
    end: AttemptEnded,
    cause: str,
    error: str,
    because: str,
    place: str,
    node: str | None = None,
) -> Finding:
    """One more attempt, or the end: the same error came `sameErrorLimit` times at one place."""
    signature = signature_of(end, error, place)
    count = 1 + sum(incident.error_signature == signature for incident in draft.incidents)
    if count < draft.run.spec.recovery.same_error_limit + _coarse(end):
        return Finding(
            cause, end, because, signature=signature, node=node, resume_as="Trying once more"
        )
    again = f" {count} times" if count > 1 else ""
    detail = f"'{error}' came{again} {place}.{shown(end)}"
    code = "same-error" if count > 1 else "python-error"
    because = f"The same error came {count} times {place}: '{error}'." if count > 1 else because
    return Finding(
        cause,
        end,
        because,
        signature=signature,
        node=node,
        stop="failed",
        problem=problem(code, detail),
    )


def signature_of(end: AttemptEnded, error: str, place: str) -> str:
    return f"{end.error_kind or 'unknown'}|{error}|{place}"


def _coarse(end: AttemptEnded) -> int:
    """1 where a log says the last step: programs print some steps only, so two passing errors may
    come after the same line. It takes one more to call them the same.
    """
    return int(end.last_step is not None and end.step_source != "program")


def place_of(draft: Draft, attempt: Attempt, end: AttemptEnded) -> str:
    """Where in training it happened.

    Of a program without reports of steps and without checkpoints only the time is known, which
    hardly ever repeats.
    """
    if end.last_step is not None:
        return f"at step {end.last_step}"
    if (saved := draft.book.saved_by(attempt)) is not None:
        return f"after its checkpoint ({saved})"
    return (
        "before the first step"
        if early(draft, attempt, end)
        else f"{_seconds(attempt, end):.1f} s after its start, with no step reported"
    )


def early(draft: Draft, attempt: Attempt, end: AttemptEnded) -> bool:
    """The attempt has no known step and ran for a short time: what fails so early fails again."""
    return (
        end.last_step is None
        and attempt.first_step_at is None
        and draft.book.saved_by(attempt) is None
        and (_seconds(attempt, end) < EARLY_SECONDS or of_image(end))
    )


def trained_before(draft: Draft, attempt: Attempt) -> bool:
    """What an earlier attempt found, a filesystem that comes late may lack for a while."""
    return any(
        one.first_step_at is not None for one in draft.run.attempts if one.number < attempt.number
    )


def of_image(end: AttemptEnded) -> bool:
    """The program never started; to bring its image may have taken long."""
    return (end.error or "").startswith("job.image ")


def _seconds(attempt: Attempt, end: AttemptEnded) -> float:
    began = attempt.started_at or attempt.submitted_at
    return (end.at - began).total_seconds() if began else 0.0
