"""The parts that every cluster's spec needs and that no test is about: a network, and the filesystem in it."""

from __future__ import annotations

NETWORK = {"subnetIds": ["subnet-0123456789abcdef0"], "securityGroupIds": ["sg-0123456789abcdef0"]}
FILESYSTEM = {
    "dnsName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
    "mountName": "abcdefgh",
}
ON_FSX = {"network": NETWORK, "sharedFilesystem": FILESYSTEM}
