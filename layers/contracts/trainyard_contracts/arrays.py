"""Many runs of one spec, which differ in what their program is given."""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Annotated, Any

from pydantic import Field, ValidationError
from typing_extensions import Self

from .base import Strict, matching, rule
from .job_words import TextOrNumber
from .specs import RunSpec

#: Members of one array.
MOST_MEMBERS = 1000
#: Members that train or wait in Slurm's queue at once.
MOST_PARALLEL = 200
#: What every member can name without a parameter: its number, from 0.
INDEX = "index"
_LONGEST_NAME = 63
_PLACEHOLDER = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")

ParameterName = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_]{0,62}$",
        "must be letters, digits and underscores, not starting with a digit",
    ),
]


class ArraySpec(Strict):
    """One member for each entry of `parameters`, or for each combination of `matrix`.

    In job.arguments, in the values of job.environment and in texts among job.hyperparameters `{lr}`
    is the parameter lr, and `{index}` the member's number; `{{lr}}` is the text {lr}.
    """

    run: RunSpec = Field(
        description="of every member; a cluster that it specifies is made once, for all of them"
    )
    parameters: list[dict[ParameterName, TextOrNumber]] = Field(
        default_factory=list,
        max_length=MOST_MEMBERS,
        description="one member for each entry; all name the same parameters",
    )
    matrix: dict[ParameterName, list[TextOrNumber]] = Field(
        default_factory=dict,
        max_length=16,
        description="values of each parameter; one member for each combination",
    )
    max_parallel: int = Field(
        default=20,
        ge=1,
        le=MOST_PARALLEL,
        description="so many members are active at once; the others do not exist until then",
    )

    @rule
    def _either(self) -> Self:
        if bool(self.parameters) == bool(self.matrix):
            raise ValueError(
                "give one of 'parameters' (a list of members) and 'matrix' (values to combine)"
            )
        for name, values in self.matrix.items():
            if not values:
                raise ValueError(f"matrix.{name}: has no value; give one at least, or remove it")
        if self.total > MOST_MEMBERS:
            raise ValueError(
                f"matrix: makes {self.total} members; an array has at most {MOST_MEMBERS}, so "
                "submit it in several"
            )
        return self

    @rule
    def _same_names(self) -> Self:
        wanted = self.names
        for number, entry in enumerate(self.parameters):
            if set(entry) != wanted:
                raise ValueError(
                    f"parameters.{number}: names {', '.join(sorted(entry)) or 'nothing'}, and the "
                    f"first entry names {', '.join(sorted(wanted))}; name the same in each"
                )
        if INDEX in wanted:
            raise ValueError(f"'{INDEX}' is the member's number; give the parameter another name")
        return self

    @rule
    def _placeholders(self) -> Self:
        used: set[str] = set()
        for field, text in _texts(self.run):
            for name in _named(text):
                if name not in {*self.names, INDEX}:
                    raise ValueError(
                        f"run.{field}: there is no parameter '{name}'; add it, or write "
                        f"{{{{{name}}}}} for the text {{{name}}}"
                    )
                used.add(name)
        if unused := sorted(self.names - used):
            raise ValueError(
                f"parameter '{unused[0]}' is used nowhere; write {{{unused[0]}}} into "
                "run.job.arguments, run.job.environment or run.job.hyperparameters, or remove it"
            )
        return self

    @rule
    def _members(self) -> Self:
        for index, values in enumerate(self.values()):
            try:
                self.member(index, values)
            except ValidationError as error:
                raise ValueError(f"member {index}: {error.errors()[0]['msg']}") from None
        return self

    @property
    def names(self) -> set[str]:
        return set(self.matrix) or set(self.parameters[0] if self.parameters else ())

    @property
    def total(self) -> int:
        """How many members it has."""
        if self.parameters:
            return len(self.parameters)
        return prod(len(values) for values in self.matrix.values()) if self.matrix else 0

    def values(self) -> Iterator[Mapping[str, str]]:
        """The parameters of each member, in the order of their numbers."""
        if self.parameters:
            yield from self.parameters
        elif self.matrix:
            for combination in product(*self.matrix.values()):
                yield dict(zip(self.matrix, combination, strict=True))

    def member(self, index: int, values: Mapping[str, str]) -> RunSpec:
        """The spec of one member."""
        given, job = {**values, INDEX: str(index)}, self.run.job
        job = job.changed(
            arguments=[_filled(text, given) for text in job.arguments],
            environment={name: _filled(text, given) for name, text in job.environment.items()},
            hyperparameters=_set(job.hyperparameters, given),
        )
        end = f"-{index}"
        name = self.run.name[: _LONGEST_NAME - len(end)].rstrip("-") + end
        return self.run.changed(name=name, job=job)


def _texts(run: RunSpec) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(run.job.arguments):
        yield f"job.arguments.{number}", text
    for name, text in run.job.environment.items():
        yield f"job.environment.{name}", text
    for name, value in (run.job.hyperparameters or {}).items():
        if isinstance(value, str):
            yield f"job.hyperparameters.{name}", value


def _set(given: dict[str, Any] | None, values: Mapping[str, str]) -> dict[str, Any] | None:
    """Only a value that is a text names parameters."""
    if given is None:
        return None
    return {
        name: _filled(value, values) if isinstance(value, str) else value
        for name, value in given.items()
    }


def _named(text: str) -> Iterator[str]:
    for found in _PLACEHOLDER.finditer(text):
        if found[2]:
            yield found[2]


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: f"{{{found[1]}}}" if found[1] else values[found[2]], text)
