"""`trainyard data`: directories of data that runs find by a name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from trainyard_sdk.terminal_text import plain

from ..context import Context, context_of
from ..problems import DETACHED, InvalidInput
from ..screen.output import bytes_text, counted, err, out, print_json
from ..screen.progress import bar

if TYPE_CHECKING:
    from trainyard_sdk.upload.packing import Packed

data = typer.Typer(no_args_is_help=True, help="Data that programs read.")
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*")
_LONGEST = 63


@data.callback()
def group() -> None:
    """Data that programs read."""


@data.command()
def upload(
    typer_context: typer.Context,
    directory: Annotated[Path, typer.Argument(help="all that is in it goes up")],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|s3://BUCKET/PREFIX/", help="by which 'inputs' of a run's spec find it"
        ),
    ],
) -> None:
    """Upload a directory of data under a name. What is up already is not sent again.

    Given again, the name means the newer upload; runs keep what they were submitted with. To
    s3://BUCKET/PREFIX/ the files themselves go, with your own AWS credentials.
    """
    context = context_of(typer_context)
    if name.startswith("s3://"):
        _into_bucket(context, directory, name)
        return
    _check(directory, name)
    try:
        packed, sent = _uploaded(context, directory, name)
    except KeyboardInterrupt:
        err.print("\nStopped. The same command sends only the rest.")
        raise typer.Exit(DETACHED) from None
    if context.json:
        found = packed.scan
        document = {"name": name, "id": packed.id, "files": len(found.files), "bytes": found.bytes}
        print_json({**document, "sentPacks": sent, "skipped": found.skipped})
    else:
        _print_upload(directory, name, packed, sent)


def _print_upload(directory: Path, name: str, packed: Packed, sent: int) -> None:
    found = packed.scan
    out.print(name, markup=False)
    err.print(
        f"Uploaded {escape(plain(str(directory)))}: {counted(len(found.files), 'file')}, "
        f"{bytes_text(found.bytes)}, {counted(sent, 'new part')} sent",
        soft_wrap=True,
    )
    for path in found.skipped[:5]:
        err.print(
            f"[yellow]warning[/] {escape(plain(path))} is no file (a socket, FIFO or device) and "
            "stays here",
            soft_wrap=True,
        )
    err.print(f"In a spec: inputs: [{{source: {name}, path: data}}]", markup=False, soft_wrap=True)


def _into_bucket(context: Context, directory: Path, uri: str) -> None:
    """The files themselves, for the `inputs` that name objects of S3."""
    from trainyard_sdk.upload.rules import DATA_RULE_FILES, Rules
    from trainyard_sdk.upload.scan import scan
    from trainyard_sdk.upload.to_s3 import Destination, s3_client, send_to_s3

    where = Destination.of(uri)
    _check_directory(directory)
    found = scan(directory, Rules(DATA_RULE_FILES))
    try:
        with bar("Uploading", quiet=context.json) as told:
            client = s3_client(context.client.connection)
            sent = send_to_s3(client, found, where, told)
    except KeyboardInterrupt:
        err.print("\nStopped. The same command sends only the rest.")
        raise typer.Exit(DETACHED) from None
    stays = [path for path, _ in found.links] + found.skipped
    if context.json:
        document = {"source": str(where), "files": len(found.files), "bytes": found.bytes}
        print_json({**document, "sentFiles": len(sent), "skipped": stays})
        return
    out.print(str(where), markup=False)
    err.print(
        f"{counted(len(found.files), 'file')}, {bytes_text(found.bytes)}; "
        f"{counted(len(sent), 'new file')} sent",
    )
    for path in stays[:5]:
        err.print(
            f"[yellow]warning[/] {escape(plain(path))} is no plain file and stays here",
            soft_wrap=True,
        )
    err.print(f"In a spec: inputs: [{{source: {where}, path: data}}]", markup=False, soft_wrap=True)
    err.print("The cluster's spec must allow it: jobInputs, or an s3Mount.", soft_wrap=True)


def _check_directory(directory: Path) -> None:
    if not directory.is_dir():
        raise InvalidInput(
            "The directory is not there",
            f"'{plain(str(directory))}' is not a directory",
            "Give the path of a directory with the data",
        )


def _check(directory: Path, name: str) -> None:
    _check_directory(directory)
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        raise InvalidInput(
            "The name cannot be one of data",
            f"'{plain(name)}' must be letters, digits and inner hyphens, 1 to {_LONGEST} of them",
            "Give a name such as corpus-v1, or s3://BUCKET/PREFIX/ for a bucket of yours",
        )


def _uploaded(context: Context, directory: Path, name: str) -> tuple[Packed, int]:
    """Packed and sent; a directory that changes meanwhile is packed again."""
    from trainyard_sdk.upload.packing import TRIES, FileChanged, pack
    from trainyard_sdk.upload.rules import DATA_RULE_FILES, Rules
    from trainyard_sdk.upload.send import send

    for left in reversed(range(TRIES)):
        with bar("Reading the directory", quiet=context.json) as told:
            packed = pack(directory, told, Rules(DATA_RULE_FILES))
        if not packed.scan.files:
            raise InvalidInput(
                "There is nothing to upload",
                f"'{plain(str(directory))}' has no file that goes up",
                "Look at its .trainyardignore",
            )
        try:
            with bar("Uploading", quiet=context.json) as told:
                return packed, send(context.client, packed, told, name)
        except FileChanged as changed:
            if not left:
                raise InvalidInput(
                    "A file changes while it is uploaded",
                    f"'{plain(changed.path)}' changed in each of {TRIES} tries",
                    "Stop what writes it, or name it in .trainyardignore",
                ) from None
    raise AssertionError("the last try returns or raises")
