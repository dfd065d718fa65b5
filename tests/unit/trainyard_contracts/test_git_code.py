"""A repository is named in a few plain forms, and everything else is refused with words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.story import run_spec

from trainyard_contracts.git_code import GitSpec, host_of, is_ssh
from trainyard_contracts.job_spec import JobSpec

SECRET = "jobs/git"
HTTPS = "https://git.example.org/a/b.git"


def given(**fields: Any) -> GitSpec:
    return GitSpec.model_validate({"url": HTTPS, **fields})


@pytest.mark.parametrize(
    ("url", "ssh", "host"),
    [
        (HTTPS, False, "git.example.org"),
        ("https://me@git.example.org:8443/a/b", False, "git.example.org:8443"),
        ("ssh://git@git.example.org:22/~a/b.git", True, "git.example.org:22"),
        ("git@github.com:a/b.git", True, "github.com"),
        ("/fsx/repositories/b.git", False, ""),
    ],
)
def test_a_repository_is_named_as_git_does(url: str, ssh: bool, host: str) -> None:
    secret = {"secret": SECRET} if ssh else {}
    assert given(url=url, **secret).url == url
    assert (is_ssh(url), host_of(url)) == (ssh, host)


@pytest.mark.parametrize(
    "url",
    [
        "--upload-pack=touch /tmp/x",
        "ext::sh -c id",
        "file:///etc",
        "http://git.example.org/a",
        "git://git.example.org/a",
        "git@-oProxyCommand=id:a",
        "-x@h:a",
        "ssh://-oProxyCommand=id/a",
        "ssh://git@host",
        "git@host:-a",
        "https://h/a b",
        "https://h/a\nb",
        "/fsx/../etc",
        "relative/b.git",
        "",
    ],
)
def test_what_git_or_ssh_could_take_for_more_than_a_place_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match=r"must be https://host/path, ssh://"):
        given(url=url, secret=SECRET)


def test_a_password_does_not_belong_into_a_url() -> None:
    with pytest.raises(ValidationError, match="keep it in Secrets Manager"):
        given(url="https://me:ghp_token@git.example.org/a/b")


@pytest.mark.parametrize("token", ["ghp_0aB", "gho_0aB", "github_pat_0aB", "glpat-0aB", "ATCTT0aB"])
def test_nor_does_a_token_in_place_of_a_user(token: str) -> None:
    """It would be in the run's timeline, and in its events."""
    with pytest.raises(ValidationError, match="keep it in Secrets Manager"):
        given(url=f"https://{token}@git.example.org/a/b")


@pytest.mark.parametrize("ref", ["main", "v1.2", "feature/a-b", "c0ffee" + "0" * 34, "HEAD"])
def test_a_ref_is_a_branch_a_tag_or_a_commit(ref: str) -> None:
    assert given(ref=ref).ref == ref


@pytest.mark.parametrize(
    "ref", ["-x", "--upload-pack=x", "a..b", "a:b", "+a", "^a", "a b", "a//b", "a.lock", "@{1}", ""]
)
def test_what_is_no_ref_is_refused(ref: str) -> None:
    with pytest.raises(ValidationError, match="must be a branch, a tag, or a commit"):
        given(ref=ref)


def test_ssh_needs_a_key_and_only_ssh_has_known_hosts() -> None:
    with pytest.raises(ValidationError, match=r"secret: .* needs a private key"):
        given(url="git@github.com:a/b")
    line = "github.com ssh-ed25519 AAAA"
    assert given(url="git@github.com:a/b", secret=SECRET, knownHosts=[line]).known_hosts == [line]
    with pytest.raises(ValidationError, match="knownHosts: only a server"):
        given(knownHosts=[line])
    with pytest.raises(ValidationError, match="knownHosts"):
        given(url="git@github.com:a/b", secret=SECRET, knownHosts=["a\nb"])


def test_only_https_has_a_certificate_and_that_is_public() -> None:
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    public = f"{begin}\nMIIB+/=\n{end}\n"
    assert given(caCertificate=public * 2).ca_certificate == public * 2
    with pytest.raises(ValidationError, match="caCertificate: only a server"):
        given(url="/fsx/a.git", caCertificate=public)
    key = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"
    for wrong in ("/etc/ssl/ca.pem", key + public, public + key, ""):
        with pytest.raises(ValidationError, match="caCertificate"):
            given(caCertificate=wrong)


def test_code_comes_from_one_place() -> None:
    job = {"nodes": 1, "script": "train.py", "git": {"url": HTTPS}}
    assert JobSpec.model_validate(job).git == given()
    with pytest.raises(ValidationError, match="give one of 'workdir' and 'git'"):
        JobSpec.model_validate({**job, "workdir": "0" * 64})


def test_the_cluster_says_which_secret_may_open_a_repository() -> None:
    job = {"nodes": 2, "script": "train.py", "git": {"url": HTTPS, "secret": "jobs/git:token"}}
    with pytest.raises(ValidationError, match=r"job\.git\.secret: .* no secret 'jobs/git'"):
        run_spec(job=job)


@pytest.mark.parametrize("path", ["/home/me/a.git", "/fsx", "/fsx2/a.git"])
def test_a_repository_that_not_all_nodes_have_is_refused_before_a_cluster_is_made(
    path: str,
) -> None:
    job = {"nodes": 2, "script": "train.py", "git": {"url": path}}
    with pytest.raises(ValidationError, match=rf"job\.git\.url: '{path}' is not below /fsx, "):
        run_spec(job=job)


def test_a_repository_on_the_shared_filesystem_is_taken() -> None:
    job = {"nodes": 2, "script": "train.py", "git": {"url": "/fsx/repositories/a.git"}}
    assert run_spec(job=job).job.git == given(url="/fsx/repositories/a.git")
