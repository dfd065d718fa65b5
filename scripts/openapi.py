"""Write docs/openapi.json, or with --check say whether it is stale. It needs no AWS credentials."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from trainyard.http.openapi import document

TARGET = Path(__file__).resolve().parents[1] / "docs/openapi.json"


def main(argv: list[str] | None = None) -> int:
    """Exit status 1 if --check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    text = json.dumps(document(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if parser.parse_args(argv).check:
        fresh = TARGET.exists() and TARGET.read_text() == text
        if not fresh:
            print(f"{TARGET} is stale; run: python scripts/openapi.py")
        return 0 if fresh else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
