"""`python -m trainyard_trainers.llm` trains, as `trainyard_trainers.llm.train` does."""

import sys

from .train import main

sys.exit(main())
