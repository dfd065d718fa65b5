"""The commands of `trainyard-agent` and their answers: each is a class that becomes words and back.

It imports the standard library only, so that a program that sends a command starts fast.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, TypeVar

PROGRAM = "trainyard-agent"
#: What an agent says that is older than the option: a cluster keeps the agent that it was made
#: with.
UNKNOWN_OPTION = "is not an option of"
#: The same of one that is older than the command.
UNKNOWN_COMMAND = "the first argument must be one of"
#: The agent's error of a job that cannot be given what it reads; the message is for the user.
INPUT_REFUSED = "input-refused"
HIGHEST_ATTEMPT, MOST_LINES = 100_000, 10_000
#: More ranks than any job has; -1 is all of them.
HIGHEST_RANK, ALL_RANKS = 9_999_999, -1
#: How far back a log is asked for: 100 days.
LONGEST_SECONDS = 8_640_000
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,254}")
#: What an agent of this version can do that not every job needs (`submit --needs`).
FEATURES = ("watch", "progress", "image", "start", "inputs", "sync", "hyperparameters")
EXPORT_ID = r"[A-Za-z0-9_.-]{1,128}"

C = TypeVar("C", bound="Command")
A = TypeVar("A", bound="Answer")


class BadCommand(ValueError):
    """A command that cannot be read; says which option is wrong and what would be right."""


def _text(pattern: str, words: str) -> Callable[[str], str]:
    known = re.compile(pattern)

    def read(given: str) -> str:
        if not known.fullmatch(given):
            raise BadCommand(f"must be {words}, got {given[:64]!r}")
        return given

    return read


def _number(highest: int) -> Callable[[str], int]:
    known = re.compile(r"[0-9]{1,12}")

    def read(given: str) -> int:
        if not known.fullmatch(given) or not 1 <= int(given) <= highest:
            raise BadCommand(f"must be a whole number from 1 to {highest}, got {given[:32]!r}")
        return int(given)

    return read


def _rank(given: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", given):
        raise BadCommand(f"must be a rank, a whole number from 0, got {given[:32]!r}")
    return int(given)


def _nodes(given: str) -> tuple[str, ...]:
    names = tuple(name for name in given.split(",") if name)
    wrong = next((name for name in names if not NODE_NAME.fullmatch(name)), None)
    if wrong is not None:
        raise BadCommand(
            f"must be names of Slurm nodes, separated by commas; {wrong[:64]!r} is none"
        )
    return names


def _features(given: str) -> str:
    unknown = next((name for name in given.split(",") if name and name not in FEATURES), None)
    if unknown is not None:
        # Answered as an option that is not known: to who asks, both say that the agent is too old.
        raise BadCommand(
            f"{UNKNOWN_OPTION} 'submit' with {unknown[:64]!r}; it knows {', '.join(FEATURES)}"
        )
    return given


_run = _text(r"run-[0-9a-hjkmnp-tv-z]{26}", "a run's id (run-<26 characters>)")
_some = _text(r"[^\x00]+", "some text")


def _option(read: Callable[[str], Any], default: Any = MISSING) -> Any:
    return (
        field(default=default, metadata={"read": read})
        if default is not MISSING
        else field(metadata={"read": read})
    )


@dataclass(frozen=True)
class Command:
    """`argv` and `parse` are inverse; `options` are the same as texts by the option's bare name."""

    name: ClassVar[str]

    def argv(self) -> list[str]:
        """The words of the command line.

        Each value is one word with its option, so that none is taken for another option.
        """
        return [
            PROGRAM,
            self.name,
            *(f"--{name}={value}" for name, value in self.options().items()),
        ]

    def options(self) -> dict[str, str]:
        """The options that differ from their defaults: an older agent may not know the others."""
        given = {
            _name(option): getattr(self, option.name)
            for option in fields(self)
            if getattr(self, option.name) != option.default
        }
        return {
            name: ",".join(value) if isinstance(value, tuple) else str(value)
            for name, value in given.items()
        }

    @classmethod
    def usage(cls) -> str:
        """The command line for people; what need not be given is in brackets."""
        options = [
            (f"--{_name(option)}={option.name.upper()}", option.default is MISSING)
            for option in fields(cls)
        ]
        return " ".join(
            [PROGRAM, cls.name, *(text if needed else f"[{text}]" for text, needed in options)]
        )

    @classmethod
    def parse(cls: type[C], options: Mapping[str, str]) -> C:
        """Raises BadCommand."""
        known = {_name(option): option for option in fields(cls)}
        unknown = next((name for name in options if name not in known), None)
        if unknown is not None:
            takes = " ".join(f"--{name}" for name in known) or "none"
            raise BadCommand(f"--{unknown} {UNKNOWN_OPTION} '{cls.name}'; it takes {takes}")
        missing = [
            f"--{name}"
            for name, option in known.items()
            if name not in options and option.default is MISSING
        ]
        if missing:
            raise BadCommand(f"'{cls.name}' needs {' '.join(missing)}")
        return cls(
            **{known[name].name: _read(known[name], value) for name, value in options.items()}
        )


