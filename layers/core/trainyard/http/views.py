"""What the API answers, field by field, in camelCase; the table's other fields stay inside."""

from typing import Any, Self

from pydantic import BaseModel

from trainyard.domain import records
from trainyard.domain.advice import advised
from trainyard_contracts.base import Unchanging


class View(Unchanging):
    """Made of a record by the names of its fields; nothing is validated twice."""

    @classmethod
    def of(cls, record: BaseModel, **other: Any) -> Self:
        """`other` are fields that the record has in another form, or not at all."""
        kept = {name: getattr(record, name) for name in cls.model_fields if name not in other}
        return cls.made(**kept, **other)

    @classmethod
    def made(cls, **fields: Any) -> Self:
        """A view of these fields, which are not validated again."""
        # pydantic's plugin of mypy does not know Self
        return cls.model_construct(**fields)  # type: ignore[return-value]


class Problem(View):
    """Why something ended badly; `nextStep` tells what to do."""

    code: str
    title: str
    detail: str
    next_step: str

    @classmethod
    def of_run(cls, run: records.Run, in_s3: str = "") -> Self | None:
        found = advised(run, in_s3)
        return cls.of(found) if found is not None else None
