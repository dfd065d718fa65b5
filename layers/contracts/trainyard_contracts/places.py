"""Names by which one process finds what another one wrote: objects, secrets, roles, tags and files.

Needs the standard library only. The trainers and the lifecycle scripts do not import it and spell
some of these once more; `tests/contract/test_places.py` holds them to this page.
"""

from __future__ import annotations

import re

#: On all that a stack makes: the stack's name.
STAGE_TAG = "trainyard:stage"
#: On a cluster and its role: the cluster's name.
CLUSTER_TAG = "trainyard:cluster"
#: On a filesystem: its name.
FILESYSTEM_TAG = "trainyard:filesystem"
#: On a cluster that was made for one run: the run's id.
RUN_TAG = "trainyard:run"
#: On a cluster or filesystem: which record it was made for. A name is used again; this is never the
#: same twice.
RECORD_TAG = "trainyard:record"
#: On a cluster of others, put there by them: the stack that may replace and reboot its nodes.
REPLACE_TAG = "trainyard:replace-nodes"

#: Of the lifecycle bundle: what a node must know of its cluster.
CLUSTER_FILE = "cluster.json"

#: In a run's directory, and in its export: one directory for each attempt, the final model, and a
#: program's own results (TRAINYARD_OUTPUT_DIR), which are always exported.
ATTEMPTS, FINAL, OUTPUT = "attempts", "final", "output"
#: In a run's directory: what a program leaves that is written for script mode, where its variables
#: say (SM_MODEL_DIR, SM_OUTPUT_DATA_DIR, SM_OUTPUT_INTERMEDIATE_DIR), and its own checkpoints
#: (/opt/ml/checkpoints).
SCRIPT_MODEL, SCRIPT_DATA = "output/script-mode/model", "output/script-mode/data"
SCRIPT_INTERMEDIATE = "output/script-mode/intermediate"
SCRIPT_CHECKPOINTS = "output/script-mode/checkpoints"
#: In a run's directory: the program's working directory, the same at each attempt.
WORK = "work"
#: In a run's directory: the document of the tree that was unpacked there.
TREE = "tree.json"
#: In a run's directory: its own copies of data for the program (inputs), each by its number, and
#: what is known of each.
INPUTS = "inputs"
#: In a run's directory: where checkpoints lie unless the spec names another place.
CHECKPOINTS = "checkpoints"
#: In a run's directory, and in its export: the agent's copies of the checkpoints that a program
#: wrote in its own way, one directory for each series of them.
WATCHED = "watched"
#: Such a copy's directory: its number in its series, its step, its attempt.
SAVE_NAME = re.compile(r"^save-([0-9]{12})-step-([0-9]{12,13})-attempt-([0-9]{1,9})$")
#: In a run's directory: which checkpoint had the smallest validation loss, and so is kept.
BEST = "best.json"
#: In a run's directory: the newest attempt's number, and the lock under which it is raised and a
#: checkpoint is renamed into place.
FENCE, FENCE_LOCK = "fence", "fence.lock"
#: A checkpoint's directory: step and attempt.
CHECKPOINT_NAME = re.compile(r"^step-([0-9]{12})-attempt-([0-9]{1,9})$")
#: In a checkpoint's directory, and in that of the final model.
CHECKPOINT_MANIFEST = "manifest.json"

#: In an attempt's directory, and its key in S3: what the agent submits.
BUNDLE = "bundle.json"
#: In an attempt's directory: the bundle's fields for the launcher, without the user's files.
JOB = "job.json"
#: In an attempt's directory: the addresses of nodes by their Slurm names.
HOSTS = "hosts"
#: In an attempt's directory: where older versions had the user's files.
FORMER_FILES = "files"
#: In an attempt's directory: the file of the image in which the job runs, and the mounts there.
IMAGE, IMAGE_MOUNTS = "image.txt", "image-mounts.txt"
#: Beside the directory of all runs: imported images, by their digests.
IMAGES = "container-images"
#: In an attempt's directory: what its processes print.
JOB_LOG = "job.log"
#: In an attempt's directory: how long its log was at which time.
LOG_TIMES = "job.log.times"
#: In an attempt's directory: what each rank prints, in a directory for each node.
RANK_LOGS = "rank-logs"
#: In a node's directory there: how long each of its files was at which time.
RANK_LOG_TIMES = "times"
#: In a node's directory there: a rank's file, or that of a program that runs once on the node.
RANK_LOG_NAME = re.compile(r"^(?:rank-([0-9]{1,7})|program)\.log$")
#: In an attempt's directory: the last finished step.
PROGRESS = "progress.json"
#: In an attempt's directory: a line for every step that the program reported, and the metrics that
#: it reported, as curves.
STEPS, METRICS = "steps.jsonl", "metrics.jsonl"
#: In an attempt's directory: the agent's own copy of the curves that it keeps in S3.
KEPT_CURVES = "curves.json"

