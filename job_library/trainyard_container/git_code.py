"""Brings the commit of `job.git` to every host: the first one fetches it once, and keeps its files
in S3, so that every host and every attempt has the same bytes, whatever becomes of the server.
"""

from __future__ import annotations

import json
import os
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import git_fetch
from .git_fetch import TRANSPORTS, Blobs, Entry, Git, GitFailed, Wanted
from .run_files import UNPACKED_AT, inside
from .store import Missing, Store, file_sha256
from .surroundings import Surroundings, Unfit

#: A server that does not answer is asked again after each of these.
PAUSES_SECONDS: Sequence[float] = (2.0, 5.0, 15.0, 30.0, 60.0)
_LINK, _EXECUTABLE, _SUBMODULE = "120000", "100755", "160000"
_BLOCK = 1 << 20
#: Below the run's directory in S3: what is recorded of the commit, and its files.
_RECORD, _FILES = "code/git.json", "code/{sha256}.tar"

Record = Mapping[str, Any]


class Repository:
    """What of a bundle is about git, and the run's place in S3."""

    def __init__(
        self,
        where: Surroundings,
        store: Store,
        git: Mapping[str, Any],
        secret_of: Callable[[str, str], str],
        transports: Sequence[str] = TRANSPORTS,
    ) -> None:
        """`secret_of` reads a secret by `name` or `name:key`, for a field."""
        self._where, self._store, self._git = where, store, git
        self._secret_of, self._transports = secret_of, transports

    # -- on the first host ------------------------------------------------------------------------
    def recorded(self) -> tuple[Record, bool]:
        """The commit that all attempts run, and whether it was fetched just now.

        Raises Unfit, StoreFailed, OSError.
        """
        try:
            return self._known(), False
        except Missing:
            pass
        for pause in (*PAUSES_SECONDS, None):
            try:
                made = self._fetched()
                self._store.write(self._where.data.prefix + _RECORD, json.dumps(made).encode())
                return made, True
            except GitFailed as error:
                if not error.passing or pause is None:
                    words = f"job.git: {error}"
                    raise Unfit(words, lasting=not error.passing) from None
                time.sleep(pause)
        raise AssertionError("a pause of None raises")

    def _known(self) -> Record:
        """Raises Missing, Unfit, StoreFailed."""
        try:
            known = json.loads(self._store.read(self._where.data.prefix + _RECORD))
            return {name: known[name] for name in ("commit", "sha256", "files", "submodules")}
        except (ValueError, KeyError, TypeError):
            raise Unfit(
                f"job.git: what is recorded of the commit, s3://{self._store.bucket}/"
                f"{self._where.data.prefix}{_RECORD}, cannot be read; submit the run anew",
                lasting=True,
            ) from None

    def _fetched(self) -> Record:
        """Files first, so that a record is of what is there. Raises GitFailed."""
        git = self._git
        wanted = Wanted(
            url=str(git["url"]),
            ref=str(git["ref"]),
            secret=self._secret_of(git["secret"], "job.git.secret") if git.get("secret") else "",
            known_hosts=tuple(git.get("knownHosts") or ()),
            ca_certificate=str(git.get("caCertificate") or ""),
        )
        stage = self._where.run_dir.parents[1] / "git"
        stage.mkdir(parents=True, exist_ok=True)
        with git_fetch.opened(stage, wanted, self._transports) as repository:
            commit = repository.fetch()
            entries = repository.entries(commit, git.get("path"))
            left = sum(entry.mode == _SUBMODULE for entry in entries)
            _write(repository, entries, stage / "files.tar")
        sha256 = file_sha256(stage / "files.tar")
        key = self._where.data.prefix + _FILES.format(sha256=sha256)
        self._store.send(stage / "files.tar", key, sha256)
        return {"commit": commit, "sha256": sha256, "files": len(entries) - left,
                "submodules": left}  # fmt: skip

    # -- on every host ----------------------------------------------------------------------------
    def unpack(self, record: Record, work: Path) -> None:
        """Raises Unfit, StoreFailed, OSError."""
        sha256 = str(record["sha256"])
        path = work.with_name(f".unpacking-{sha256}")
        try:
            found = self._store.fetch(self._where.data.prefix + _FILES.format(sha256=sha256), path)
        except Missing:
            found = ""
        if found != sha256:
            raise Unfit(
                f"job.git: the files of commit {record['commit']} are not in S3 any more as they "
                "were kept; submit the run anew"
            )
        with tarfile.open(path) as tar:
            links = [member for member in tar if not _unpacked(tar, member, work)]
        for link in links:  # last, so that no file is written through one
            at = inside(work, link.name, "job.git")
            at.parent.mkdir(parents=True, exist_ok=True)
            if not os.path.lexists(at):
                at.symlink_to(link.linkname)
        path.unlink()


def _unpacked(tar: tarfile.TarFile, member: tarfile.TarInfo, work: Path) -> bool:
    """False for a link."""
    source = tar.extractfile(member) if member.isreg() else None
    if source is None:
        return False
    path = inside(work, member.name, "job.git")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as target:
        while block := source.read(_BLOCK):
            target.write(block)
    path.chmod(member.mode)
    os.utime(path, (UNPACKED_AT, UNPACKED_AT))
    return True


def _write(repository: Git, entries: Sequence[Entry], path: Path) -> None:
    """The commit's files as an archive. Raises GitFailed."""
    if not any(entry.mode != _SUBMODULE for entry in entries):
        raise GitFailed("the commit has no files there; correct job.git")
    with tarfile.open(path, "w") as tar, repository.blobs() as blobs:
        for entry in sorted(entries, key=lambda one: one.path):
            if entry.mode != _SUBMODULE:
                _add(tar, blobs, entry)


def _add(tar: tarfile.TarFile, blobs: Blobs, entry: Entry) -> None:
    member = tarfile.TarInfo(entry.path)
    source = blobs.open(entry)
    if entry.mode == _LINK:
        member.type, member.linkname = tarfile.SYMTYPE, os.fsdecode(source.read(entry.size))
        if _leads_out(entry.path, member.linkname):
            raise GitFailed(
                f"the link '{entry.path}' leads to '{member.linkname}', out of the repository; "
                "change it there, or name a directory in job.git.path"
            )
        tar.addfile(member)
    else:
        member.size, member.mode = entry.size, 0o755 if entry.mode == _EXECUTABLE else 0o644
        tar.addfile(member, source)
    blobs.close()


def _leads_out(path: str, target: str) -> bool:
    found = os.path.normpath(os.path.join(os.path.dirname(path), target))
    return target.startswith("/") or found == ".." or found.startswith("../")
