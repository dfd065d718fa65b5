"""Does the job need what HyperPod's image lacks?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trainyard_contracts.cluster_parts import PythonEnvironment
from trainyard_contracts.specs import JobSpec

from ..account import Account
from ..findings import Finding
from ..scope import Scope

#: What Trainyard's own trainers import beside torch, by module.
PACKAGES = {
    "trainyard_trainers.bert": ("transformers",),
    "trainyard_trainers.translate": (),
}
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def check(_account: Account, scope: Scope) -> Iterator[Finding]:
    cluster = scope.hyperpod
    if cluster is None:
        return
    if cluster.s3_mounts:
        yield _finding(
            "warning",
            scope.field("s3Mounts"),
            (
                "buckets are mounted by mount-s3 (Mountpoint for Amazon S3), which HyperPod's "
                "image need not have; each node then installs it from AWS's bucket "
                "mountpoint-s3-release"
            ),
            "Let the nodes reach https://s3.amazonaws.com, have it in an image of yours, or copy "
            "the data to the shared filesystem",
        )
    yield from _programs(scope, cluster.environment)
    if cluster.environment.kind == "existing":
        yield _taken_as_it_is(scope, cluster.environment)
    elif scope.job is not None and (scope.job.module or "").startswith("trainyard_trainers."):
        yield from _imports(scope, scope.job, cluster.environment)


def _programs(scope: Scope, environment: PythonEnvironment) -> Iterator[Finding]:
    """Programs that make an environment."""
    if environment.kind == "conda":
        yield _finding(
            "failure",
            scope.field("environment.kind"),
            "kind 'conda' needs the program conda, and HyperPod's image has none",
            "Use kind 'venv', or an image of yours with conda",
        )
    own = scope.job.python_environment if scope.job else None
    if own is not None and own.kind in ("uv", "conda"):
        yield _finding(
            "failure",
            "job.pythonEnvironment.kind",
            f"kind '{own.kind}' needs the program {own.kind}, and HyperPod's image has none",
            "Use kind 'venv', or install it in an image of yours",
        )


def _taken_as_it_is(scope: Scope, environment: PythonEnvironment) -> Finding:
    return _finding(
        "warning",
        scope.field("environment"),
        (
            f"nothing makes {environment.path} on HyperPod's image; "
            "kind 'existing' takes it as it is"
        ),
        "Use kind 'venv' with requirements, unless the path is on the shared filesystem",
    )


def _imports(scope: Scope, job: JobSpec, environment: PythonEnvironment) -> Iterator[Finding]:
    """What a trainer of ours imports, against what is installed."""
    own = job.python_environment
    have = _packages([*environment.requirements, *(own.requirements if own else [])])
    missing = [name for name in ("torch", *PACKAGES.get(job.module or "", ())) if name not in have]
    if missing:
        problem = (
            f"{job.module} imports {' and '.join(missing)}, which neither HyperPod's image nor "
            "the environment has"
        )
        yield _finding(
            "failure", scope.field("environment.requirements"), problem, f"Add {', '.join(missing)}"
        )
    read = next((word for word in job.arguments if word.endswith(".toml")), None)
    if read and "tomli" not in have:
        problem = (
            f"{read.rpartition('=')[2]} is TOML, which Python 3.10 of HyperPod's image cannot read"
        )
        yield _finding(
            "failure",
            "job.arguments",
            problem,
            "Add tomli to the requirements, or give the configuration as JSON",
        )


def _packages(requirements: Sequence[str]) -> set[str]:
    found = (_NAME.match(line) for line in requirements)
    return {one[0].lower().replace("_", "-") for one in found if one}


def _finding(severity: str, subject: str, problem: str, remedy: str) -> Finding:
    return Finding(
        "image", "failure" if severity == "failure" else "warning", subject, problem, remedy
    )
