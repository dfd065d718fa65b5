"""The stages of a first run: what each does, and what it proves when it is through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..problems import ApiProblem
from ..screen.snapshot import TERMINAL
from .stage_names import StageName
from .watch import PASSING, StageFailed, Watch
from .world import Json, World

#: Says price and bound, and comes back if it is to be paid. Raises CliError.
Agree = Callable[[float | None, float | None], None]


@dataclass(frozen=True)
class Stage:
    """Limits: `seconds` on AWS, `local_seconds` on the local cloud; `act` says what was proved."""

    name: StageName
    does: str
    seconds: int
    local_seconds: int
    act: Callable[[World, Watch], str]
    #: While it lasts, nodes are paid for.
    paid: bool = True


def stages(agree: Agree, *, resume: bool) -> list[Stage]:
    """All until the run is over; the teardown comes after them whatever happens."""
    found = [
        Stage("account", "looking at the account, reading only", 600, 60, account, paid=False),
        Stage(
            "price",
            "asking what it costs",
            300,
            60,
            lambda world, _watch: price(world, agree),
            paid=False,
        ),
        Stage("create", "creating the cluster", 1800, 180, create),
        Stage("ready", "waiting for its nodes to join Slurm", 2400, 240, ready),
        Stage("command", "submitting the run: the first command over a session", 900, 90, command),
        Stage(
            "train", "waiting for the first step and the first whole checkpoint", 1200, 150, train
        ),
        Stage(
            "resume",
            "replacing a node under the run, which must go on on the new one",
            3600,
            240,
            resume_,
        ),
        Stage(
            "export", "waiting for the end of training and the verified export", 2400, 180, export
        ),
    ]
    return [stage for stage in found if resume or stage.name != "resume"]


def account(world: World, _watch: Watch) -> str:
    """Credentials, the API, and on AWS whatever doctor looks at."""
    world.api.clusters(at_most=1)
    caller = world.account.identity
    if world.local:
        return (
            f"the API answers, and {caller['Arn']} may call it; "
            "the local cloud has nothing of what doctor reads"
        )
    from ..doctor.examination import examine_all, names
    from ..doctor.scope import Scope

    stack = world.account.outputs.get("ApiUrl", "").rstrip("/")
    if stack and stack != world.api.connection.api_url:
        raise StageFailed(
            "Stack and API do not belong together",
            f"--stack {world.account.stack_name} has another ApiUrl than the API that was called",
            "Give the --stack that made this API, or that stack's ApiUrl as --endpoint",
        )
    found = examine_all(world.account, Scope.every(world.spec))
    world.examined([one.as_json() for one in found])
    fatal = [one for one in found if one.severity == "failure"]
    if fatal:
        told = "; ".join(f"{one.subject}: {one.problem}" for one in fatal)
        raise StageFailed("The account is not ready", told, "; ".join(one.remedy for one in fatal))
    others = f"; {len(found)} warnings or things that nobody could look at" if found else ""
    return f"{len(names())} checks of doctor found nothing that will fail{others}"


def price(world: World, agree: Agree) -> str:
    """A dry run of exactly this spec, and somebody's word."""
    plan = world.api.plan_run(world.spec)
    world.planned(plan)
    hourly = 0.0 if world.local and plan.get("hourlyUsd") is None else plan.get("hourlyUsd")
    bound = None if hourly is None else hourly * world.paid_seconds / 3600
    hours = round(world.paid_seconds / 3600, 2)
    world.priced({"hourlyUsd": hourly, "atMostUsd": bound, "atMostHours": hours})
    agree(hourly, bound)
    if hourly is None or bound is None:
        return "the price list does not know these instances; going on was agreed to"
    return f"{hourly:.2f} USD an hour, at most {bound:.2f} USD; agreed to"


def create(world: World, watch: Watch) -> str:
    """CreateCluster, until HyperPod has the cluster in service."""
    world.cluster_requested()
    try:
        world.api.create_cluster({**world.cluster_spec, "name": world.cluster_name})
        world.cluster_answered()
    except ApiProblem as problem:
        if problem.status not in PASSING:
            world.cluster_answered()
        raise StageFailed(problem.title, problem.detail, problem.next_step) from problem
    found = watch.until(
        "HyperPod has the cluster in service", lambda: _cluster(world, ("InService", "Ready"))
    )
    return f"HyperPod made {found['arn']}"


def ready(world: World, watch: Watch) -> str:
    """Lifecycle scripts, Slurm, agents, events: the controller reported that every node joined."""
    watch.until(
        "every node joined Slurm and its agent is linked (ClusterReady)",
        lambda: _cluster(world, ("Ready",)),
    )
    nodes = world.api.nodes(world.cluster_name)
    return f"{len(nodes)} nodes joined: " + ", ".join(
        f"{node['group']} {node.get('name')}" for node in nodes
    )


