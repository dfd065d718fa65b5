"""Whether an export holds a run's result, so that no cluster with the only copy is deleted."""

from __future__ import annotations

from trainyard.domain.records import Run
from trainyard.domain.words import counted, size
from trainyard_contracts.files import ExportManifest
from trainyard_contracts.specs import ExportSpec

#: Programs that commit checkpoints and a final model by themselves.
OUR_TRAINERS = "trainyard_trainers."
#: So many files of the output directory are exported at most, as the agent does it.
OUTPUT_FILES = 20_000
#: Words of an end whose remedy is another one.
_TOO_MANY = f"the output directory has more than the {OUTPUT_FILES:,} files that an export takes"
NOTHING = (
    "No result was found: neither a checkpoint nor a final model nor a file of the program's in "
    "its output or working directory."
)


def left_behind(manifest: ExportManifest) -> str:
    """Files that only the cluster holds and that may be the result; '' if nothing of worth was left
    out.

    Files of a working directory may be anything, so they count only where nothing better was
    exported; what was put into the output directory was meant to be kept.
    """
    better = manifest.final_model or manifest.last_step is not None or manifest.output_files > 0
    count = manifest.output_left_out + (0 if better else manifest.working_left_out)
    if not count:
        return ""
    files = f"{counted(count, 'file')} of the program's own ({size(manifest.left_out_bytes)})"
    if manifest.output_left_out and manifest.output_files >= OUTPUT_FILES:
        return f"{files}: {_TOO_MANY}"
    return f"{files}, which are too many, too large, or links that lead elsewhere"


def found_nothing(manifest: ExportManifest, asked: ExportSpec) -> bool:
    """Only logs were exported, though checkpoints were expected: the result is elsewhere."""
    some = (
        manifest.final_model
        or manifest.last_step is not None
        or manifest.output_files
        or manifest.working_files
    )
    return not some and asked.checkpoints != "none"


def without_result(run: Run) -> bool:
    """The run succeeded, and nothing of what it made was found."""
    export = run.export
    return (
        run.outcome == "succeeded"
        and export is not None
        and export.final
        and export.state == "verified"
        and export.found_nothing
    )


def kept_because(run: Run) -> str:
    """Why the run's own cluster stays although its export is verified; '' if it may go."""
    many = run.export is not None and _TOO_MANY in run.export.left_behind
    again = (
        f"{'Pack them into archives in' if many else 'Put them into'} TRAINYARD_OUTPUT_DIR and "
        f"export the run again (trainyard run export {run.id}), or delete the cluster by hand."
    )
    if run.export is not None and run.export.left_behind:
        return f"It holds the only copy of {run.export.left_behind}. {again}"
    cluster = run.spec.cluster.spec
    if without_result(run) and cluster is not None and not cluster.nodes_come_with_jobs:
        limit = cluster.idle_limit_seconds
        return (
            f"{NOTHING} It stays until it has been idle for {limit} s "
            "(cluster.spec.idleLimitSeconds). "
            f"{again.replace('them', 'the results')}"
        )
    return ""
