"""`python -m trainyard_trainers.classify` trains."""

import sys

from .train import main

sys.exit(main())
