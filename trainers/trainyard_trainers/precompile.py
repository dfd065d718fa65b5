"""`python -m trainyard_trainers.precompile`: the name by which users call `common.precompile`."""

import sys

from .common.precompile import main

if __name__ == "__main__":
    sys.exit(main())
