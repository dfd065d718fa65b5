"""git fetches what is asked for and nothing else, and its secret is nowhere but with its server."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.repositories import GitServer, Repository

from trainyard_agent.host import git_access
from trainyard_agent.host.git import opened
from trainyard_agent.host.git_wanted import GitRefused, Wanted

pytestmark = pytest.mark.real

TOKEN = "ghp_canary0123456789"
FILES = {"train.py": b"print()\n", "conf/a.yaml": b"a: 1\n"}


def fetched(directory: Path, wanted: Wanted, *transports: str) -> str:
    directory.mkdir(exist_ok=True)
    with opened(directory, wanted, threading.Event(), transports or ("file",)) as repository:
        return repository.fetch()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    Repository(tmp_path / "served/r.git").commit(FILES)
    made = GitServer(tmp_path / "served", TOKEN)
    yield made
    made.close()


def test_branches_tags_and_commits_are_found_and_the_tree_has_all_files(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "r.git")
    first = repository.commit(FILES)
    second = repository.commit({**FILES, "new.py": b""})
    url = str(repository.path)
    assert fetched(tmp_path / "a", Wanted(url, "main")) == second
    assert fetched(tmp_path / "b", Wanted(url, "HEAD")) == second
    assert fetched(tmp_path / "c", Wanted(url, first)) == first, "no branch leads there any more"
    (tmp_path / "d").mkdir()
    with opened(tmp_path / "d", Wanted(url, first), threading.Event(), ["file"]) as opened_one:
        tree = opened_one.tree(opened_one.fetch(), None)
        entries = opened_one.entries(tree)
        with opened_one.blobs() as blobs:
            found = {entry.path: b"".join(blobs.read(entry)) for entry in entries}
        with pytest.raises(GitRefused, match=r"'nowhere' is no directory of commit .*git\.path"):
            opened_one.tree(first, "nowhere")
        with pytest.raises(GitRefused, match=r"'train\.py' is no directory"):
            opened_one.tree(first, "train.py")
    assert found == FILES


@pytest.mark.parametrize(
    ("url", "ref", "words"),
    [
        ("r.git", "no-such", r"'no-such' is not in .*r\.git.*correct job\.git\.ref"),
        ("r.git", "0" * 40, "'0000"),
        ("nowhere.git", "main", r"there is no repository .*nowhere\.git"),
    ],
)
def test_what_is_not_there_is_said_by_its_field(
    tmp_path: Path, url: str, ref: str, words: str
) -> None:
    Repository(tmp_path / "r.git").commit(FILES)
    with pytest.raises(GitRefused, match=words):
        fetched(tmp_path / "x", Wanted(str(tmp_path / url), ref))


def test_a_transport_that_runs_a_command_is_refused_by_git_itself(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    with pytest.raises(GitRefused, match="not allowed"):
        fetched(tmp_path / "x", Wanted(f"ext::touch {marker}", "main"), *git_access.TRANSPORTS)
    assert not marker.exists()


def test_a_node_without_git_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitRefused, match=r"no git on the controller; .*job\.workdir"):
        fetched(tmp_path / "x", Wanted("/x", "main"))


@pytest.mark.parametrize("user", ["", "deploy@"])
def test_a_token_opens_the_repository_and_is_written_nowhere(
    tmp_path: Path, server: GitServer, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    seen = _spied(tmp_path, monkeypatch)
    (tmp_path / "x").mkdir()
    wanted = Wanted(f"{server.url}/r.git".replace("://", f"://{user}"), "main", TOKEN)
    with opened(tmp_path / "x", wanted, threading.Event(), ["http"]) as repository:
        commit = repository.fetch()
        written = [path for top in (scratch, tmp_path / "x") for path in top.rglob("*")]
        assert not [path for path in written if path.is_file() and _holds(path, TOKEN)]
    assert len(commit) == 40
    assert server.knows(server.asked[-1])
    assert "fetch" in seen.read_text()
    assert TOKEN not in seen.read_text()
    assert not any(scratch.iterdir())


@pytest.mark.parametrize(("token", "words"), [("wrong", "may not read it"), ("", "name a secret")])
def test_a_repository_that_may_not_be_read_is_said_without_the_token(
    tmp_path: Path, server: GitServer, token: str, words: str
) -> None:
    with pytest.raises(GitRefused, match=words) as refused:
        fetched(tmp_path / "x", Wanted(f"{server.url}/r.git", "main", token), "http")
    assert not token or token not in str(refused.value)


def test_a_server_that_leads_elsewhere_leads_no_token_there(
    tmp_path: Path, server: GitServer
) -> None:
    first = GitServer(tmp_path, redirect=server.url)
    with pytest.raises(GitRefused):
        fetched(tmp_path / "x", Wanted(f"{first.url}/r.git", "main", TOKEN), "http")
    first.close()
    assert server.asked
    assert not any(server.asked)


def certificate(directory: Path, name: str) -> Path:
    """A file with a key and a certificate of its own authority."""
    file = directory / f"{name}.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", "-"],
        capture_output=True, check=True,
    )  # fmt: skip
    file.write_bytes(made.stdout)
    return file


def public(file: Path) -> str:
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return f"{begin}{file.read_text().partition(begin)[2].partition(end)[0]}{end}\n"


def test_a_server_whose_authority_nobody_knows_is_read_with_that_authoritys_certificate(
    tmp_path: Path,
) -> None:
    commit = Repository(tmp_path / "served/r.git").commit(FILES)
    mine, other = certificate(tmp_path, "mine"), certificate(tmp_path, "other")
    server = GitServer(tmp_path / "served", TOKEN, certificate=mine)
    try:
        url = f"{server.url}/r.git"
        given = Wanted(url, "main", TOKEN, (), public(mine))
        assert fetched(tmp_path / "x", given, "https") == commit
        with pytest.raises(GitRefused, match=r"give that authority's in job\.git\.caCertificate"):
            fetched(tmp_path / "y", Wanted(url, "main", TOKEN), "https")
        with pytest.raises(GitRefused, match=r"job\.git\.caCertificate did not sign"):
            fetched(tmp_path / "z", Wanted(url, "main", TOKEN, (), public(other)), "https")
    finally:
        server.close()


def test_a_private_key_is_a_file_without_a_name_that_only_we_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository(tmp_path / "r.git")
    commit = repository.commit(FILES)
    programs, said = tmp_path / "bin", tmp_path / "said"
    programs.mkdir()
    ssh = programs / "ssh"
    ssh.write_text(
        "#!/bin/bash\n"
        f'printf "%s\\n" "$@" > {said}\n'
        'while [ "$1" != -i ]; do shift; done\n'
        f'stat -Lc "%a %u" "$2" >> {said}; sha256sum < "$2" >> {said}\n'
        f"exec git-upload-pack {repository.path}\n"
    )
    ssh.chmod(0o700)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary"
    wanted = Wanted("git@example.org:a/r.git", "main", key, ("example.org ssh-ed25519 AAAA",))
    assert fetched(tmp_path / "x", wanted, "ssh") == commit
    told = said.read_text()
    assert f"600 {os.getuid()}" in told
    assert "StrictHostKeyChecking=yes" in told
    assert "canary" not in told
    assert not [path for path in (tmp_path / "x").rglob("*") if _holds(path, "canary")]


def test_ssh_itself_reads_the_key_also_one_whose_last_line_has_no_end(tmp_path: Path) -> None:
    made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "x", "-f", str(tmp_path / "key")]
    subprocess.run(made, check=True)
    key = (tmp_path / "key").read_text().rstrip("\n")
    with git_access.nameless(key) as path:
        read = ["ssh-keygen", "-y", "-P", "", "-f", path]
        done = subprocess.run(read, capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == (tmp_path / "key.pub").read_text().split()[:2]
    assert not Path(path).exists()


def _holds(path: Path, text: str) -> bool:
    return stat.S_ISREG(path.lstat().st_mode) and text.encode() in path.read_bytes()


def _spied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """git is found through a program that writes its arguments down."""
    programs, said = tmp_path / "bin", tmp_path / "said"
    programs.mkdir()
    spy = programs / "git"
    rest = os.environ["PATH"]
    spy.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >> {said}\nPATH={rest!r}\nexport PATH\nexec git "$@"\n'
    )
    spy.chmod(0o700)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{rest}")
    return said
