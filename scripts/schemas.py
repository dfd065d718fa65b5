"""Write the contracts' JSON schemas, or with --check say which checked-in ones are stale."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trainyard_contracts.schema_export import schema_files

DIRECTORY = Path(__file__).resolve().parents[1] / "layers/contracts/trainyard_contracts/schemas"


def main(argv: list[str] | None = None) -> int:
    """Exit status 1 if --check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    wanted = schema_files()
    have = {path.name: path.read_text() for path in DIRECTORY.glob("*.json")}
    if parser.parse_args(argv).check:
        stale = sorted(name for name in wanted.keys() | have.keys() if wanted.get(name) != have.get(name))
        for name in stale:
            print(f"{DIRECTORY / name} is stale; run: python scripts/schemas.py")
        return 1 if stale else 0
    DIRECTORY.mkdir(exist_ok=True)
    for name in have.keys() - wanted.keys():
        (DIRECTORY / name).unlink()
    for name, text in wanted.items():
        (DIRECTORY / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
