"""Puts the secrets of a job into this process's environment, from which the job's processes have
them: they are read by the node itself and written nowhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ..common.failure import SECRETS, Failure
from .allocation import Job

#: It tries again for some seconds where Secrets Manager does not answer.
_SECONDS = 120


def take(job: Job, program: Path) -> Failure | None:
    """Ask `program` (the node's `trainyard-agent`) for the values; the failure if there are none.

    They come through a pipe and go into `os.environ`, also across the exec into the job's own
    Python environment, which installs packages with them.
    """
    wanted = job.document.get("secrets") or {}
    if not wanted:
        return None
    os.environ[SECRETS] = ",".join(wanted)
    if all(name in os.environ for name in wanted) and os.environ.get(_TAKEN):
        return None
    request = json.dumps({"region": job.document.get("region"), "secrets": wanted})
    command, environment = _reader(job, program)
    try:
        done = subprocess.run(
            command,
            env=environment,
            input=request,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        said = json.loads(done.stdout)
        values = said.get("values")
    except OSError as error:
        return _failed(f"{program} cannot be run: {error.strerror}")
    except subprocess.TimeoutExpired:
        return _failed(f"no answer within {_SECONDS} s")
    except (ValueError, AttributeError):
        return _failed("the answer cannot be read")  # and is not shown: it may hold values
    if not isinstance(values, dict):
        return _failed(str(said.get("message")))
    os.environ.update({str(name): str(value) for name, value in values.items()})
    os.environ[_TAKEN] = "1"
    return None


def _reader(job: Job, program: Path) -> tuple[list[str], dict[str, str]]:
    """The command that reads secrets.

    In an image the node's interpreter is not there, and the image's runs the node's packages. What
    reads secrets needs none that are compiled.
    """
    packages = program.parents[1] / "packages"
    if not job.document.get("image"):
        return [str(program), "read-secrets"], dict(os.environ)
    paths = {
        "PYTHONPATH": os.pathsep.join([str(program.parents[1] / "lib"), str(packages)]),
        "SSL_CERT_FILE": str(packages / "botocore" / "cacert.pem"),  # an image may have none
    }
    main = "import sys; from trainyard_agent.cli import main; sys.exit(main(['read-secrets']))"
    return [sys.executable, "-S", "-c", main], {**os.environ, **paths}


#: Says, across the exec into the job's own environment, that they are there.
_TAKEN = "TRAINYARD_JOB_SECRETS_TAKEN"


def _failed(why: str) -> Failure:
    return Failure(1, error=f"job.secrets cannot be read: {why}")
