"""ParallelCluster's own API on a stand-in for AWS, and what configurations there name."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import httpx
from botocore.config import Config
from botocore.credentials import Credentials
from tests.support.repository import ROOT
from tests.support.waiting import eventually

from trainyard.backends.parallelcluster.api import ParallelClusterApi, over_http
from trainyard.backends.parallelcluster.making import Making, ParallelClusterSettings
from trainyard.backends.parallelcluster.policies import policy_of
from trainyard_contracts.parallelcluster import ParallelClusterSpec
from trainyard_contracts.places import lifecycle_prefix

PYTHON = ROOT / ".venv-parallelcluster/bin/python"
SERVERS = Path(__file__).with_name("servers")
REGION = "us-east-1"
BUCKET = "corpus"
#: Versioned, as ParallelCluster wants one that it did not make.
ARTIFACTS = "trainyard-artifacts"
#: Its function on AWS has 30 seconds. Here it shares a machine with other tests.
PATIENCE_SECONDS = 300.0
OWN_IMAGE, FOREIGN_IMAGE = "ami-0000000000000016a", "ami-00000000000000309"
ARM_IMAGE = "ami-00000000000000a64"
#: Of the deployment whose clusters are tried.
SETTINGS = ParallelClusterSettings(
    stage="test",
    region=REGION,
    account="123456789012",
    bucket="trainyard-data",
    event_bus="trainyard-test",
    secret_prefix="trainyard/test",
    artifact_bucket=ARTIFACTS,
)
#: Clusters whose nodes' policy exists, as ParallelCluster's validators ask.
NAMES = ("demo", "made", "short-lived", "changed")
_OSES = {
    "amzn2023-hvm": "alinux2023",
    "ubuntu-2204-lts-hvm": "ubuntu2204",
    "ubuntu-2404-lts-hvm": "ubuntu2404",
    "rhel8-hvm": "rhel8",
    "rhel9-hvm": "rhel9",
}


@dataclass(frozen=True)
class Places:
    """What exists in the stand-in's account."""

    head_subnet: str
    subnet: str
    other_zone: str
    third_zone: str
    other_vpc: str
    fsx: str
    fsx_in_other_vpc: str
    efs: str
    volume: str
    image: str
    foreign_image: str
    arm_image: str
    reservation_group: str
    key_name: str = "ada"


@dataclass(frozen=True)
class Cloud:
    """One pair of servers: `api` is our client of the one, `aws` the address of the other."""

    api: ParallelClusterApi
    aws: str
    url: str
    places: Places

    def client(self, service: str) -> Any:
        """Of the stand-in for AWS."""
        return _client(self.aws, service)


def environment(aws: str, directory: Path) -> dict[str, str]:
    """Of both servers: nothing of the caller's AWS reaches them."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {
        **kept,
        "AWS_ENDPOINT_URL": aws,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",
        "MOTO_AMIS_PATH": str(_images(directory)),
        "PCLUSTER_LOG_FILE": str(directory / "pcluster.log"),
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
        "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "1",
        "no_proxy": "127.0.0.1,localhost",
    }


@contextmanager
def running(directory: Path) -> Iterator[Cloud]:
    """Both servers, as long as the context lasts."""
    ports = [_free_port() for _ in range(2)]
    aws, url = (f"http://127.0.0.1:{port}" for port in ports)
    given = environment(aws, directory)
    with (
        _server("aws.py", ports[0], given, directory),
        _server("api.py", ports[1], given, directory),
    ):
        eventually("moto answers", lambda: _answers(f"{aws}/moto-api/"), 300, poll=0.2)
        eventually("ParallelCluster's API answers", lambda: _answers(f"{url}/"), 300, poll=0.2)
        made = places(aws)
        yield Cloud(client_of(url), aws, url, made)


def client_of(url: str) -> ParallelClusterApi:
    credentials = Credentials("test", "test")
    return ParallelClusterApi(url, REGION, lambda: credentials, over_http(PATIENCE_SECONDS))


@contextmanager
def _server(
    script: str, port: int, given: Mapping[str, str], directory: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / f"{script}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(PYTHON), str(SERVERS / script), str(port)],
            env=dict(given),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _answers(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(url, timeout=5).status_code > 0
    return False


def _client(aws: str, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=aws,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(s3={"addressing_style": "path"}),
    )


def _images(directory: Path) -> Path:
    """ParallelCluster's own images, by the names under which it looks for them."""
    made = [
        _image(
            f"ami-{at:017x}", f"aws-parallelcluster-3.16.1-{part}-{machine}-202601010000", machine
        )
        for at, (part, machine) in enumerate(
            (part, machine) for part in _OSES for machine in ("x86_64", "arm64")
        )
    ]
    made += [_image(name, f"mine-{name}", "x86_64") for name in (OWN_IMAGE, FOREIGN_IMAGE)]
    made.append(_image(ARM_IMAGE, f"mine-{ARM_IMAGE}", "arm64"))
    path = directory / "images.json"
    path.write_text(json.dumps(made))
    return path


def _image(name: str, title: str, machine: str) -> dict[str, Any]:
    return {
        "ami_id": name,
        "state": "available",
        "public": True,
        "owner_id": "247102896272",
        "image_location": f"amazon/{title}",
        "root_device_type": "ebs",
        "root_device_name": "/dev/xvda",
        "description": title,
        "image_type": "machine",
        "architecture": machine,
        "name": title,
        "virtualization_type": "hvm",
        "hypervisor": "xen",
        "creation_date": "2026-01-01T00:00:00.000Z",
    }


