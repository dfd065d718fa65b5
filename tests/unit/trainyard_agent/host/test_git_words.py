"""Git's last words become a sentence, and say whether another try is worth it."""

from __future__ import annotations

import pytest
from tests.unit.trainyard_agent.host.test_git import TOKEN

from trainyard_agent.host import git_words
from trainyard_agent.host.git_wanted import GitRefused, GitUnreachable, Wanted
from trainyard_agent.host.git_words import why


@pytest.mark.parametrize(
    ("complaint", "kind", "words"),
    [
        ("fatal: unable to access 'u': Could not resolve host: h", GitUnreachable, "not answer"),
        ("fatal: unable to access 'u': The requested URL returned error: 503", GitUnreachable, "5"),
        ("Host key verification failed.\nfatal: Could not read", GitRefused, "job.git.knownHosts"),
        ("git@h: Permission denied (publickey).", GitRefused, "may not read it"),
        ('Load key "/proc/1/fd/3": error in libcrypto', GitRefused, "no private key"),
        ("remote: Repository not found.\nfatal: repository 'u' not found", GitRefused, "no repos"),
        ("ERROR: Repository not found.\nfatal: Could not read", GitRefused, "no repository"),
        (f"fatal: {TOKEN} \x1b[31mred", GitRefused, r"git cannot fetch .*\(secret\)"),
    ],
)
def test_gits_words_become_a_sentence_with_what_to_do(
    complaint: str, kind: type[Exception], words: str
) -> None:
    found = why(Wanted("git@h:a/r.git", "main", TOKEN), complaint)
    assert type(found) is kind
    assert TOKEN not in str(found)
    assert "\x1b" not in str(found)
    with pytest.raises(kind, match=words):
        raise found


@pytest.mark.parametrize(
    "complaint",
    [
        "GnuTLS recv error (-110): The TLS connection was non-properly terminated.",
        "gnutls_handshake() failed: Error in the pull function.",
        "OpenSSL SSL_read: OpenSSL/3.0.16: error:0A000126:SSL routines::unexpected eof, errno 0",
        "OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to git.example.org:443",
        "Empty reply from server",
        "error: RPC failed; curl 18 transfer closed with outstanding read data remaining",
        "error: RPC failed; curl 92 HTTP/2 stream 5 was not closed cleanly: CANCEL (err 8)",
    ],
)
def test_a_connection_that_broke_off_is_worth_another_try(complaint: str) -> None:
    found = why(Wanted("https://git.example.org/a.git", "main"), f"fatal: {complaint}\n")
    assert isinstance(found, GitUnreachable)


@pytest.mark.parametrize(
    "complaint",
    [
        "gnutls_handshake() failed: Handshake failed",
        "server certificate verification failed. CAfile: none CRLfile: none",
        "The requested URL returned error: 404",
    ],
)
def test_what_another_try_would_not_change_is_refused_at_once(complaint: str) -> None:
    found = why(Wanted("https://git.example.org/a.git", "main"), f"fatal: {complaint}\n")
    assert isinstance(found, GitRefused)


@pytest.mark.parametrize("authority", ["", "-----BEGIN CERTIFICATE-----"])
@pytest.mark.parametrize("fault", ["has expired", "is not yet valid"])
def test_a_certificate_that_is_not_valid_now_is_not_taken_for_another_authoritys(
    authority: str, fault: str
) -> None:
    wanted = Wanted("https://host/r.git", "main", ca_certificate=authority)
    refused = git_words.why(
        wanted, f"fatal: unable to access: SSL certificate problem: certificate {fault}"
    )
    assert isinstance(refused, GitRefused)
    assert "the certificate of host is not valid now" in str(refused)
    assert "caCertificate" not in str(refused)
