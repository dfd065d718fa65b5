"""How answers of the API are read: an older or a newer stack may answer, and is understood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from trainyard_contracts.base import Lenient

from .problems import SdkError

T = TypeVar("T")
A = TypeVar("A", bound="Answer")


def _known_or_new(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """A newer stack has words that this version does not know; they are kept as they are."""
    try:
        return read(value)
    except ValidationError:
        if isinstance(value, str):
            return value
        raise


#: One of these words, or one of a newer stack.
Open = Annotated[T, WrapValidator(_known_or_new)]


class Answer(Lenient):
    """A part of an answer. Fields that this version does not know are left out."""

    @classmethod
    def read(cls: type[A], document: Mapping[str, Any]) -> A:
        """Raises SdkError for an answer of a version that is too far away."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"])
            raise SdkError(
                "The API's answer cannot be read",
                f"{cls.__name__}.{field}: {first['msg']}",
                "The stack has another version than this package: "
                "pip install --upgrade trainyard, or update the stack",
            ) from error
