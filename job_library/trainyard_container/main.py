"""The container's program: reads where it is, does this host's part, and says why if it cannot."""

from __future__ import annotations

import errno
import importlib.util
import os
import sys
from typing import TYPE_CHECKING

from .surroundings import ML, Surroundings, Unfit, read

if TYPE_CHECKING:
    from .aws import Aws
    from .events import Events


def main() -> int:
    """The exit code of the container's program, or of one rank."""
    if importlib.util.find_spec("boto3") is None:
        return _failed("boto3 is not in this image; AWS's images have it: pip install boto3")
    try:
        where = read(os.environ)
        return _as_rank(where) if _is_rank() else _as_host(where)
    except Unfit as unfit:
        return _failed(str(unfit))


def _failed(reason: str) -> int:
    from .host_part import write_failure

    write_failure(ML, reason)
    return 1


def _is_rank() -> bool:
    from . import rank_part

    return rank_part.is_rank(os.environ)


def _as_rank(where: Surroundings) -> int:
    """Raises Unfit."""
    from . import rank_part, run_files
    from .aws import Aws
    from .host_part import taken
    from .store import Store

    aws = Aws(where.region)
    bundle = run_files.read_bundle(where, Store(aws.s3, where.bundle.bucket))
    return rank_part.Rank(where).run(taken(aws.secrets_of(bundle.get("secrets") or {})))


def _as_host(where: Surroundings) -> int:
    """Raises Unfit where nothing can be reported."""
    from . import rank_part
    from .aws import Aws
    from .events import Events
    from .store import StoreFailed

    aws = Aws(where.region)
    events = Events(where, aws.key(where), aws.put_events)
    try:
        return _do(where, aws, events)
    except (Unfit, StoreFailed, OSError) as error:
        reason = _words(where, error)
        words = {"outcome": "failed", "error": reason[:500], "errorKind": "unknown"}
        about = {"jobId": where.job_name, "failedNode": where.host, "exitCode": 1}
        lasting = getattr(error, "lasting", False)
        events.of_attempt("AttemptEnded", **about, **words, lasting=lasting)
        events.flush(60.0)
        _say_to_ranks(where, rank_part.FAILED, {"reason": reason})
        return _failed(reason)


def _words(where: Surroundings, error: Exception) -> str:
    """Its own, and what would help where the disk is full."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"{where.host} has no room left on its disk ({error}): data, checkpoints and results "
            "need more; give cluster.spec.volumeSizeGib, or a type with larger disks of its own"
        )
    return str(error)


def _do(where: Surroundings, aws: Aws, events: Events) -> int:
    from . import host_part, launching, rank_part
    from .stop_watch import StopWatch

    means, secrets = host_part.prepared(where, aws, aws.key(where), lambda: events)
    start: host_part.Start = launching.Launcher
    if os.environ.get(rank_part.KEEPER):
        start = rank_part.Ranks
    stopping = StopWatch(lambda: aws.is_stopping(where.job_name)) if where.is_first else bool
    code = host_part.HostPart(means, secrets, start, stopping).run()
    _say_to_ranks(where, rank_part.OVER, {"code": code})
    return code


def _say_to_ranks(where: Surroundings, name: str, said: dict[str, object]) -> None:
    """Where this is a keeper, the ranks wait for its word."""
    from trainyard_job.common.files import write_json

    from . import rank_part

    if os.environ.get(rank_part.KEEPER):
        try:
            write_json(rank_part.room(where) / name, said)
        except OSError as error:
            print(f"trainyard: {error}", file=sys.stderr, flush=True)
