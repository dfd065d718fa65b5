"""Why a cluster can never run a job: the field of the job that is wrong, and a sentence."""

from collections.abc import Mapping
from typing import Optional

from .cluster_specs import ClusterSpec
from .git_code import GitSpec
from .images import is_file

#: EC2's instance types with Neuron devices begin so.
NEURON_FAMILIES = ("trn", "inf2")
Unfit = Optional[tuple[str, str]]


def of_partition(partition: str | None, cluster: ClusterSpec) -> Unfit:
    known = ", ".join(cluster.partitions)
    if partition is None and len(cluster.partitions) > 1:
        return (
            "partition",
            f"cluster '{cluster.name}' has several partitions; name one of {known}",
        )
    if partition is not None and partition not in cluster.partitions:
        return (
            "partition",
            f"cluster '{cluster.name}' has no partition '{partition}'; it has {known}",
        )
    return None


def _where(partition: str | None, cluster: ClusterSpec) -> str:
    whole = f"cluster '{cluster.name}'"
    return f"partition '{partition}' of {whole}" if partition else whole


def of_nodes(nodes: int, partition: str | None, cluster: ClusterSpec) -> Unfit:
    have, where = cluster.worker_count(partition), _where(partition, cluster)
    if nodes > have:
        return (
            "nodes",
            f"{nodes} nodes asked, but {where} has "
            f"{have} worker node{'' if have == 1 else 's'}; ask for at most {have}",
        )
    if nodes < have and cluster.nodes_come_with_jobs:
        return (
            "nodes",
            f"{nodes} nodes asked, but each job of {where} has all its {have} nodes; "
            f"ask for {have}",
        )
    return None


def of_image(image: str | None, cluster: ClusterSpec) -> Unfit:
    shared = cluster.shared_path
    if image and is_file(image) and not image.startswith(f"{shared}/"):
        return (
            "image",
            f"'{image}' is not below {shared}, the shared filesystem of cluster "
            f"'{cluster.name}', so not all nodes have it; put the file there",
        )
    return None


def of_git(git: GitSpec | None, cluster: ClusterSpec) -> Unfit:
    shared, url = cluster.shared_path, git.url if git is not None else ""
    if url.startswith("/") and not url.startswith(f"{shared}/"):
        return (
            "git.url",
            f"'{url}' is not below {shared}, the shared filesystem of cluster "
            f"'{cluster.name}', so its controller does not have it; put the repository "
            "there, or give the URL of a server",
        )
    return None


def of_secrets(secrets: Mapping[str, str], git: GitSpec | None, cluster: ClusterSpec) -> Unfit:
    asked = {f"secrets.{name}": reference for name, reference in secrets.items()}
    if git is not None and git.secret is not None:
        asked["git.secret"] = git.secret
    for field, reference in asked.items():
        name = reference.partition(":")[0]
        if name not in cluster.job_secrets:
            return (
                field,
                f"cluster '{cluster.name}' gives its jobs no secret '{name}'; name it in "
                "jobSecrets of the cluster's spec",
            )
    return None


def of_recipe(recipe: str, partition: str | None, cluster: ClusterSpec) -> Unfit:
    if recipe == "neuron" and not all(
        group.ec2_type.startswith(NEURON_FAMILIES) for group in cluster.workers(partition)
    ):
        types = ", ".join(sorted(cluster.instance_types(partition)))
        return (
            "recipe",
            f"recipe 'neuron' needs Trainium or Inferentia2 nodes, but "
            f"{_where(partition, cluster)} has {types}; use 'torchrun'",
        )
    return None
