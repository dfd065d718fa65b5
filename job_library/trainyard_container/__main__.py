"""`python -m trainyard_container` is what the entry runs, too."""

import sys

from .main import main

sys.exit(main())
