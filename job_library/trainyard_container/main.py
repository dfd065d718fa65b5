"""The container's program: reads where it is, does this host's part, and says why if it cannot."""

from __future__ import annotations

import importlib.util
import os
import sys

from .surroundings import ML, Surroundings, Unfit, read


def main() -> int:
    """The exit code of the container's program."""
    if importlib.util.find_spec("boto3") is None:
        from .host_part import write_failure

        write_failure(ML, "boto3 is not in this image; AWS's images have it: pip install boto3")
        return 1
    try:
        where = read(os.environ)
    except Unfit as unfit:
        return _failed(str(unfit))
    return _run(where)


def _failed(reason: str) -> int:
    from .host_part import write_failure

    write_failure(ML, reason)
    return 1


def _run(where: Surroundings) -> int:
    from . import host_part
    from .aws import Aws
    from .events import Events
    from .store import StoreFailed

    aws = Aws(where.region)
    try:
        key = aws.key(where)
    except Unfit as unfit:
        return _failed(str(unfit))
    events = Events(where, key, aws.put_events)
    try:
        means, secrets = host_part.prepared(where, aws, key, lambda: events)
        return host_part.HostPart(means, secrets).run()
    except (Unfit, StoreFailed, OSError) as error:
        print(f"trainyard: {error}", file=sys.stderr, flush=True)
        _report(events, where, str(error))
        return _failed(str(error))


def _report(events: object, where: Surroundings, error: str) -> None:
    from .events import Events

    assert isinstance(events, Events)
    words = {"outcome": "failed", "error": error[:500], "errorKind": "unknown", "exitCode": 1}
    node = where.host
    events.of_attempt("AttemptEnded", jobId=where.job_name, failedNode=node, **words)
    events.flush(60.0)
