"""What a dry run warns of: a program that leaves no result."""

from __future__ import annotations

from trainyard.domain.results import OUR_TRAINERS, OUTPUT_FILES
from trainyard_contracts.specs import RunSpec

WHERE = (
    "Results belong into the directory that TRAINYARD_OUTPUT_DIR names: "
    f"it is there again at each attempt and always exported, up to {OUTPUT_FILES:,} files "
    "(pack more of them into archives). Files that "
    "a program leaves in its working directory or in TRAINYARD_RUN_DIR are exported up to 20 "
    "GiB; what it writes elsewhere on the nodes is "
    "not found and goes with the cluster."
)


def warnings(spec: RunSpec) -> list[str]:
    """What could surprise the user of this run; it is in dry run, answer and timeline."""
    found = []
    if (
        not (spec.job.module or "").startswith(OUR_TRAINERS)
        and spec.export.enabled
        and spec.teardown_policy != "never"
    ):
        found.append(f"job: the program is not one of Trainyard's trainers. {WHERE}")
    times = (spec.checkpoint.every_seconds, spec.checkpoint.every_steps)
    if times == (None, None) and spec.checkpoint.watch is None:
        found.append(
            "checkpoint: neither everySeconds nor everySteps is given; "
            "Trainyard's trainers then save every 60 s, and a program that saves "
            "nothing itself starts again from the beginning after a failure."
        )
    if not spec.export.enabled and spec.teardown_policy != "never":
        found.append(
            "export.enabled is false and the cluster is deleted at the end: "
            "what was trained is lost with it."
        )
    cluster = spec.cluster.spec
    if cluster is not None and (longest := cluster.longest_job_seconds) is not None:
        most = spec.limits.max_duration_seconds
        if longest < most:
            found.append(
                f"cluster: AWS ends each job after {longest} s (maxRuntimeSeconds), before the "
                f"{most} s of limits.maxDurationSeconds, and the run ends with it."
            )
    if cluster is not None and cluster.nodes_come_with_jobs:
        found.append(
            "cluster: a lost node ends the job, and the next attempt is a job of its own, for "
            "which AWS needs minutes; a program goes on from its newest checkpoint."
        )
    elif cluster is not None and not cluster.standing_by(spec.job.nodes):
        found.append(
            "cluster: there is no spare, so a lost node is waited for (minutes) instead of "
            "replaced in seconds."
        )
    return found
