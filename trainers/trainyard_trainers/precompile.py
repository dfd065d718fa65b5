"""`python -m trainyard_trainers.precompile`: the name that users call `common.precompile` by."""

import sys

from .common.precompile import main

if __name__ == "__main__":
    sys.exit(main())
