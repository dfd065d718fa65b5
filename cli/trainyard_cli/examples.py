"""An example or two at the end of each command's help."""

from __future__ import annotations

import typer

#: By the command's words; the programs of the examples are those of README.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "api": ("api GET '/v1/runs?limit=5'", "api POST /v1/runs/latest:cancel"),
    "completion": ("completion bash",),
    "console": ("console", "console --port 8080 --no-browser"),
    "init": ("init train.py",),
    "whoami": ("whoami",),
    "audit": ("audit --since 2d --what run.cancel", "audit --who ann --limit 10"),
    "doctor": ("doctor trainyard.yaml",),
    "first-light": ("first-light",),
    "mcp": ("mcp", "mcp --allow-actions"),
    "run submit": (
        "run submit trainyard.yaml --watch",
        "run submit trainyard.yaml --set job.nodes=4 --env LR=0.1 -- --epochs 3",
        "run submit trainyard.yaml --dryrun",
    ),
    "run rerun": ("run rerun latest --set job.nodes=4", "run rerun demo --from-checkpoint 400"),
    "run ls": ("run ls --status failed --since 2d", "run ls --mine --label exp=3 --output id"),
    "run label": ("run label latest exp=3 note=",),
    "run priority": ("run priority latest 50",),
    "run show": ("run show latest", "run show demo --json"),
    "run watch": ("run watch latest",),
    "run events": ("run events latest",),
    "run logs": ("run logs latest --follow", "run logs demo --grep Error --since 10m --rank 3"),
    "run metrics": (
        "run metrics latest --since 2h",
        "run metrics latest --name accuracy",
        "run metrics latest --names",
    ),
    "run cancel": ("run cancel demo --wait --timeout 10m --reason 'wrong data'",),
    "run resume": ("run resume demo --watch", "run resume demo --wait --timeout 12h"),
    "run export": ("run export demo --timeout 30m", "run export demo --no-wait"),
    "run share": ("run share demo --with 'arn:aws:iam::111122223333:user/ann'",),
    "run transfer": ("run transfer demo --to arn:aws:iam::111122223333:user/ann",),
    "run outputs": ("run outputs latest '*.pt'",),
    "run cost": ("run cost latest", "run cost demo --output csv"),
    "run download": ("run download latest --to results",),
    "array submit": ("array submit sweep.yaml", "array submit sweep.yaml --dryrun"),
    "array ls": ("array ls --limit 10",),
    "array show": ("array show arr-01k00000000000000000000000",),
    "array cancel": ("array cancel arr-01k00000000000000000000000 --reason 'lr too high'",),
    "array share": (
        "array share arr-01k00000000000000000000000 --with 'arn:aws:iam::111122223333:user/ann'",
    ),
    "array transfer": (
        "array transfer arr-01k00000000000000000000000 --to arn:aws:iam::111122223333:user/ann",
    ),
    "chain submit": ("chain submit chain.yaml", "chain submit chain.yaml --dryrun"),
    "schedule add": ("schedule add nightly.yaml", "schedule add nightly.yaml --dryrun"),
    "schedule ls": ("schedule ls",),
    "schedule show": ("schedule show nightly",),
    "schedule pause": ("schedule pause nightly",),
    "schedule resume": ("schedule resume nightly",),
    "schedule share": ("schedule share nightly --with 'arn:aws:iam::111122223333:user/ann'",),
    "schedule transfer": ("schedule transfer nightly --to arn:aws:iam::111122223333:user/ann",),
    "schedule rm": ("schedule rm nightly --yes",),
    "webhook add": ("webhook add https://example.com/trainyard --type run.failed",),
    "webhook ls": ("webhook ls",),
    "webhook show": ("webhook show wh-01k00000000000000000000000",),
    "webhook rotate": ("webhook rotate wh-01k00000000000000000000000 --reason 'it leaked'",),
    "webhook redeliver": (
        "webhook redeliver wh-01k00000000000000000000000 msg-20261128090000-00112233445566778899",
    ),
    "webhook rm": ("webhook rm wh-01k00000000000000000000000",),
    "approval ls": ("approval ls --state pending",),
    "approval show": ("approval show apr-01k00000000000000000000000-1",),
    "approval approve": ("approval approve apr-01k00000000000000000000000-1",),
    "approval deny": ("approval deny apr-01k00000000000000000000000-1 --reason 'too large'",),
    "cluster cost": ("cluster cost shared",),
    "budget set": ("budget set vision --label team=vision --max-usd 4000",),
    "budget ls": ("budget ls",),
    "budget show": ("budget show vision",),
    "budget rm": ("budget rm vision --reason 'the project is over'",),
    "costs": ("costs --by label:team --since 30d --output csv",),
    "cluster create": ("cluster create cluster.yaml --wait --timeout 1h",),
    "cluster update": ("cluster update cluster.yaml --dryrun",),
    "cluster stop": ("cluster stop shared --wait",),
    "cluster start": ("cluster start shared --wait --timeout 30m",),
    "cluster keep": ("cluster keep shared",),
    "cluster ls": ("cluster ls --status ready --mine",),
    "cluster label": ("cluster label shared team=vision",),
    "cluster limits": ("cluster limits shared sharing.yaml",),
    "cluster show": ("cluster show shared",),
    "cluster delete": ("cluster delete shared --wait --timeout 1h --yes",),
    "cluster share": ("cluster share shared --with 'arn:aws:iam::111122223333:user/*'",),
    "cluster transfer": ("cluster transfer shared --reason 'Bob has left'",),
    "cluster adopt": ("cluster adopt theirs --shared-dir /fsx --dryrun",),
    "cluster release": ("cluster release theirs --wait",),
    "node ls": ("node ls shared",),
    "node replace": ("node replace shared ip-10-0-0-12 --wait --timeout 30m",),
    "node reboot": ("node reboot shared i-0123456789abcdef0 --yes",),
    "filesystem create": ("filesystem create corpus.yaml --wait",),
    "filesystem ls": ("filesystem ls",),
    "filesystem show": ("filesystem show corpus",),
    "filesystem export": ("filesystem export corpus --wait --timeout 2h",),
    "filesystem delete": (
        "filesystem delete corpus --wait",
        "filesystem delete corpus --discard 'a copy is in S3'",
    ),
    "filesystem share": ("filesystem share corpus --nobody",),
    "filesystem transfer": ("filesystem transfer corpus",),
    "data upload": ("data upload corpus words",),
    "local up": ("local up",),
    "local down": ("local down --yes",),
    "local update": ("local update",),
    "local status": ("local status --json",),
    "local user add": ("local user add ann",),
    "local user rm": ("local user rm ann",),
    "local user ls": ("local user ls",),
    "context ls": ("context ls",),
    "context add": (
        "context add prod https://abc123.execute-api.us-east-1.amazonaws.com --profile ml",
    ),
    "context use": ("context use prod",),
    "context rm": ("context rm prod",),
}
#: Of a fault the cluster is enough, or the node besides.
FAULTS = {
    "heal-node": "shared --node ip-127-0-1-12",
    "start-agent": "shared --node ip-127-0-1-12",
    "kill-host": "demo-1",
    "kill-host-process": "demo-1",
    "interrupt-spot": "demo-1",
    "internal-error": "demo-1",
    "no-capacity": "ml.c5.xlarge",
    "restore-capacity": "ml.c5.xlarge",
}


def add_to(group: typer.Typer, words: str = "") -> None:
    """Put them at the end of the help of each command below the group."""
    for command in group.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        found = [f"trainyard {one}" for one in examples_of(f"{words}{name}".strip())]
        # A blank line keeps two lines apart.
        lines = ["Examples:" if len(found) > 1 else "Example:", *found]
        if not found:
            continue
        command.epilog = "\n\n".join([*([command.epilog] if command.epilog else []), *lines])
    for below in group.registered_groups:
        assert below.typer_instance is not None
        add_to(below.typer_instance, f"{words}{below.name} ")


def examples_of(words: str) -> tuple[str, ...]:
    """None of a command that is not in the table; its test says so."""
    group, _, name = words.partition(" ")
    if group == "fault":
        return (f"{words} {FAULTS.get(name, 'shared')}",)
    return EXAMPLES.get(words, ())