def _name(option: Field[Any]) -> str:
    return option.name.replace("_", "-")


def _read(option: Field[Any], value: str) -> Any:
    try:
        return option.metadata["read"](value)
    except BadCommand as error:
        raise BadCommand(f"--{_name(option)} {error}") from None


@dataclass(frozen=True)
class Submit(Command):
    """Give Slurm the attempt's job. The same again answers with the same job."""

    name: ClassVar[str] = "submit"
    run: str = _option(_run)
    attempt: int = _option(_number(HIGHEST_ATTEMPT))
    bundle: str = _option(_some)
    sha256: str = _option(_text(r"(?:[0-9a-f]{64})?", "64 hexadecimal digits in lower case"), "")
    #: The tree of the bundle's code. An agent that knows no code refuses the option, and so never
    #: starts a program without its files.
    code: str = _option(_text(r"(?:[0-9a-f]{64})?", "64 hexadecimal digits in lower case"), "")
    # What the bundle holds that older agents would pass over: they refuse the option.
    needs: str = _option(_features, "")


@dataclass(frozen=True)
class Checkout(Command):
    """Fetch the commit that the bundle's `git` names, and put it into S3 as tree and packs."""

    name: ClassVar[str] = "checkout"
    run: str = _option(_run)
    attempt: int = _option(_number(HIGHEST_ATTEMPT))
    bundle: str = _option(_some)
    sha256: str = _option(_text(r"[0-9a-f]{64}", "64 hexadecimal digits in lower case"))


@dataclass(frozen=True)
class Exclude(Command):
    """Which nodes the attempt's waiting job must not use, all of them."""

    name: ClassVar[str] = "exclude"
    run: str = _option(_run)
    attempt: int = _option(_number(HIGHEST_ATTEMPT))
    nodes: tuple[str, ...] = _option(_nodes)


@dataclass(frozen=True)
class Cancel(Command):
    """Ask the run's job to stop; it is ended by force if it does not in time."""

    name: ClassVar[str] = "cancel"
    run: str = _option(_run)


@dataclass(frozen=True)
class Status(Command):
    """The state of the run's newest attempt."""

    name: ClassVar[str] = "status"
    run: str = _option(_run)


@dataclass(frozen=True)
class Export(Command):
    """Upload the run's results. The same id does not start a second one."""

    name: ClassVar[str] = "export"
    run: str = _option(_run)
    export_id: str = _option(_text(EXPORT_ID, "1 to 128 letters, digits, '_', '.' and '-'"))
    destination: str = _option(_some)
    checkpoints: str = _option(_text("none|last|all", "none, last or all"), "last")


@dataclass(frozen=True)
class Logs(Command):
    """The tail of the attempt's log, or of those of its lines that contain a text.

    `contains`: that text's bytes, so that no word of a user's is on a command line. `since`: only
    what was printed in so many last seconds, of an ended attempt before its end; 0: all. `rank` or
    `node`: of that rank's own log, or of those of all ranks of a node, each below a heading.
    """

    name: ClassVar[str] = "logs"
    run: str = _option(_run)
    attempt: int = _option(_number(HIGHEST_ATTEMPT))
    lines: int = _option(_number(MOST_LINES), 100)
    contains: str = _option(
        _text(r"(?:[0-9a-f]{2}){0,400}", "at most 400 bytes in hexadecimal digits"), ""
    )
    since: int = _option(_number(LONGEST_SECONDS), 0)
    rank: int = _option(_rank, ALL_RANKS)
    node: str = _option(_text(NODE_NAME.pattern, "the name of a Slurm node"), "")

    @property
    def of_ranks(self) -> bool:
        """Whether it is about logs of ranks and not about the one of all."""
        return self.rank != ALL_RANKS or bool(self.node)