def places(aws: str) -> Places:
    """Make what configurations name."""
    ec2 = _client(aws, "ec2")
    vpc, subnets = _network(ec2, "10.0", ("a", "a", "b", "c"))
    elsewhere, away = _network(ec2, "10.1", ("a",))
    ec2.create_key_pair(KeyName="ada", KeyType="ed25519")
    s3 = _client(aws, "s3")
    for bucket in (BUCKET, ARTIFACTS):
        s3.create_bucket(Bucket=bucket)
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for key in ("scripts/one.sh", "scripts/two.sh", "tokens/v1/part-0"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"#!/bin/sh\n")
    s3.create_bucket(Bucket=SETTINGS.bucket)
    for name in NAMES:
        script = f"{lifecycle_prefix(name, 1)}/{SETTINGS.node_script}"
        s3.put_object(Bucket=SETTINGS.bucket, Key=script, Body=b"#!/bin/sh\n")
    _policies(aws, subnets)
    volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=100)["VolumeId"]
    return Places(
        *subnets,
        other_vpc=away[0],
        fsx=_filesystem(aws, vpc, subnets[1]),
        fsx_in_other_vpc=_filesystem(aws, elsewhere, away[0]),
        efs=_efs(aws, vpc, subnets[1]),
        volume=volume,
        image=_own_image(ec2, OWN_IMAGE, "3.16.1"),
        foreign_image=_own_image(ec2, FOREIGN_IMAGE, "3.9.0"),
        arm_image=_own_image(ec2, ARM_IMAGE, "3.16.1"),
        reservation_group=_reservation_group(aws),
    )


def _policies(aws: str, subnets: list[str]) -> None:
    iam = _client(aws, "iam")
    for name in NAMES:
        policy = policy_of(Making(_smallest(name, subnets), 1, {}, SETTINGS))
        iam.create_policy(
            PolicyName=policy.name, Path=policy.path, PolicyDocument=json.dumps(policy.document)
        )


def _smallest(name: str, subnets: list[str]) -> ParallelClusterSpec:
    queue = {"name": "q", "instanceTypes": ["c5.large"], "max": 1, "subnetIds": subnets[1:2]}
    return ParallelClusterSpec.model_validate(
        {
            "name": name,
            "backend": "parallelcluster",
            "headNode": {"instanceType": "c5.large", "subnetId": subnets[0]},
            "queues": [queue],
            "sharedStorage": [{"name": "s", "mountPath": "/s", "efs": {}}],
        }
    )


def _network(ec2: Any, prefix: str, zones: tuple[str, ...]) -> tuple[str, list[str]]:
    vpc = ec2.create_vpc(CidrBlock=f"{prefix}.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsSupport={"Value": True})
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    made = [
        ec2.create_subnet(
            VpcId=vpc, CidrBlock=f"{prefix}.{16 * at}.0/20", AvailabilityZone=f"us-east-1{zone}"
        )["Subnet"]["SubnetId"]
        for at, zone in enumerate(zones)
    ]
    return vpc, made


def _open_group(ec2: Any, vpc: str) -> str:
    group: str = ec2.create_security_group(GroupName="storage", Description="-", VpcId=vpc)[
        "GroupId"
    ]
    everything = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=everything)
    return group


def _filesystem(aws: str, vpc: str, subnet: str) -> str:
    ec2 = _client(aws, "ec2")
    interface = ec2.create_network_interface(SubnetId=subnet, Groups=[_open_group(ec2, vpc)])
    tags = {
        "test-vpc": vpc,
        "test-interface": interface["NetworkInterface"]["NetworkInterfaceId"],
    }
    made: str = _client(aws, "fsx").create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=[subnet],
        Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
    )["FileSystem"]["FileSystemId"]
    return made


def _efs(aws: str, vpc: str, subnet: str) -> str:
    efs, ec2 = _client(aws, "efs"), _client(aws, "ec2")
    made: str = efs.create_file_system(CreationToken="shared")["FileSystemId"]
    group = ec2.create_security_group(GroupName="efs", Description="-", VpcId=vpc)["GroupId"]
    everything = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=everything)
    efs.create_mount_target(FileSystemId=made, SubnetId=subnet, SecurityGroups=[group])
    return made


def _own_image(ec2: Any, image: str, version: str) -> str:
    """One that was made for this version of ParallelCluster."""
    tags = {
        "parallelcluster:version": version,
        "parallelcluster:build_status": "available",
        "parallelcluster:os": "ubuntu2204",
    }
    ec2.create_tags(
        Resources=[image], Tags=[{"Key": key, "Value": value} for key, value in tags.items()]
    )
    return image


def _reservation_group(aws: str) -> str:
    groups = _client(aws, "resource-groups")
    made: str = groups.create_group(
        Name="trainium",
        Configuration=[
            {"Type": "AWS::EC2::CapacityReservationPool"},
            {
                "Type": "AWS::ResourceGroups::Generic",
                "Parameters": [
                    {
                        "Name": "allowed-resource-types",
                        "Values": ["AWS::EC2::CapacityReservation"],
                    }
                ],
            },
        ],
    )["Group"]["GroupArn"]
    return made
