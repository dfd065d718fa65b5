"""What held a first run up, in the words of those that reported it."""

from __future__ import annotations

from .world import World

#: Of these the timeline tells what a step waits for, or why it ended.
TROUBLE = ("Delayed", "Trouble", "Warning")


def trouble(world: World) -> str:
    """Everything that said why something did not go on, in one text."""
    parts = [entry["message"] for entry in world.timeline(*TROUBLE)]
    for known in (world.cluster, world.run):
        if problem := (known or {}).get("problem"):
            parts.append(f"{problem.get('title', '')}: {problem.get('detail', '')}")
    if world.failure is not None:
        parts.append(str(world.failure))
    return "\n".join(parts)


def sentence(text: str, words: str) -> str:
    """The line of a text that has these words."""
    return next((line for line in text.splitlines() if words in line), words)