@dataclass(frozen=True)
class Nodes(Command):
    """Every node's newest sample."""

    name: ClassVar[str] = "nodes"


COMMANDS: dict[str, type[Command]] = {
    cls.name: cls for cls in (Submit, Exclude, Cancel, Status, Export, Logs, Nodes, Checkout)
}


def of_words(words: Sequence[str]) -> Command:
    """The command of a command line without the program: `--option value` or `--option=value`.

    Raises BadCommand.
    """
    if not words or words[0] not in COMMANDS:
        raise BadCommand(
            f"{UNKNOWN_COMMAND} {', '.join(COMMANDS)}; got {words[0] if words else 'nothing'!r}"
        )
    options: dict[str, str] = {}
    rest = list(words[1:])
    while rest:
        option, equals, value = rest.pop(0).partition("=")
        if not option.startswith("--"):
            raise BadCommand(
                f"{option[:64]!r} {UNKNOWN_OPTION} '{words[0]}'; options begin with --"
            )
        if not equals:
            if not rest:
                raise BadCommand(f"{option} needs a value")
            value = rest.pop(0)
        options[option[2:]] = value
    return COMMANDS[words[0]].parse(options)


# -- answers -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Answer:
    """One JSON object in camelCase.

    A field that an older agent leaves out has its default, and so has one that is not of its type;
    a field that only a newer one knows is ignored.
    """

    def as_json(self) -> dict[str, Any]:
        return {_camel(part.name): getattr(self, part.name) for part in fields(self)}

    @classmethod
    def of(cls: type[A], given: Mapping[str, Any]) -> A:
        known = {
            part.name: _typed(given.get(_camel(part.name)), part.default) for part in fields(cls)
        }
        return cls(**known)


def _typed(said: Any, default: Any) -> Any:
    """What was said if it is of the default's type; a number where a text belongs is its digits."""
    if isinstance(default, str) and type(said) is int:
        return str(said)
    if isinstance(default, str) and isinstance(said, str):
        return said.encode(errors="replace").decode()  # half a surrogate pair cannot be stored
    return said if type(said) is type(default) else default


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)


@dataclass(frozen=True)
class Submitted(Answer):
    """Slurm's number of the job, and its state there.

    `changed`: which files of the submission the attempts before have changed, in words. `image`:
    the digest of the image in which the job runs. `inputs`: what was brought for the program, in
    words.
    """

    job_id: str = ""
    state: str = ""
    attempt: int = 0
    changed: str = ""
    image: str = ""
    inputs: str = ""


@dataclass(frozen=True)
class CheckedOut(Answer):
    """The commit, and the tree of its files; `note` says what of it is left out."""

    commit: str = ""
    tree: str = ""
    files: int = 0
    bytes: int = 0
    note: str = ""


@dataclass(frozen=True)
class Excluded(Answer):
    """`waits`: the job still waits, with these nodes excluded."""

    job_id: str = ""
    state: str = ""
    waits: bool = False


@dataclass(frozen=True)
class Cancelling(Answer):
    """`state`: none, ended or cancelling."""

    state: str = "done"


@dataclass(frozen=True)
class JobState(Answer):
    """The newest attempt's job where a backend runs it by itself; `how` it ended, '' before."""

    job_id: str = ""
    attempt: int = 0
    state: str = ""
    how: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Exporting(Answer):
    """`state`: running or finished; then with the SHA-256 of the manifest.

    'paused': who copies does so only while it is asked, and wants to be asked again at once.
    """

    state: str = ""
    manifest_sha256: str = ""


@dataclass(frozen=True)
class Tail(Answer):
    """The last lines of a log. `lacks`: the attempt has no logs of ranks."""

    text: str = ""
    lacks: bool = False


def answer_of(text: str) -> dict[str, Any] | None:
    """The object that an agent printed; None where it is not whole."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
