"""Runs a program whose second rank stands still after an update of its first attempt.

    held.py UPDATES PROGRAM [ARGUMENT...]

So a test knows which checkpoint is the newest when it takes that rank's node away: the file `held`
is in the attempt's directory then. With 0 updates nothing stands still.
"""

import os
import runpy
import sys
import time
from pathlib import Path

from torch.optim.optimizer import register_optimizer_step_post_hook

last, program = int(sys.argv[1]), sys.argv[2]
first = os.environ["RANK"] == "1" and os.environ["TRAINYARD_ATTEMPT"] == "1"
updates = 0


def hold(*_: object) -> None:
    global updates
    updates += 1
    if first and updates == last:
        Path(os.environ["TRAINYARD_ATTEMPT_DIR"], "held").touch()
        while True:
            time.sleep(1)


register_optimizer_step_post_hook(hold)
sys.argv = sys.argv[2:]
runpy.run_path(program, run_name="__main__")
