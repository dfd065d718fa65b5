"""`python -m trainyard_trainers` is the command `trainyard-trainers`, also where no console script
was installed.
"""

import sys

from .cli import main

sys.exit(main())
