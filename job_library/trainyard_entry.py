"""The program that SageMaker's training toolkit starts; everything else is in the packages beside
it.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from trainyard_container.main import main

if __name__ == "__main__":
    sys.exit(main())
