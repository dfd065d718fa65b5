"""Which checkpoints a trainer wants to have kept though newer ones are there: the best one."""

from __future__ import annotations

import json
from pathlib import Path

from trainyard_agent.host.job_files import may_pass, read_small
from trainyard_contracts import places

#: The best one, and the one before it while the new one is being written.
_MOST = 2
_BYTES = 16 * 1024


def names(root: Path) -> frozenset[str]:
    """Directory names from the run's file of its best checkpoint; none without one, or where it is
    no such file. Raises OSError where it cannot be read just now.
    """
    try:
        found = json.loads(read_small(root, root / places.BEST, _BYTES))["keep"]
        given = [name for name in found if isinstance(name, str)]
    except OSError as error:
        if may_pass(error):
            raise
        return frozenset()
    except (ValueError, LookupError, TypeError, RecursionError):
        return frozenset()
    return frozenset(name for name in given[:_MOST] if places.CHECKPOINT_NAME.match(name))
