"""An AWS assumption that a quirk of the local cloud breaks, and what first-light makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.first_light import assert_nothing_left
from tests.support.system import Json, System


@dataclass(frozen=True)
class Broken:
    """`quirk` breaks `assumption`, which is seen in `stage`; the remedy has these `words`.

    `limits` shorten what waits in vain.
    """

    assumption: str
    quirk: str
    stage: str
    words: str
    limits: tuple[str, ...] = ()

    @property
    def options(self) -> list[str]:
        return [word for limit in self.limits for word in ("--stage-seconds", limit)]

    @contextmanager
    def on(self, system: System) -> Iterator[Broken]:
        """The cloud is this way in the block only."""
        system.quirk(self.quirk)
        try:
            yield self
        finally:
            system.quirk(self.quirk, on=False)


def assert_found(broken: Broken, code: int, document: Json, system: System, printed: str) -> None:
    """It ended with 1 and only this id, in its stage, with a remedy's words and nothing left."""
    assert (code, document["verdict"], document["firstBroken"]) == (
        1,
        "broken",
        broken.assumption,
    ), printed
    assert [
        name for name, seen in document["assumptions"].items() if seen["verdict"] == "broken"
    ] == [broken.assumption]
    assert document["assumptions"][broken.assumption]["stage"] == broken.stage
    assert broken.words in document["words"]
    assert document["nothingLeft"] is True
    assert_nothing_left(system, document)
