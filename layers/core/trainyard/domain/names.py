"""Every name that is derived from another one: ids, keys, executions, secrets; so that no two places spell one differently."""

from __future__ import annotations


def run_id(ulid: str) -> str:
    return f"run-{ulid.lower()}"


def cluster_for_run(spec_name: str, run: str) -> str:
    """The name of a cluster made for a run: at most 63 characters, ends with the last 6 of the run's ulid."""
    return f"{spec_name[:56].rstrip('-')}-{run[-6:]}"


def bundle_key(run: str, attempt: int) -> str:
    return f"runs/{run}/attempts/{attempt}/bundle.json"


def log_key(run: str, attempt: int) -> str:
    return f"runs/{run}/logs/attempt-{attempt}.log"


def export_prefix(run: str) -> str:
    return f"runs/{run}/export/"


def export_manifest_key(run: str) -> str:
    return f"{export_prefix(run)}export-manifest.json"


def s3_uri(bucket: str, key: str) -> str:
    return f"s3://{bucket}/{key}"


def run_execution(run: str, generation: int) -> str:
    return f"{run}-{generation}"


def cluster_execution(cluster: str, generation: int, tries: int = 0) -> str:
    """Execution name of the cluster and teardown machines; a machine that died is started again under a name of its own."""
    return f"{cluster}-{generation}" if tries == 0 else f"{cluster}-{generation}-{tries}"


def agent_key_secret(prefix: str, cluster: str) -> str:
    return f"{prefix}/{cluster}/agent-key"


def run_owner(run: str) -> str:
    return f"run:{run}"


def cluster_owner(cluster: str) -> str:
    return f"cluster:{cluster}"


def teardown_owner(cluster: str) -> str:
    return f"teardown:{cluster}"
