"""`python -m trainyard_trainers.bert` trains."""

import sys

from .train import main

sys.exit(main())
