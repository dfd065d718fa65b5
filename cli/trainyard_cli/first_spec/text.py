"""Writes a spec with its comments; what it writes is valid and runs as it is on the local cloud."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .look import Found


@dataclass(frozen=True)
class Cluster:
    """Where it runs: a cluster that is there, or one that is made for the run."""

    name: str | None = None
    nodes: int = 2
    others: tuple[str, ...] = ()
    local: bool = False


def spec_text(name: str, found: Found, cluster: Cluster) -> str:
    parts = [
        _head(found),
        f"name: {name}",
        _cluster(name, cluster, found.nodes or 1),
        _job(found, cluster),
        *_checkpoints(found),
        _rest(),
    ]
    return "\n".join(parts) + "\n"


def plain_name(text: str) -> str:
    """A name for runs and clusters, as near as possible to the text."""
    words = re.findall(r"[A-Za-z0-9]+", text)
    return "-".join(words)[:40].strip("-") or "training"


def _head(found: Found) -> str:
    sources = "".join(f"# Read in {source}.\n" for source in found.sources)
    return (
        "# Submit it:    trainyard run submit trainyard.yaml --watch\n"
        "# Try it first: trainyard run submit trainyard.yaml --dryrun\n"
        "# All fields:   docs/reference/specs.md\n"
        f"{sources}"
    )


def _cluster(name: str, cluster: Cluster, nodes: int) -> str:
    if cluster.name is not None:
        others = f"  # also there: {', '.join(cluster.others)}\n" if cluster.others else ""
        there = "# It is there already. For one of the run's own write 'spec' in place of 'name'.\n"
        return f"{there}cluster:\n{others}  name: {cluster.name}"
    place = (
        "  # The local cloud takes network and filesystem as they are; on AWS they are your own:\n"
        "  # private subnets, a security group that allows all traffic to itself, FSx for Lustre.\n"
        if cluster.local
        else "  # TODO: your own private subnets, a security group that allows all traffic to\n"
        "  # itself, and FSx for Lustre there. 'trainyard doctor trainyard.yaml' checks them.\n"
    )
    environment = (
        "    environment: {kind: existing, path: /opt/trainyard/env}"
        if cluster.local
        else "    environment: {kind: venv, path: /opt/trainyard/env, requirements: [torch]}"
    )
    return (
        "# Made for this run and deleted at its end. Or one that is there: cluster: {name: ...}\n"
        f"cluster:\n{place}"
        "  spec:\n"
        f"    name: {name}\n"
        "    instanceGroups:\n"
        "      - {name: controller, role: controller, instanceType: ml.c5.xlarge, count: 1}\n"
        "      # job.nodes of these at most, so raise both. A spare takes the place of a lost\n"
        "      # node within seconds.\n"
        "      - {name: workers, role: worker, instanceType: ml.c5.xlarge, "
        f"count: {nodes}, spares: 1}}\n"
        "    network:\n"
        "      subnetIds: [subnet-0123456789abcdef0]\n"
        "      securityGroupIds: [sg-0123456789abcdef0]\n"
        "    sharedFilesystem:\n"
        "      dnsName: fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com\n"
        "      mountName: abcdefgh\n"
        f"{environment}"
    )


def _job(found: Found, cluster: Cluster) -> str:
    nodes = found.nodes or 1
    if cluster.name is not None:
        nodes = min(nodes, max(1, cluster.nodes))
    lines = [
        "job:",
        "  # This directory, without what .gitignore and .trainyardignore name, is uploaded and is",
        "  # the program's working directory: the same at each attempt.",
        "  workdir: .",
        f"  script: {found.script}  # {found.because}",
        f"  recipe: {found.recipe}",
        f"  nodes: {nodes}",
    ]
    if found.recipe != "command":
        lines.append(f"  processesPerNode: {found.processes or 1}  # one for each GPU")
    lines.append(f"  arguments: {_flow(found.arguments)}")
    lines += [f"  # Not taken over: {json.dumps(line)}" for line in found.left_out]
    if found.requirements:
        lines += ["  pythonEnvironment:", "    kind: venv", "    requirements:"]
        lines += [f"      - {json.dumps(line)}" for line in found.requirements[:200]]
    return "\n".join(lines)


def _checkpoints(found: Found) -> list[str]:
    """Only a person knows whether the program loads what it saves, so it stays a comment."""
    if not found.checkpoints:
        return []
    one = found.checkpoints
    pattern = json.dumps(one[0]) if len(one) == 1 else _flow(one)
    return [
        "# The program seems to save such files. If it loads the newest one when it starts, take\n"
        "# away the marks: whole copies are kept, and one is put back where its own is torn or\n"
        "# missing (docs/programs/watched.md).\n"
        "# checkpoint:\n"
        f"#   watch: {{pattern: {pattern}}}"
    ]


def _rest() -> str:
    return (
        "# What the program puts into the directory of TRAINYARD_OUTPUT_DIR, and files that it\n"
        "# leaves in its working directory, are exported: trainyard run download RUN\n"
        "limits:\n"
        "  maxDurationSeconds: 86400  # then it is stopped, and what is whole is exported"
    )


def _flow(values: Sequence[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False)
