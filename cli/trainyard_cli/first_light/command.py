"""`trainyard first-light`: the smallest real run, guided, which tests our assumptions about AWS."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TextIO, get_args

import typer
from rich.markup import escape

from trainyard_sdk.client import Client
from trainyard_sdk.connection import Connection
from trainyard_sdk.spec_files import read_spec
from trainyard_sdk.terminal_text import plain
from trainyard_sdk.version import version

from ..context import Context, context_of
from ..problems import InvalidInput
from ..screen.output import err, out, print_json
from .accounts import account_of
from .engine import ALL, FirstLight
from .looks import every_look
from .plan import DEFAULT_TYPE, new_name, spec_of
from .record import Record, mark_of
from .redaction import Redactor
from .stage_names import StageName
from .stages import stages
from .world import Json, World

#: A line of progress is left out if nobody takes it within this time.
READER_SECONDS = 1.0
COLOURS = {
    "held": "green",
    "broken": "red bold",
    "failed": "red bold",
    "interrupted": "yellow",
    "refused": "yellow",
}


Spec = Annotated[
    str | None,
    typer.Argument(
        metavar="[SPEC]",
        help="a run's spec with cluster.spec, or a cluster's; default: the smallest",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="pay without being asked")]
MaxUsd = Annotated[
    float | None,
    typer.Option(metavar="USD", min=0, help="refuse what may cost more, whatever the answer"),
]
Output = Annotated[Path, typer.Option(help="the file that tells what was seen")]
Stack = Annotated[str, typer.Option(help="name of Trainyard's stack")]
NetworkStack = Annotated[
    str | None, typer.Option(help="name of a stack of network.yaml, where no SPEC is given")
]
InstanceType = Annotated[str, typer.Option(help="of every node, where no SPEC is given")]
WithoutResume = Annotated[
    bool, typer.Option("--without-resume", help="replace no node under the run")
]
StageSeconds = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[STAGE=]SECONDS",
        help="at most so long for that stage, or for each; more than once; default: each its own",
    ),
]
Clean = Annotated[
    Path | None,
    typer.Option(help="finish the teardown of an earlier first light, which wrote this file"),
]


def first_light(
    typer_context: typer.Context,
    file: Spec = None,
    yes: Yes = False,
    max_usd: MaxUsd = None,
    output: Output = Path("first-light.json"),
    stack: Stack = "trainyard",
    network_stack: NetworkStack = None,
    instance_type: InstanceType = DEFAULT_TYPE,
    without_resume: WithoutResume = False,
    stage_seconds: StageSeconds = None,
    clean: Clean = None,
) -> None:
    """Make the smallest real run and write down what held. In the end everything is taken down."""
    context = context_of(typer_context)
    connection = Connection.find(context.endpoint, context.state_dir_option, context=context.name)
    with Client(connection) as api:
        if clean is not None:
            raise typer.Exit(_clean(context, api, clean))
        world = _world(
            api,
            file,
            stack,
            network_stack=network_stack,
            instance_type=instance_type,
            resume=not without_resume,
        )
        record = _record(world, output, stack)
        chosen = stages(
            lambda hourly, bound: _agree(context, hourly, bound, yes=yes, most=max_usd),
            resume=not without_resume,
        )
        limits = _limits(stage_seconds or [])
        code = FirstLight(world, record, every_look(), _tell, limits=limits).run(chosen)
        # If nobody reads this, the exit status says what came of it.
        with contextlib.suppress(OSError, SystemExit):
            _print(context, record.redacted, output)
    raise typer.Exit(code)


def _world(
    api: Client,
    file: str | None,
    stack: str,
    *,
    network_stack: str | None,
    instance_type: str,
    resume: bool,
) -> World:
    """Raises InvalidInput for a spec that the API would refuse."""
    account = account_of(api.connection, stack)
    spec = spec_of(
        read_spec(file) if file else None,
        account,
        local=api.connection.local is not None,
        network_stack=network_stack,
        instance_type=instance_type,
        resume=resume,
    )
    _valid(spec)
    return World(api, account, spec, new_name())


def _record(world: World, output: Path, stack: str) -> Record:
    connection = world.api.connection
    return Record.new(
        output,
        Redactor(_known(connection)),
        product=version(),
        region=connection.region,
        where=_where(connection),
        api=mark_of(connection.api_url),
        stack=stack,
        cluster=world.cluster_name,
        run=None,
        spec=world.cluster_spec,
    )


def _clean(context: Context, api: Client, path: Path) -> int:
    record = Record.of(path, _known(api.connection))
    document = record.document
    if document["region"] != api.connection.region:
        raise InvalidInput(
            "That was another region",
            (
                f"--clean: {path} tells of {document['region']}, and this API is in "
                f"{api.connection.region}"
            ),
            "Give the --endpoint of the API that made it",
        )
    if document["api"] != mark_of(api.connection.api_url):
        # It knows nothing of the cluster, so all would seem to be gone.
        there = document.get("where")
        raise InvalidInput(
            "That was another API",
            f"--clean: {path} tells of what was made through another "
            f"one{f' ({there})' if isinstance(there, str) else ''}"
            f" than {api.connection.api_url}",
            (
                "Give the --endpoint of the API that made it; what a local cloud made went with "
                "its `local down`"
            ),
        )
    account = account_of(api.connection, document["stack"])
    world = World(api, account, {"cluster": {"spec": document["spec"]}}, document["cluster"])
    made = [
        one
        for one in document["stages"]
        if isinstance(one, dict) and (one.get("name"), one.get("state")) == ("create", "passed")
    ]
    world.went_before(document.get("run"), in_doubt=not made)
    code = FirstLight(world, record, every_look(), _tell).clean()
    _print(context, record.redacted, path)
    return code


def _limits(given: list[str]) -> dict[str, float]:
    """Seconds by stage. Raises InvalidInput."""
    found = {}
    for text in given:
        name, _, seconds = text.rpartition("=")
        try:
            found[name or ALL] = float(seconds)
        except ValueError:
            found[name or ALL] = 0.0
        if found[name or ALL] < 1 or (name and name not in get_args(StageName)):
            raise InvalidInput(
                "That is no time for a stage",
                f"--stage-seconds: '{text}' must be a number of at least 1, or STAGE=SECONDS",
                f"Stages are {', '.join(get_args(StageName))}",
            )
    return found


def _valid(spec: Json) -> None:
    """Raises InvalidInput with the field that the API would refuse."""
    # Imported here: it brings pydantic, which no other command waits for.
    from ..doctor.scope import Scope

    Scope.of(spec)


def _where(connection: Connection) -> str:
    return (
        "AWS"
        if connection.local is None
        else f"local cloud, nodes are {connection.local.get('nodes', 'processes')}"
    )


def _known(connection: Connection) -> Iterable[tuple[str, str]]:
    """Words of this very machine and account that must be removed from any text."""
    frozen = connection.credentials.get_frozen_credentials()
    yield from (("secret", word) for word in (frozen.secret_key, frozen.token) if word)
    yield "access-key", frozen.access_key
    yield "host", socket.gethostname()
    home = os.path.expanduser("~")
    if home.count("/") > 1:
        yield "home", home
    if connection.local is not None:
        yield "account", connection.local["accountId"]
        yield "token", connection.local.get("adminToken", "")


def _tell(words: str) -> None:
    """Print a line of progress.

    The teardown must not wait for a terminal that went away or is held (Ctrl-S), nor for a pipe
    that nobody reads; rich would wait.

    A signal's handler prints, too; while a line is being written, its own is refused
    (RuntimeError).
    """
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        if _has_room(sys.stderr):
            print(plain(words)[: select.PIPE_BUF // 4], file=sys.stderr, flush=True)


def _has_room(stream: TextIO) -> bool:
    """Whether PIPE_BUF bytes can be written without waiting for the reader, within a second."""
    try:
        descriptor = stream.fileno()
    except OSError:  # a stream of this process's own
        return True
    return bool(select.select([], [descriptor], [], READER_SECONDS)[1])


def _agree(
    context: Context, hourly: float | None, bound: float | None, *, yes: bool, most: float | None
) -> None:
    """Ask the person whether to pay.

    Raises CliError where the answer is no.
    """
    if most is not None and (bound is None or not bound <= most):  # also where --max-usd is nan
        raise _too_much(bound, most)
    price = (
        "The price list does not know what these nodes cost."
        if hourly is None or bound is None
        else (
            f"The nodes cost {hourly:.2f} USD an hour; were every stage to take all its time, "
            f"{bound:.2f} USD."
        )
    )
    _tell(price)
    if yes:
        return
    if context.json or not sys.stdin.isatty():
        raise InvalidInput(
            "Nobody can be asked",
            "--yes: is missing, and there is no terminal",
            "Say --yes, best with --max-usd",
        )
    try:
        agreed = typer.confirm("Make them, and pay for them?", err=True)
    except typer.Abort:  # the end of the input
        agreed = False
    if not agreed:
        raise InvalidInput("Not agreed to", "nothing was made", "Nothing is to be done")


def _too_much(bound: float | None, most: float) -> InvalidInput:
    known = (
        "nobody knows what it costs"
        if bound is None
        else f"it may cost {bound:.2f} USD, were every stage to take all its time"
    )
    return InvalidInput(
        "It may cost too much",
        f"--max-usd: is {most:.2f}, and {known}",
        "Give a higher --max-usd, or a cheaper SPEC",
    )


def _print(context: Context, document: Json, path: Path) -> None:
    if context.json:
        print_json(document)
        return
    verdict = document["verdict"]
    out.print(
        f"[{COLOURS.get(verdict, 'bold')}]{verdict}[/]  {escape(plain(document['words']))}",
        soft_wrap=True,
    )
    if not document["nothingLeft"]:
        out.print(
            (
                "[red bold]Something may be left.[/] Run: trainyard first-light --clean "
                f"{escape(str(path))}"
            ),
            soft_wrap=True,
        )
    err.print(f"Everything that was seen is in {escape(str(path))}")