def _cluster(world: World, wanted: tuple[str, ...]) -> Json | None:
    found = world.api.cluster(world.cluster_name)
    if found["status"] in ("Failed", "Deleting", "Deleted"):
        problem = found.get("problem") or {}
        detail = problem.get("detail") or f"it is {found['status']}"
        raise StageFailed(
            problem.get("title") or "The cluster failed",
            detail,
            problem.get("nextStep") or "Look at the evidence in the file",
        )
    return found if found["status"] in wanted else None


def command(world: World, watch: Watch) -> str:
    """The run's submit reaches the controller, which gives the job's number back."""
    spec = {
        name: value for name, value in world.spec.items() if name not in ("cluster", "teardown")
    }
    run = world.api.submit_run(
        {**spec, "cluster": {"name": world.cluster_name}}, idempotency_key=world.cluster_name
    )
    world.submitted(run["id"])
    attempt = watch.until(
        "the job is in Slurm's queue", lambda: _attempt(world, lambda one: one.get("jobId"))
    )
    return f"Slurm on the controller took job {attempt['jobId']}"


def train(world: World, watch: Watch) -> str:
    """torchrun over two nodes, the shared filesystem, the agent's watch over checkpoints."""
    attempt = watch.until(
        "the job makes its first step", lambda: _attempt(world, lambda one: one.get("firstStepAt"))
    )
    step = watch.until("the first whole checkpoint", lambda: _whole(world))
    return (
        f"{len(attempt['nodes'])} nodes trained together, and the checkpoint of step {step} is "
        "whole"
    )


def _attempt(world: World, there: Callable[[Json], object], number: int = 1) -> Json | None:
    run = _run(world)
    found = next((one for one in run["attempts"] if one["number"] >= number and there(one)), None)
    if found is None and run["status"] in TERMINAL:
        problem = run.get("problem") or {}
        detail = problem.get("detail") or run["reason"]
        raise StageFailed(
            problem.get("title") or "The run ended",
            f"the run is {run['status']}: {detail}",
            problem.get("nextStep") or "Look at its log",
        )
    return found


def _run(world: World) -> Json:
    return world.api.run(str(world.run_id))


def _whole(world: World) -> int | None:
    steps = [
        int(one["step"])
        for one in world.api.checkpoints(str(world.run_id))
        if one["status"] == "whole"
    ]
    _attempt(world, lambda _one: bool(steps))
    return max(steps, default=None)


def resume_(world: World, watch: Watch) -> str:
    """BatchReplaceClusterNodes takes the last rank's node: the run goes on with another."""
    run = _run(world)
    if run["status"] in TERMINAL or run.get("outcome"):
        raise _too_short()
    before = run["attempts"][-1]
    taken = {node.get("name"): node for node in world.api.nodes(world.cluster_name)}
    node = taken.get(before["nodes"][-1])
    if node is None:
        raise StageFailed(
            "A node has no name",
            f"{before['nodes'][-1]}, which trains, is not among the cluster's nodes",
            f"See: trainyard node ls {world.cluster_name}, and A-015",
        )
    answer = world.api.replace_node(world.cluster_name, node["instanceId"])
    if answer["failed"]:
        raise StageFailed(
            "The node cannot be replaced",
            "; ".join(answer["failed"].values()),
            "Look what HyperPod says of replacing nodes",
        )
    world.replaced(node)
    wanted = before["number"] + 1
    attempt = watch.until("the run makes a step without that node", lambda: _resumed(world, wanted))
    step = attempt.get("resumedFrom")
    if not step:
        raise StageFailed(
            "The run began anew",
            f"attempt {attempt['number']} resumed from no checkpoint",
            "Look at the run's timeline",
        )
    return (
        f"{node.get('name')} was replaced; attempt {attempt['number']} went on from step "
        f"{step} on {', '.join(attempt['nodes'])}"
    )


def _resumed(world: World, number: int) -> Json | None:
    run = _run(world)
    if run["status"] == "Succeeded" and run["attempts"][-1]["number"] < number:
        raise _too_short()
    return _attempt(world, lambda one: one.get("firstStepAt"), number)


def _too_short() -> StageFailed:
    return StageFailed(
        "The run ended before the node went",
        "nothing was proved of a resume",
        "Give a SPEC whose job trains longer, or --without-resume",
    )


def export(world: World, watch: Watch) -> str:
    """Training ends well, and every exported object in S3 is what the node sent."""
    run = watch.until("the run is over", lambda: _over(world))
    found = run.get("export") or {}
    if run["status"] != "Succeeded" or found.get("state") != "verified":
        problem = run.get("problem") or {}
        detail = problem.get("detail") or found.get("reason") or run["reason"]
        raise StageFailed(
            problem.get("title") or f"The run is {run['status']}",
            detail,
            problem.get("nextStep") or "Look at its timeline",
        )
    return f"{found['objects']} objects ({found['bytes']} bytes) lie verified in S3"


def _over(world: World) -> Json | None:
    run = _run(world)
    return run if run["status"] in TERMINAL else None
