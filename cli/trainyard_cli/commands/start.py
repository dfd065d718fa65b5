"""`trainyard init`: the first spec of a program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ..cluster_groups import groups_listed
from ..context import Context, context_of
from ..problems import CliError, Conflict
from ..screen.output import err, out, print_json

if TYPE_CHECKING:
    from ..first_spec.look import Found
    from ..first_spec.text import Cluster

FILE = Path("trainyard.yaml")


def init(
    typer_context: typer.Context,
    script: Annotated[
        str | None, typer.Argument(help="the program; default: the one that is clearly meant")
    ] = None,
    to: Annotated[Path, typer.Option(help="where the spec is written")] = FILE,
) -> None:
    """Write a spec for the program in this directory. Nothing is overwritten.

    It takes what it finds: the script, how it is started, its packages, and a cluster to run on.
    """
    from ..first_spec.look import look
    from ..first_spec.text import plain_name, spec_text

    context = context_of(typer_context)
    if to.exists():
        raise _there(to)
    directory = to.absolute().parent
    found = look(directory, script)
    cluster = _cluster(context)
    _write(to, spec_text(plain_name(directory.name), found, cluster))
    if context.json:
        print_json(
            {
                "file": str(to),
                "script": found.script,
                "recipe": found.recipe,
                "cluster": cluster.name,
                "checkpoints": found.checkpoints,
            }
        )
    else:
        _print_found(to, found, cluster)


def _write(to: Path, text: str) -> None:
    """Raises Conflict and CliError."""
    try:
        with open(to, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _there(to) from None
    except OSError as error:
        raise CliError(
            "The spec cannot be written", f"{to}: {error.strerror}", "Give another place with --to"
        ) from error


def _print_found(to: Path, found: Found, cluster: Cluster) -> None:
    file = escape(str(to))
    out.print(str(to), markup=False, soft_wrap=True)
    said = [
        f"It runs {escape(found.script)}: {escape(found.because)}. "
        f"For another program change job.script in {file}."
    ]
    if cluster.name is not None:
        said.append(
            f"It uses cluster '{escape(cluster.name)}', which exists; for another one change "
            f"'cluster' in {file}."
        )
    if found.checkpoints:
        said.append(
            f"It seems to save {escape(', '.join(found.checkpoints))}: see checkpoint.watch in "
            f"{file}."
        )
    said += [f"[yellow]warning[/] not taken over: {escape(line)}" for line in found.left_out]
    for line in [*said, f"Next: trainyard run submit {file} --watch"]:
        err.print(line, soft_wrap=True)


def _there(to: Path) -> Conflict:
    return Conflict(
        "The spec is there already", str(to), "Change it, move it, or give another place with --to"
    )


def _cluster(context: Context) -> Cluster:
    """A cluster of nobody's that is ready, or else one of the run's own."""
    from ..first_spec.text import Cluster

    try:
        client = context.client
        found = [
            cluster
            for cluster in client.clusters()
            if cluster["status"] == "Ready" and not cluster.get("ownerRun")
        ]
    except CliError:  # it is no time to need an API
        return Cluster(local=context.endpoint is None and context.name is None)
    local = client.connection.local is not None
    if not found:
        return Cluster(local=local)
    groups = groups_listed(found[0])
    workers = sum(group.number for group in groups if group.role == "worker")
    names = [cluster["name"] for cluster in found]
    return Cluster(names[0], workers, tuple(names[1:]), local)
