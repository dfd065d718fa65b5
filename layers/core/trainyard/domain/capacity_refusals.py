"""What AWS means when it gives no nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

from trainyard.domain.cluster_facts import ClusterEvent


class Refusal(StrEnum):
    """What kind of answer it is when AWS does not give what was asked for."""

    CAPACITY = "capacity"  # another type, zone or market may have it
    THROTTLED = "throttled"  # the same again, later
    QUOTA = "quota"  # a person must ask AWS for more
    PERMISSION = "permission"  # a person must allow it
    CONFIGURATION = "configuration"  # a person must correct the request
    UNKNOWN = "unknown"


#: By AWS's error code.
_CODES = {
    "InsufficientInstanceCapacity": Refusal.CAPACITY,
    "InsufficientHostCapacity": Refusal.CAPACITY,
    "InsufficientReservedInstanceCapacity": Refusal.CAPACITY,
    "InsufficientCapacity": Refusal.CAPACITY,
    "LimitedInstanceCapacity": Refusal.CAPACITY,
    "InsufficientVolumeCapacity": Refusal.CAPACITY,
    "MaxSpotInstanceCountExceeded": Refusal.CAPACITY,
    "Unsupported": Refusal.CAPACITY,
    "SpotMaxPriceTooLow": Refusal.CAPACITY,
    "CapacityError": Refusal.CAPACITY,
    "Throttling": Refusal.THROTTLED,
    "ThrottlingException": Refusal.THROTTLED,
    "RequestLimitExceeded": Refusal.THROTTLED,
    "TooManyRequestsException": Refusal.THROTTLED,
    "ResourceLimitExceeded": Refusal.QUOTA,
    "VcpuLimitExceeded": Refusal.QUOTA,
    "InstanceLimitExceeded": Refusal.QUOTA,
    "VolumeLimitExceeded": Refusal.QUOTA,
    "AccessDenied": Refusal.PERMISSION,
    "AccessDeniedException": Refusal.PERMISSION,
    "UnauthorizedOperation": Refusal.PERMISSION,
    "ValidationException": Refusal.CONFIGURATION,
    "ValidationError": Refusal.CONFIGURATION,
    "InvalidParameterValue": Refusal.CONFIGURATION,
    "InvalidParameterCombination": Refusal.CONFIGURATION,
    "InvalidBlockDeviceMapping": Refusal.CONFIGURATION,
}
#: Of several codes that come together the first of these counts: it needs a person.
_FIRST = (Refusal.QUOTA, Refusal.PERMISSION, Refusal.CONFIGURATION, Refusal.CAPACITY)
#: Words of messages, which count where the code says nothing or something general.
_WORDS = (
    (
        Refusal.QUOTA,
        re.compile(r"service limit|service quota|vCPU limit|quota.{0,60}exceeded", re.IGNORECASE),
    ),
    (
        Refusal.CAPACITY,
        re.compile(
            r"sufficient.{0,60}capacity|capacity.{0,40}(not available|unavailable)"
            r"|provision requested ML compute capacity|no Spot capacity"
            r"|not supported in your requested Availability Zone",
            re.IGNORECASE,
        ),
    ),
    (Refusal.THROTTLED, re.compile(r"rate exceeded|too many requests", re.IGNORECASE)),
    (Refusal.PERMISSION, re.compile(r"not authorized to perform|access denied", re.IGNORECASE)),
)
_GENERAL = frozenset({Refusal.CONFIGURATION, Refusal.UNKNOWN})
#: Of several words at least: "Unsupported" alone is said of many things.
_CODE_IN_TEXT = re.compile(r"\b(?:[A-Z][a-z]+){2,}\b")


def classify(message: str, code: str = "") -> Refusal:
    """The kind of a refusal by AWS's error code and words.

    Where no code is given, one in the message counts as well.
    """
    known = _CODES.get(code, Refusal.UNKNOWN)
    if not code and (together := _of_codes(message)) is not None:
        return together
    if known not in _GENERAL:
        return known
    for kind, words in _WORDS:
        if words.search(message):
            return kind
    if code:
        return known
    named = (_CODES[word] for word in _CODE_IN_TEXT.findall(message) if word in _CODES)
    return next((kind for kind in named if kind != Refusal.CONFIGURATION), known)


def _of_codes(message: str) -> Refusal | None:
    """Of a message that is a list of codes and nothing else."""
    kinds = {_CODES.get(word.strip()) for word in message.split(",")}
    if None in kinds:
        return None
    return next((kind for kind in _FIRST if kind in kinds), Refusal.THROTTLED)


def first_word(events: Iterable[ClusterEvent]) -> ClusterEvent | None:
    """The first event by which AWS says that it has no capacity."""
    return next(
        (event for event in events if classify(event.failure_message) == Refusal.CAPACITY), None
    )