EXPORT_MANIFEST = "export-manifest.json"
#: Of the data bucket: what people upload, until it expires.
UPLOADS = "uploads"
#: Of the data bucket: what runs with export.everySeconds copy while they train, by cluster and run.
#: What was there before is kept for a day only, by template.yaml.
SYNC = "sync"
#: Below a run's sync: which of its lists is in force.
SYNC_LATEST = "latest.json"
#: In a run's directory: other names of a checkpoint's files, while the sync reads them.
SYNC_HELD = ".sync-held"
#: Of the data bucket: the directories of runs whose nodes share no filesystem, by cluster and run.
#: Below a run's are the names of a run's directory: CHECKPOINTS, FINAL, OUTPUT, WORK, ATTEMPTS.
DIRECTORIES = "directories"
#: There, beside an object that was sent in parts: the SHA-256 of the whole in hex, and the bytes of
#: each part but the last.
SHA256_BESIDE, PART_BYTES_BESIDE = "sha256", "part-bytes"
#: Below a run's prefix, and of the data bucket: the trees and packs that runs keep.
CODE = "code"
#: Of the data bucket: the names of data that people uploaded.
DATASETS = "datasets"
#: Below a run's prefix; a node's role may write there and nowhere else.
LOGS, EXPORT = "logs", "export"
#: Of an export and a sync: what the program reported in each attempt. These are no results.
CURVES = "curves"
#: Below a run's prefix: what its controller fetched with git, of which the control plane makes the
#: run's own copy. A node's role may write there, too.
FETCHED = "fetched"
#: Runs that were made before objects lay below their cluster lie here.
FORMER_RUNS_PREFIX = "runs"


def is_own_checkpoint(path: str) -> bool:
    """Whether a trainer committed it, so that step and attempt name it; else only its path does."""
    foreign = path.startswith((f"{WATCHED}/", f"{WORK}/", f"{OUTPUT}/"))
    return not foreign or CHECKPOINT_NAME.match(path.rpartition("/")[2]) is not None


def launch_report(node: str) -> str:
    """In an attempt's directory: how the launcher of one node began and ended."""
    return f"launch-{node}.json"


def is_launch_report(name: str) -> bool:
    return name.startswith("launch-") and name.endswith(".json")


def rank_logs(node: str) -> str:
    """In an attempt's directory: what the ranks of one node print, a file for each."""
    return f"{RANK_LOGS}/{node}"


def rank_log(rank: int | None) -> str:
    """In such a directory: of one rank, or of a program that runs once on the node."""
    return "program.log" if rank is None else f"rank-{rank}.log"


def cluster_prefix(cluster: str) -> str:
    """All objects of a cluster lie below it; ends with a slash."""
    return f"clusters/{cluster}/"


def runs_prefix(cluster: str) -> str:
    """Where the runs of a cluster keep their objects; its nodes reach no other cluster's."""
    return f"{cluster_prefix(cluster)}runs"


def run_prefix(runs: str, run: str) -> str:
    """Where one run keeps its objects, below a cluster's `runs_prefix`."""
    return f"{runs}/{run}"


def bundle_key(run: str, attempt: int) -> str:
    """Of an attempt's bundle, below a `run_prefix`."""
    return f"{run}/attempts/{attempt}/{BUNDLE}"


def log_name(attempt: int | str) -> str:
    """Of an attempt's whole log, in a run's prefix and in its export."""
    return f"{LOGS}/attempt-{attempt}.log"


def log_times_key(log: str) -> str:
    """Beside a log that is kept in S3: when its parts were printed."""
    return f"{log.removesuffix('.log')}.times.json"


def rank_logs_key(log: str) -> str:
    """Beside a log that is kept in S3: which ranks' logs are kept, too."""
    return f"{log.removesuffix('.log')}/{RANK_LOGS}.json"


def rank_log_key(log: str, node: str, rank: int | None) -> str:
    """One of those logs."""
    name = f"program-{node}.log" if rank is None else rank_log(rank)
    return f"{log.removesuffix('.log')}/{name}"


def curves_key(log: str) -> str:
    """Beside a log that is kept in S3: the attempt's curves."""
    return f"{log.removesuffix('.log')}.{KEPT_CURVES}"


def curves_name(attempt: int | str, name: str) -> str:
    """Of one of the files with what an attempt reported, in an export and in a sync."""
    return f"{CURVES}/attempt-{attempt}.{name}"


