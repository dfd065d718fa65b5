"""Who may change a thing from now on, and to whom it is given, as a request names them."""

from trainyard.domain.errors import FieldError, InvalidRequest
from trainyard.http.people_views import ShareSpec, TransferSpec
from trainyard_contracts.people import Person, named

TAGS = ["people"]
SHARE = "Let others change it, too: those whose ARN matches"
TRANSFER = "Give it to another owner; without `to`, take it"


def patterns(spec: ShareSpec) -> list[str]:
    """The patterns. Raises InvalidRequest for one that could be no ARN."""
    for at, pattern in enumerate(spec.shared_with):
        _check(f"sharedWith.{at}", pattern)
    return list(spec.shared_with)


def receiver(spec: TransferSpec) -> Person | None:
    return None if spec.to is None else _check("to", spec.to)


def _check(field: str, arn: str) -> Person:
    try:
        return named(arn)
    except ValueError as mistake:
        raise InvalidRequest(
            f"{field}: {mistake}", errors=[FieldError(field, str(mistake))]
        ) from None
