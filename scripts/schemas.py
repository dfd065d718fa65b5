"""Write the contracts' generated files, or with --check say which are stale."""

from __future__ import annotations

import argparse
import pkgutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONTRACTS = ROOT / "layers/contracts/trainyard_contracts"
DIRECTORY = CONTRACTS / "schemas"
RECIPES = CONTRACTS / "recipe_names.py"


def recipe_names() -> str:
    """A recipe is a file among the launchers; the contracts may not import those."""
    names = sorted(
        found.name
        for found in pkgutil.iter_modules(
            [str(ROOT / "trainers/trainyard_trainers/launch/launchers")]
        )
    )
    kept = RECIPES.read_text().partition("RecipeName =")[0]
    # One a line with a comma at the end: the formatter leaves that alone, however many there are.
    lines = "".join(f'    "{name}",\n' for name in names)
    return f"{kept}RecipeName = Literal[\n{lines}]\n"


def main(argv: list[str] | None = None) -> int:
    """Exit status 1 if --check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args(argv).check
    if RECIPES.read_text() != recipe_names():
        if check:
            print(f"{RECIPES} is stale; run: python scripts/schemas.py")
            return 1
        RECIPES.write_text(recipe_names())
    from trainyard_contracts.schema_export import schema_files  # after the list of recipes is right

    wanted = schema_files()
    have = {path.name: path.read_text() for path in DIRECTORY.glob("*.json")}
    if check:
        stale = sorted(
            name for name in wanted.keys() | have.keys() if wanted.get(name) != have.get(name)
        )
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
