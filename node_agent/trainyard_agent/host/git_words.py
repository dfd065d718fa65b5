"""Why git did not do it, from its last words."""

from __future__ import annotations

import re

from trainyard_agent.host.git_wanted import GitRefused, GitUnreachable, Wanted
from trainyard_contracts.git_code import COMMIT, host_of

# -- words ---------------------------------------------------------------------------------------
_NOT_NOW = re.compile(
    r"Could not resolve host|Temporary failure in name resolution|timed out|Timeout was reached|"
    r"Failed to connect|Couldn't connect|Connection (refused|reset|closed)|Network is unreachable|"
    r"No route to host|early EOF|unexpected disconnect|Operation too slow|remote end hung up|"
    r"recv error|SSL_read|SSL_ERROR_SYSCALL|Error in the (pull|push) function|Empty reply|"
    r"transfer closed|HTTP/2 stream|returned error: (429|5\d\d)",
    re.I,
)
_NO_REF = re.compile(r"couldn't find remote ref|not our ref|unadvertised object", re.I)
_NO_HOST_KEY = re.compile(r"Host key verification failed|No \S+ host key is known", re.I)
_NO_CERTIFICATE = re.compile(r"certificate (verif|problem)|issuer certificate|CAfile", re.I)
_NOT_VALID_NOW = re.compile(r"certificate (has expired|is not yet valid)", re.I)
_BAD_KEY = re.compile(r"error in libcrypto|invalid format|Load key", re.I)
_NOT_ALLOWED = re.compile(
    r"Authentication failed|could not read (Username|Password)|Permission denied|"
    r"unable to get password|returned error: (401|403)|Access denied|terminal prompts disabled",
    re.I,
)
_NO_REPOSITORY = re.compile(
    r"repository .*not found|does not appear to be a git repository|returned error: 404|"
    r"does not exist|not found",
    re.I,
)


def why(wanted: Wanted, complaint: str) -> GitRefused | GitUnreachable:
    """git's own words as one sentence that says what would be right."""
    said = _last_words(wanted, complaint)
    url, secret = wanted.url, "the secret of job.git.secret"
    if _NO_HOST_KEY.search(complaint):
        return GitRefused(
            f"the key of {host_of(url)} is not known, so it may be another server; give the keys "
            "that it publishes in job.git.knownHosts"
        )
    if url.startswith("https://") and _NOT_VALID_NOW.search(complaint):
        return GitRefused(
            f"the certificate of {host_of(url)} is not valid now: it has to be renewed there, or "
            f"the controller's clock is wrong ({said})"
        )
    if url.startswith("https://") and _NO_CERTIFICATE.search(complaint):
        return GitRefused(
            f"the certificate of {host_of(url)} is signed by no authority that the controller "
            f"knows: give that authority's in job.git.caCertificate ({said})"
            if not wanted.ca_certificate
            else f"job.git.caCertificate did not sign the certificate of {host_of(url)}: give that "
            f"of the authority that did ({said})"
        )
    if _NO_REF.search(complaint):
        hint = "" if COMMIT.fullmatch(wanted.ref) else "; a commit needs all its 40 digits"
        return GitRefused(f"'{wanted.ref}' is not in {url}{hint}: correct job.git.ref")
    if _BAD_KEY.search(complaint):
        return GitRefused(f"{secret} is no private key that ssh can read without a passphrase")
    if _NOT_ALLOWED.search(complaint):
        advice = f"{secret} may not read it" if wanted.secret else "name a secret in job.git.secret"
        return GitRefused(f"{host_of(url)} does not let us read {url}: {advice} ({said})")
    if _NO_REPOSITORY.search(complaint):
        advice = f", or {secret} may not read it" if wanted.secret else ", or it needs a secret"
        return GitRefused(f"there is no repository {url}{advice}: correct job.git ({said})")
    if _NOT_NOW.search(complaint):
        return GitUnreachable(f"{host_of(url) or url} does not answer: {said}")
    return GitRefused(f"git cannot fetch {url}: {said}")


def _last_words(wanted: Wanted, complaint: str) -> str:
    text = complaint.replace(wanted.secret, "(secret)") if wanted.secret else complaint
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    told = next(iter(fatal or lines[-1:]), "it said nothing")
    return "".join(sign for sign in told if sign.isprintable())[:300]
