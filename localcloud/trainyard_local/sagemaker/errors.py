"""SageMaker's errors, as moto sends them."""

from __future__ import annotations

from moto.core.exceptions import ServiceException


class ValidationException(ServiceException):  # type: ignore[misc]
    code = "ValidationException"


class ResourceLimitExceeded(ServiceException):  # type: ignore[misc]
    code = "ResourceLimitExceeded"


class ResourceNotFound(ServiceException):  # type: ignore[misc]
    code = "ResourceNotFound"


class ResourceInUse(ServiceException):  # type: ignore[misc]
    code = "ResourceInUse"
