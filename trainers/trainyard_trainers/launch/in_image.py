"""Starts the launcher with the Python of the job's image; `srun` runs it there once on every node.

    python3 <library>/trainyard_trainers/launch/in_image.py <attempt dir>

It is a file and no module, so that no variable has to say where our packages lie: an image's own
PYTHONPATH stays as it is. Nothing is imported before the version is known to be new enough.
"""

import json
import os
import sys
import time

OLDEST = (3, 10)


def main() -> int:
    directory, here = sys.argv[1], os.path.dirname(os.path.abspath(__file__))
    if sys.version_info < OLDEST:
        return refuse(directory)
    if not os.path.isdir(os.environ.get("TMPDIR", "/")):
        del os.environ["TMPDIR"]  # the node's, which the image lacks
    # This directory has modules that would hide others.
    others = [path for path in sys.path if os.path.abspath(path) != here]
    sys.path[:] = [os.path.dirname(os.path.dirname(here)), *others]
    from trainyard_trainers.launch.node_part import main as launch

    return launch([directory])


def refuse(directory: str) -> int:
    """The report with which a launcher of this node would have ended."""
    with open(os.path.join(directory, "job.json"), encoding="utf-8") as stream:
        job = json.load(stream)
    words = "job.image '{}' has Python {}.{}; it needs 3.10 or newer, with the program's packages"
    error = words.format(job["image"]["name"], *sys.version_info[:2])
    node = os.environ.get("SLURMD_NODENAME", "localhost")
    report = {
        "node": node,
        "attempt": job["attempt"],
        "pid": os.getpid(),
        "started": time.time(),
        "ended": time.time(),
        "exitCode": 1,
        "signal": None,
        "rank": None,
        "kind": "python-error",
        "error": error,
        "exception": "ImageRefused",
        "lasting": "program",
    }
    path = os.path.join(directory, f"launch-{node}.json")
    with open(path + ".part", "w", encoding="utf-8") as stream:
        json.dump(report, stream)
    os.replace(path + ".part", path)
    print(f"trainyard: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
