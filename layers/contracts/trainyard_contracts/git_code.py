"""What a user says of code in a git repository; git and ssh never meet a string unlike these."""

import re
from typing import Annotated

from pydantic import Field
from typing_extensions import Self

from .base import RelativePath, Strict, judged, matching, rule

_HOST = r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}"
_USER = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_PLACE = r"[A-Za-z0-9_.~%+=,@/-]{1,512}"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"https://({_USER}@)?{_HOST}(:[0-9]{{1,5}})?/{_PLACE}",
        rf"ssh://{_USER}@{_HOST}(:[0-9]{{1,5}})?/{_PLACE}",
        rf"{_USER}@{_HOST}:(?!-){_PLACE}",
        r"/[A-Za-z0-9_.+=@/-]{1,512}",
    )
)
#: Servers take some tokens in place of a user; these are how theirs begin.
_TOKEN = re.compile(r"https://(gh[oprsu]_|github_pat_|gl(pat|dt)-|ATBB|ATCTT)[^/]*@")
#: A commit by its whole id, of a repository with SHA-1 or SHA-256.
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def git_url(value: str) -> str:
    """Return `value` if it names a repository. Raise ValueError otherwise."""
    if re.match(r"[a-z]+://[^/@]*:[^/@]*@", value) or _TOKEN.match(value):
        raise ValueError(
            "must not hold a password; keep it in Secrets Manager and name it in 'secret'"
        )
    if any(form.fullmatch(value) for form in _FORMS) and ".." not in value.split("/"):
        return value
    raise ValueError(
        "must be https://host/path, ssh://user@host/path, user@host:path, or an absolute path on "
        "the cluster's shared filesystem"
    )


def git_ref(value: str) -> str:
    """Return `value` if git could have such a branch, tag or commit. Raise ValueError otherwise."""
    parts = value.split("/")
    if (
        not re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9_./@+#=-]{0,254}", value)
        or any(part == "" or part.startswith(".") or part.endswith(".lock") for part in parts)
        or any(mark in value for mark in ("..", "@{"))
        or value.endswith(".")
    ):
        raise ValueError("must be a branch, a tag, or a commit with all its 40 digits")
    return value


def is_ssh(url: str) -> bool:
    return url.startswith("ssh://") or not url.startswith(("https://", "http://", "/"))


def host_of(url: str) -> str:
    """With its port, as git names it when it asks for a password; '' of a path."""
    if url.startswith("/"):
        return ""
    where = url.split("/")[2] if "://" in url else url.partition(":")[0]
    return where.rpartition("@")[2]


class GitSpec(Strict):
    """A commit of a git repository, whose files become the program's working directory."""

    url: Annotated[str, judged(git_url)] = Field(
        max_length=1024,
        description="https://host/path, ssh://user@host/path, user@host:path, or the absolute path "
        "of a repository on the cluster's shared filesystem",
    )
    ref: Annotated[str, judged(git_ref)] = Field(
        default="HEAD",
        max_length=255,
        description="branch, tag or whole commit; what it means at the first attempt is recorded, "
        "and every attempt runs that. Default: the repository's default branch",
    )
    path: RelativePath | None = Field(
        default=None, description="a directory of the repository; default: all of it"
    )
    secret: (
        Annotated[
            str,
            matching(
                r"^[A-Za-z0-9/_+=.@-]{1,512}(:[A-Za-z0-9_.-]{1,128})?$",
                "must be the name of a secret in Secrets Manager, not its ARN; of one that holds "
                "JSON also name:key",
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="name, or name:key, of a secret in Secrets Manager: a token or password "
        "(https), or a private key without passphrase (ssh)",
    )
    known_hosts: list[
        Annotated[
            str,
            matching(
                r"^[A-Za-z0-9\[|@*][ -~]+$",
                "must be a line of known_hosts: host, kind of key, key",
                max_length=4096,
            ),
        ]
    ] = Field(
        default_factory=list,
        max_length=16,
        description="ssh: lines of known_hosts with the server's public keys, as it publishes "
        "them; default: those in /etc/ssh/ssh_known_hosts of the controller. A key that is in "
        "neither is refused",
    )
    ca_certificate: (
        Annotated[
            str,
            matching(
                r"^\s*(-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\s*)+$",
                "must be certificates in PEM, from '-----BEGIN CERTIFICATE-----' to "
                "'-----END CERTIFICATE-----', and nothing else",
                max_length=16384,
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="https: the certificate (PEM) of the authority that signed the server's own, "
        "where it is none that the controller knows; no other authority then counts",
    )

    @rule
    def _with_key(self) -> Self:
        if is_ssh(self.url) and self.secret is None:
            raise ValueError(
                f"secret: '{self.url}' is reached by ssh, which needs a private key; name the "
                "secret that holds it"
            )
        if self.known_hosts and not is_ssh(self.url):
            raise ValueError("knownHosts: only a server that is reached by ssh has such keys")
        if self.ca_certificate is not None and not self.url.startswith("https://"):
            raise ValueError("caCertificate: only a server that is reached by https has one")
        return self
