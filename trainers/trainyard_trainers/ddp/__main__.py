"""`python -m trainyard_trainers.ddp` trains."""

import sys

from .train import main

sys.exit(main())
