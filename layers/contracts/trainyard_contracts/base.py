"""The bases of all models: strict for what people send us, lenient for what processes report.

A model is never changed, only copied with changes. Modules of models do without `from __future__
import annotations` where they can: pydantic would compile each annotation anew at each start.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from operator import getitem
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel

#: AWS's own pattern for names of clusters and of their groups (botocore: ClusterName).
NAME_PATTERN = r"^[a-zA-Z0-9](-*[a-zA-Z0-9])*$"
#: A relative path of plain segments: no leading slash, no `..`, no control characters.
RELATIVE_PATH_PATTERN = (
    r"^(?!.*(^|/)\.\.?(/|$))[A-Za-z0-9_][A-Za-z0-9_.=+@-]*(/[A-Za-z0-9_][A-Za-z0-9_.=+@-]*)*$"
)

#: The context of reading what was accepted once: see `read_stored`.
_ACCEPTED: Mapping[str, Any] = {"accepted": True}
_RELATIVE = re.compile(RELATIVE_PATH_PATTERN)
_WORDS: dict[str, str] = {}


def relative_path(value: str) -> str:
    """Return `value` if it is a plain relative path that cannot leave its root.

    Raise ValueError otherwise.
    """
    if len(value) > 256 or not _RELATIVE.fullmatch(value):
        raise ValueError(
            "must be a relative path of letters, digits and _ . = + @ - "
            "that stays inside its root (no '..', no leading '/')"
        )
    return value


def told(pattern: str, words: str) -> str:
    """The pattern, with `words` for the answer to a string that does not match.

    A regular expression in the answer would help nobody.
    """
    _WORDS[pattern] = words
    return pattern


def matching(
    pattern: str, words: str, *, min_length: int | None = None, max_length: int | None = None
) -> StringConstraints:
    """A string of this pattern, with the words beside it."""
    return StringConstraints(
        pattern=told(pattern, words), min_length=min_length, max_length=max_length
    )


def words_for(pattern: str) -> str:
    """What the answer says of a string that does not match."""
    return _WORDS.get(pattern, f"must match {pattern}")


Name = Annotated[
    str,
    matching(
        NAME_PATTERN,
        "must be letters, digits and inner hyphens, 1 to 63 of them (no underscore)",
        min_length=1,
        max_length=63,
    ),
    Field(description="1 to 63 letters, digits and inner hyphens; no underscore"),
]
# pydantic's Rust regex engine has no look-around, so the path rule is `relative_path`.
RUN_ID = r"run-[0-9a-hjkmnp-tv-z]{26}"
RunId = Annotated[
    str,
    matching(rf"^{RUN_ID}$", "must be the id of a run: run- and 26 letters and digits"),
]
Sha256Hex = Annotated[
    str,
    matching(r"^[0-9a-f]{64}$", "must be a SHA-256 in hexadecimal: 64 digits and letters a to f"),
]


B = TypeVar("B", bound=BaseModel)
M = TypeVar("M", bound="Unchanging")
V = TypeVar("V")


class Unchanging(BaseModel):
    """A model whose changes are checked copies."""

    #: A process reads a few of the models: each is built when it is first used, not at import.
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, defer_build=True
    )

    def changed(self: M, **update: Any) -> M:
        """A copy with these fields.

        Raises TypeError for a field that there is not, pydantic.ValidationError for a wrong type.
        """
        checked = {
            name: _field(type(self), name).validate_python(value, strict=True)
            for name, value in update.items()
        }
        return self.model_copy(update=checked)


@cache
def _field(model: type[BaseModel], name: str) -> TypeAdapter[Any]:
    known = model.model_fields.get(name)
    if known is None:
        raise TypeError(f"{model.__name__} has no field '{name}'")
    parts = (known.annotation, *known.metadata)
    return TypeAdapter(getitem(Annotated, parts) if known.metadata else known.annotation)


def accepted(info: ValidationInfo) -> bool:
    """Whether this is read from our own store, where everything was judged when it came."""
    return bool(info.context and info.context.get("accepted"))


def read_stored(model: type[B], document: str | bytes) -> B:
    """A record as it was stored, perhaps by another version of Trainyard.

    A newer one may have added fields, which are passed over. An older one may have accepted what
    today's rules refuse: a run that is there must still be watched, exported and torn down. Types,
    patterns and bounds hold; so those of a stored class may become wider, and never narrower: what
    is to be narrower is a `rule` or `judged`. Raises pydantic.ValidationError.
    """
    return model.model_validate_json(document, extra="ignore", context=_ACCEPTED)


def rule(check: Callable[[M], M]) -> Any:
    """Decorates a method that raises ValueError for what a person must not ask for.

    What is stored already is not judged again, nor what was read before: pydantic asks validators
    of the kind "after" once more whenever an instance becomes a part of another model.
    """

    def judge(_: type[M], given: Any, read: Callable[[Any], M], info: ValidationInfo) -> M:
        made = read(given)
        return made if made is given or accepted(info) else check(made)

    method: Any = classmethod(judge)
    return model_validator(mode="wrap")(method)


def judged(check: Callable[[V], V]) -> AfterValidator:
    """The same for one field; it goes into the field's Annotated."""

    def judge(value: V, info: ValidationInfo) -> V:
        return value if accepted(info) else check(value)

    return AfterValidator(judge)


RelativePath = Annotated[str, judged(relative_path)]


class Strict(Unchanging):
    """A model of something a person or client sends: camelCase on the wire, unknown fields refused.

    Types are as JSON has them: "1" and true are no numbers, and a spec that says so has a mistake.
    """

    model_config = ConfigDict(extra="forbid", strict=True)


class Lenient(Unchanging):
    """A model of what another version of Trainyard may have written: unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")
