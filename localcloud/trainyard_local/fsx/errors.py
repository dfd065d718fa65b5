"""FSx's errors, by its own names (botocore: errors of its operations)."""

from __future__ import annotations


class FsxError(Exception):
    """What FSx answers instead; the class's name is the error's."""


class BadRequest(FsxError):
    pass


class IncompatibleParameterError(FsxError):
    pass


class InvalidNetworkSettings(FsxError):
    pass


class InvalidPerUnitStorageThroughput(FsxError):
    pass


class FileSystemNotFound(FsxError):
    pass


class DataRepositoryAssociationNotFound(FsxError):
    pass


class DataRepositoryTaskNotFound(FsxError):
    pass


class DataRepositoryTaskExecuting(FsxError):
    pass


class ServiceLimitExceeded(FsxError):
    pass


class NotDone(FsxError):
    """The local cloud's own: AWS does this, and it does not."""
