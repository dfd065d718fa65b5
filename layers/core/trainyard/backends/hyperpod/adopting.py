"""Clusters that others made: how AWS describes one, and how the agent gets to its nodes and away.

Nothing of the cluster itself is changed: no tag, role, group or setting. A session on each node
fetches the scripts with the node's own role and runs them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainyard.aws.session_channel import SessionChannel
from trainyard.backends import lifecycle_bundle
from trainyard.backends.hyperpod import generated_files
from trainyard.backends.hyperpod.naming import HyperPodSettings, lifecycle_prefix
from trainyard.backends.hyperpod.refusals import Gone, translated
from trainyard.backends.hyperpod.role import agent_statements
from trainyard.backends.hyperpod.states import cluster_status
from trainyard.backends.lifecycle_bundle import BundleSources
from trainyard.domain.foreign_clusters import (
    ForeignCluster,
    ForeignGroup,
    Mount,
    Role,
    partition_of,
    role_of,
)
from trainyard.domain.records import Cluster, ClusterNode
from trainyard.outside.adoptions import NodeAnswer
from trainyard.outside.blobs import Blobs
from trainyard.outside.commands import CommandResult
from trainyard_contracts import places
from trainyard_contracts.adopting import AdoptSpec
from trainyard_contracts.files import ClusterFile, WorkerGroup
from trainyard_contracts.hyperpod import HyperPodClusterSpec

NAME = "hyperpod"
#: A node answers within a quarter of a minute, however far it is (adopt_node.sh).
SECONDS = 25.0
_ROLES: Mapping[str, Role] = {"Controller": "controller", "Compute": "worker", "Login": "login"}
#: Fixed texts; what differs comes as arguments. The first fetches the script and runs it.
_FETCH = 'set -o pipefail; aws s3 cp --only-show-errors "$0" - | bash -s -- "$@"'
#: What removes it is put on the node before anything lies outside of one directory.
_TAKE_BACK = (
    "d=${TRAINYARD_ROOT:-}/opt/trainyard; f=$d/take_back.py; c=$d/adopted-by; "
    'if [ -e "$f" ]; then exec python3 -S -B "$f" "$0"; fi; '
    'if [ ! -e "$c" ]; then echo "{\\"state\\":\\"gone\\"}"; exit 0; fi; '
    'if [ "$(cat "$c")" != "$0" ]; then echo "{\\"state\\":\\"taken\\"}"; exit 0; fi; '
    'rm -rf "$d" && echo "{\\"state\\":\\"gone\\"}"'
)
_STATES = ("installing", "installed", "failed", "taken", "gone")


class HyperPodAdoptions:
    """The port `Adoptions` on SageMaker HyperPod."""

    def __init__(
        self,
        sagemaker: Any,
        blobs: Blobs,
        channel: SessionChannel,
        settings: HyperPodSettings,
        sources: Callable[[], BundleSources],
        tags_of: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._sagemaker, self._blobs, self._channel = sagemaker, blobs, channel
        self._settings, self._sources, self._tags_of = settings, sources, tags_of

    def look(self, name_or_arn: str) -> ForeignCluster | None:
        try:
            with translated("describe the cluster"):
                answer = self._sagemaker.describe_cluster(ClusterName=name_or_arn)
        except Gone:
            return None
        arn, groups = answer["ClusterArn"], answer.get("InstanceGroups") or []
        tags, stage = self._tags_of(arn), self._settings.stage
        return ForeignCluster(
            backend=NAME,
            arn=arn,
            name=answer["ClusterName"],
            status=cluster_status(answer["ClusterStatus"]),
            said=answer["ClusterStatus"],
            groups=[_group(group) for group in groups],
            mount=_mount(groups),
            repairs_itself=answer.get("NodeRecovery") != "None",
            slurm="Eks" not in (answer.get("Orchestrator") or {}),
            ours=_ours(tags),
            replaceable=tags.get(places.REPLACE_TAG) == stage,
            consent=_consent(arn, stage),
            roles={group["ExecutionRole"] for group in groups if group.get("ExecutionRole")},
        )

    def spec(self, asked: AdoptSpec, seen: ForeignCluster) -> HyperPodClusterSpec:
        mount = seen.mount
        shared = {"mountPath": asked.shared_dir or (mount.mount_path if mount else "")}
        if mount is not None and asked.shared_dir in (None, mount.mount_path):
            shared |= {"dnsName": mount.dns_name, "mountName": mount.mount_name}
        return HyperPodClusterSpec.model_validate(
            {
                "name": seen.name,
                "instanceGroups": [_spec_group(asked, one) for one in seen.groups if one.count],
                "sharedFilesystem": shared,
                "nodeRecovery": "Automatic" if seen.repairs_itself else "None",
                "environment": asked.environment.model_dump(mode="json", by_alias=True),
                "jobSecrets": asked.job_secrets,
                "jobInputs": asked.job_inputs,
            },
            context={"accepted": True},  # nobody wrote it: rules of a creation do not judge it
        )

    def policy(self, cluster: Cluster) -> Mapping[str, Any]:
        statements = agent_statements(cluster, self._settings)
        return {"Version": "2012-10-17", "Statement": statements}

    def offer(self, cluster: Cluster) -> None:
        content = self._cluster_file(cluster).model_dump(mode="json", by_alias=True)
        generated = {places.CLUSTER_FILE: lifecycle_bundle.as_file(content)}
        prefix = lifecycle_prefix(cluster)
        lifecycle_bundle.upload(self._blobs, self._sources(), generated, prefix)

    def install(self, cluster: Cluster, node: ClusterNode) -> NodeAnswer:
        source = f"s3://{self._settings.bucket}/{lifecycle_prefix(cluster)}"
        script = f"{source}/adopt_node.sh"
        words = ["bash", "-c", _FETCH, script, source, self._owner(cluster)]
        return _answer(self._run(cluster, node, words), f"{source} cannot be fetched")

    def take_back(self, cluster: Cluster, node: ClusterNode) -> NodeAnswer:
        words = ["bash", "-c", _TAKE_BACK, self._owner(cluster)]
        return _answer(self._run(cluster, node, words), "it cannot be removed")

    def _run(self, cluster: Cluster, node: ClusterNode, words: Sequence[str]) -> CommandResult:
        target = f"sagemaker-cluster:{cluster.id}_{node.group}-{node.instance_id}"
        argv = ["sudo", "-n", *words]
        return self._channel.run(lambda again: target, argv, timeout_seconds=SECONDS)

    def _owner(self, cluster: Cluster) -> str:
        """Written on each node: which adoption has it, of all stacks and for ever."""
        return f"{self._settings.secret_prefix}/{cluster.name}/{cluster.generation}"

    def _cluster_file(self, cluster: Cluster) -> ClusterFile:
        spec = generated_files.own_spec(cluster)
        return lifecycle_bundle.cluster_file(
            cluster.name,
            spec,
            self._settings,
            shared_path=spec.shared_path,
            slurm_setup="Adopted",
            controller_group=next(g.name for g in spec.instance_groups if g.role == "controller"),
            worker_groups=[
                WorkerGroup(name=group.name, partition=spec.partition_of(group))
                for group in spec.workers()
            ],
            expected_workers=1,  # people may have drained others; each node is asked besides
        )


def _group(group: Mapping[str, Any]) -> ForeignGroup:
    slurm = group.get("SlurmConfig") or {}
    types = (group.get("InstanceRequirements") or {}).get("InstanceTypes") or ["unknown"]
    partitions = slurm.get("PartitionNames") or [None]
    return ForeignGroup(
        name=group["InstanceGroupName"],
        instance_type=group.get("InstanceType") or types[0],
        count=group.get("TargetCount") or group.get("CurrentCount") or 0,
        role=_ROLES.get(slurm.get("NodeType") or ""),
        partition=partitions[0],
        execution_role=group.get("ExecutionRole") or "",
    )


def _spec_group(asked: AdoptSpec, group: ForeignGroup) -> dict[str, object]:
    role = role_of(asked, group)
    worker = {"partition": partition_of(asked, group)} if role == "worker" else {}
    return {
        "name": group.name,
        "role": role,
        "instanceType": group.instance_type,
        "count": group.count,
        **worker,
    }


def _mount(groups: Sequence[Mapping[str, Any]]) -> Mount | None:
    """The one filesystem that all groups have; None where they differ, or AWS knows of none."""
    found = {
        (lustre["DnsName"], lustre["MountName"], lustre.get("MountPath") or "/fsx")
        for group in groups
        for storage in group.get("InstanceStorageConfigs") or []
        if (lustre := storage.get("FsxLustreConfig"))
    }
    return Mount(*found.pop()) if len(found) == 1 else None


def _ours(tags: Mapping[str, str]) -> str:
    stack = tags.get(places.STAGE_TAG)
    if stack is None:
        return ""
    return (
        f"was made by the Trainyard stack '{stack}', as its tag {places.STAGE_TAG} says; only a "
        "cluster that others made is adopted"
    )


def _consent(arn: str, stage: str) -> str:
    return (
        f"needs the cluster's tag {places.REPLACE_TAG} with the value {stage}, by which its owners "
        f"allow it; they run: aws sagemaker add-tags --resource-arn {arn} "
        f"--tags Key={places.REPLACE_TAG},Value={stage}"
    )


def _answer(result: CommandResult, failing: str) -> NodeAnswer:
    """The last line that the node printed is its answer; else its words say why there is none."""
    lines = result.stdout.strip().splitlines()
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        found = None
    if isinstance(found, dict) and found.get("state") in _STATES:
        left = [str(one) for one in found.get("left") or []]
        return NodeAnswer(found["state"], str(found.get("reason") or ""), left)
    said = (result.stderr.strip() or result.stdout.strip())[-600:]
    if said.startswith("sudo:"):
        return NodeAnswer("failed", f"sessions on the node have no sudo: {said}. {_NO_SUDO}")
    denied = any(word in said for word in ("403", "AccessDenied", "Forbidden"))
    advice = f" {_DENIED}" if denied else ""
    return NodeAnswer(
        "failed", f"{failing} (exit {result.exit_code}): {said or 'no word'}.{advice}"
    )


_NO_SUDO = (
    "Let Session Manager's sessions run as a user who has sudo without a password (preferences, "
    "'Run As')."
)
_DENIED = (
    "The role of the node's group lacks the statements ReadBundles and ListData; "
    "trainyard cluster adopt NAME --dryrun prints them all."
)