def log_key(run: str, attempt: int) -> str:
    """The same, below a `run_prefix`."""
    return f"{run}/{log_name(attempt)}"


def export_prefix(run: str) -> str:
    """Where a run is exported to, below a `run_prefix`; ends with a slash."""
    return f"{run}/{EXPORT}/"


def sync_prefix(cluster: str, run_id: str) -> str:
    """Where a run's sync lies in the data bucket; objects are named by their SHA-256."""
    return f"{SYNC}/{cluster}/{run_id}"


def directory_prefix(cluster: str, run_id: str) -> str:
    """Where such a run has its directory in the data bucket; ends with a slash.

    A checkpoint is whole there when its CHECKPOINT_MANIFEST is, which is written last.
    """
    return f"{directories_prefix(cluster)}{run_id}/"


def directories_prefix(cluster: str) -> str:
    """Where the runs of one cluster have theirs; its nodes reach no other cluster's."""
    return f"{DIRECTORIES}/{cluster}/"


def sync_manifest(number: int) -> str:
    """Below a `sync_prefix`: one list of what is synced. It is never changed."""
    return f"manifest-{number}.json"


def code_prefix(run: str) -> str:
    """Where a run keeps the tree and packs of its upload, below a `run_prefix`."""
    return f"{run}/{CODE}"


def outputs_prefix(run: str, number: int) -> str:
    """Where a run finds its copy of what another run exported (inputs), below a `run_prefix`; ends
    with a slash.
    """
    return f"{run}/{INPUTS}/{number}/"


def start_prefix(run: str) -> str:
    """Where a run of training jobs finds the checkpoint of another run with which it begins, below
    a `run_prefix`; ends with a slash. The checkpoint has the name that it had there.
    """
    return f"{run}/start/"


def fetched_prefix(run: str) -> str:
    """Where a run's controller puts what it fetched with git, below a `run_prefix`."""
    return f"{run}/{FETCHED}"


def upload_key(sha256: str) -> str:
    """Of a tree or pack that somebody uploaded; it expires."""
    return f"{UPLOADS}/{sha256}"


def complete_upload_key(tree: str) -> str:
    """Written once a tree and all its packs were there."""
    return f"{UPLOADS}/complete/{tree}"


def held_parts_key(tree: str) -> str:
    """Written when some of a tree's parts were there, so that the next look is at the others."""
    return f"{UPLOADS}/held/{tree}"


def kept_code_key(tree: str) -> str:
    """Says which run keeps a tree and all its packs; it never expires."""
    return f"{CODE}/{tree}"


def named_data_key(name: str) -> str:
    """Says which tree people uploaded last under this name; it never expires."""
    return f"{DATASETS}/{name}"


def lifecycle_prefix(cluster: str, generation: int) -> str:
    """Where a cluster's nodes find their lifecycle scripts."""
    return f"{cluster_prefix(cluster)}{generation}/lifecycle"


def secret_prefix(stack: str) -> str:
    """All secrets of a stack lie below it; template.yaml gives it to the functions."""
    return f"trainyard/{stack}"


def webhook_secret(prefix: str, webhook_id: str) -> str:
    """The secret that signs for a webhook: not below the prefix, where nodes and functions read."""
    return f"trainyard-webhooks/{prefix.removeprefix('trainyard/')}/{webhook_id}"


def agent_key_secret(prefix: str, cluster: str) -> str:
    """The secret that holds the key of a cluster's agents, below a `secret_prefix`."""
    return f"{prefix}/{cluster}/agent-key"


def job_name(stack: str, run_id: str, attempt: int) -> str:
    """The name of an attempt's training job, the same for the same; 63 characters at most.

    A stack's name has 30 at most, since its bucket's name holds it, too.
    """
    return f"{stack}-{run_id.removeprefix('run-')}-{attempt}"


def attempt_of_job(stack: str, name: str) -> tuple[str, int] | None:
    """Run and attempt of a training job; None for the name of a job that is not the stack's."""
    own = re.fullmatch(rf"{re.escape(stack)}-([0-9a-hjkmnp-tv-z]{{26}})-([0-9]{{1,9}})", name)
    return (f"run-{own.group(1)}", int(own.group(2))) if own else None


def roles_path(stack: str) -> str:
    """IAM path below which the roles of a stack's clusters lie, and nothing else."""
    return f"/trainyard/{stack}/"


def job_roles_path(stack: str) -> str:
    """IAM path of the roles of training jobs, below that of the cluster that they are for."""
    return f"{roles_path(stack)}training-jobs/"


def cluster_roles_path(stack: str, cluster: str) -> str:
    """IAM path of the roles of one cluster, of all its generations."""
    return f"{roles_path(stack)}{cluster}/"
