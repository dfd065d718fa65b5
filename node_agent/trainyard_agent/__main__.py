"""So that `python -m trainyard_agent` is the command even where no launcher is installed."""

from __future__ import annotations

import sys

from trainyard_agent.cli import main

if __name__ == "__main__":
    sys.exit(main())
