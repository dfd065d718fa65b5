"""A HyperPod cluster as others make it: by boto3, with a role and scripts of their own."""

from __future__ import annotations

import json
from typing import Any

from tests.support.new_roles import made_cluster
from tests.support.spec_parts import FILESYSTEM
from tests.support.system import System

BUCKET = "sagemaker-theirs"
ROLE = "theirs"
#: What their Slurm needs at each boot. The name of a node follows from its address.
SCRIPT = """\
#!/bin/bash
set -euo pipefail
mkdir -p "$TRAINYARD_ROOT/etc/boot.d"
cat >"$TRAINYARD_ROOT/etc/boot.d/slurm" <<'END'
#!/bin/bash
keep() { # a daemon is started again whenever it ends, as its unit says
  setsid bash -c 'while :; do "$@" >>"$0" 2>&1 </dev/null; sleep 1; done' \\
    "$TRAINYARD_ROOT/var/log/slurm/daemon.out" "$@" >/dev/null 2>&1 </dev/null &
}
group=$(python3 - "$SAGEMAKER_RESOURCE_CONFIG_PATH" "$TRAINYARD_ADDRESS" <<'PYTHON'
import json, sys
for group in json.load(open(sys.argv[1]))["InstanceGroups"]:
    for one in group["Instances"] or []:
        if one.get("CustomerIpAddress") == sys.argv[2]:
            print(group["Name"])
PYTHON
)
if [[ $group == head ]]; then
  keep slurmctld -D
else
  keep slurmd -D -N "ip-${TRAINYARD_ADDRESS//./-}"
fi
END
bash "$TRAINYARD_ROOT/etc/boot.d/slurm"
"""
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}


class ForeignCluster:
    """Made without Trainyard, on the local cloud."""

    def __init__(self, system: System, name: str, workers: int) -> None:
        self.system, self.name, self.workers = system, name, workers
        self.sagemaker, self.iam = system.aws("sagemaker"), system.aws("iam")
        self.role = self._role()
        s3 = system.aws("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="scripts/on_create.sh", Body=SCRIPT.encode())
        self.arn = made_cluster(self.sagemaker, **self._request())

    def _role(self) -> str:
        found = self.iam.create_role(
            RoleName=ROLE, AssumeRolePolicyDocument=json.dumps(TRUST), Path="/"
        )
        return str(found["Role"]["Arn"])

    def _request(self) -> dict[str, Any]:
        common = {
            "InstanceType": "ml.m5.large",
            "LifeCycleConfig": {
                "SourceS3Uri": f"s3://{BUCKET}/scripts/", "OnCreate": "on_create.sh",
            },
            "ExecutionRole": self.role,
            "InstanceStorageConfigs": [
                {"FsxLustreConfig": {
                    "DnsName": FILESYSTEM["dnsName"], "MountName": FILESYSTEM["mountName"],
                    "MountPath": "/fsx",
                }}
            ],
        }  # fmt: skip
        head = {
            "InstanceGroupName": "head", "InstanceCount": 1,
            "SlurmConfig": {"NodeType": "Controller"}, **common,
        }  # fmt: skip
        workers = {
            "InstanceGroupName": "gpu", "InstanceCount": self.workers,
            "SlurmConfig": {"NodeType": "Compute", "PartitionNames": ["batch"]}, **common,
        }  # fmt: skip
        return {
            "ClusterName": self.name,
            "InstanceGroups": [head, workers],
            "NodeRecovery": "None",
            "Orchestrator": {"Slurm": {}},
            "NodeProvisioningMode": "Continuous",
            "VpcConfig": {"SecurityGroupIds": ["sg-12345678"], "Subnets": ["subnet-12345678"]},
            "Tags": [{"Key": "team", "Value": "others"}],
        }

    def allow(self, policy: dict[str, Any]) -> None:
        """What the owner of the role does with the policy that the dry run printed."""
        self.iam.put_role_policy(
            RoleName=ROLE, PolicyName="trainyard", PolicyDocument=json.dumps(policy)
        )

    def nodes(self) -> list[dict[str, Any]]:
        answer = self.sagemaker.list_cluster_nodes(ClusterName=self.name, MaxResults=100)
        return list(answer["ClusterNodeSummaries"])

    def serves(self) -> bool:
        """Their cluster is whole."""
        seen = self.sagemaker.describe_cluster(ClusterName=self.name)
        states = [node["InstanceStatus"]["Status"] for node in self.nodes()]
        whole = len(states) == self.workers + 1 and set(states) == {"Running"}
        return seen["ClusterStatus"] == "InService" and whole

    def described(self) -> dict[str, Any]:
        """What a release must leave as it was."""
        seen = self.sagemaker.describe_cluster(ClusterName=self.name)
        kept = ("ClusterArn", "ClusterName", "NodeRecovery", "InstanceGroups", "VpcConfig")
        tags = self.sagemaker.list_tags(ResourceArn=self.arn)["Tags"]
        return {key: seen[key] for key in kept} | {"Tags": tags}

    def files(self, instance_id: str) -> dict[str, bytes]:
        """The disk of one of its nodes, without what runs there all the time writes."""
        [root] = (self.system.state_dir / "clusters").glob(f"*/nodes/{instance_id}/root")
        return {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file() and not path.relative_to(root).as_posix().startswith("var/")
        }

    def leftovers(self) -> list[str]:
        """What of Trainyard's is on its nodes: files, and processes."""
        found = []
        for node in self.nodes():
            [root] = (self.system.state_dir / "clusters").glob(f"*/nodes/{node['InstanceId']}/root")
            found += [
                str(path.relative_to(root))
                for path in root.rglob("*trainyard*")
                if not path.is_relative_to(root / "root")
            ]
            found += [
                process.command
                for process in self.system.processes(TRAINYARD_NODE=node["InstanceId"])
                if "trainyard_agent" in process.command or "supervise" in process.command
            ]
        return found
