"""What is asked of git, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass


class GitRefused(Exception):
    """It cannot be fetched, and trying again would not help; the message says what would."""


class GitUnreachable(Exception):
    """The server does not answer now."""


class Stopped(Exception):
    """The agent ends, or the fetch takes too long."""


@dataclass(frozen=True)
class Wanted:
    """What is to be fetched. `secret` is a token or a private key; '' without one.

    With `ca_certificate` (PEM) a server of https must have a certificate that this one signed.
    """

    url: str
    ref: str
    secret: str = ""
    known_hosts: tuple[str, ...] = ()
    ca_certificate: str = ""


@dataclass(frozen=True)
class Entry:
    """One thing in a commit's tree, by its path."""

    path: str
    mode: str
    object: str
    size: int
