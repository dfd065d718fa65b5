"""Exit codes that tell the node agent why a trainer ended, and the errors behind them."""

from __future__ import annotations

#: Training is complete and the final model is committed.
COMPLETE = 0
#: The configuration does not fit the data, the checkpoint or this machine: the message names the
#: key. The same status as for a bad command line.
MISCONFIGURED = 2
#: A checkpoint could not be written or read (disk full, permission, shared filesystem gone);
#: EX_IOERR.
CHECKPOINT_FAILED = 74
#: A newer attempt of this run exists: this process must not write any more.
FENCED = 79
#: Asked to stop (SIGTERM); the checkpoint of the last step boundary is committed. 128 + SIGTERM.
STOPPED = 143


class Fenced(Exception):
    """A newer attempt of the run exists, so this one may not commit anything."""


class CheckpointFailed(Exception):
    """A checkpoint could not be committed; the message names the file and the reason."""


class ConfigError(ValueError):
    """A key or value that does not fit; the message names the key, what was wrong and what would be
    right.
    """
