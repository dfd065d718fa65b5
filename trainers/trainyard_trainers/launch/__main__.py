"""`python -m trainyard_trainers.launch <attempt dir>`: what batch scripts run on each node."""

import sys

from .node_part import main

sys.exit(main())
