"""What each node reported of itself in the log of its lifecycle script."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from .verdicts import Seen, broken, held, unseen
from .world import Json, World

#: node_agent/lifecycle/node_facts.py writes it.
FACTS = "trainyard-facts "
FINISHED = "[trainyard] lifecycle finished"


@dataclass(frozen=True)
class Story:
    """What one instance's lifecycle script wrote, also when the instance is gone.

    `facts` are those that it reported of itself.
    """

    stream: str
    group: str
    lines: list[str]
    facts: Json

    @property
    def finished(self) -> bool:
        return any(FINISHED in line for line in self.lines)

    def said(self, words: str) -> str | None:
        """The first line with these words."""
        return next((line for line in self.lines if words in line), None)


def stories(world: World, role: str | None = None) -> list[Story]:
    """Of every stream of the cluster's log group with our scripts' lines, by role or of all."""
    roles = {group["name"]: group["role"] for group in world.cluster_spec["instanceGroups"]}
    found = []
    for stream in world.log_streams:
        lines = world.stream(stream)
        group = next((part for part in stream.split("/") if part in roles), "")
        if any("[trainyard]" in line for line in lines) and role in (None, roles.get(group)):
            found.append(Story(stream, group, lines, _facts(lines)))
    return found


def _facts(lines: list[str]) -> Json:
    found: Json = {}
    for line in lines:
        _, word, text = line.partition(FACTS)
        if word:
            try:
                found |= json.loads(text)
            except (ValueError, TypeError):
                continue  # a line that was cut
    return found


def as_processes(story: Story) -> bool:
    """Whether the node is a process tree of the local cloud, without systemd and its own image."""
    return story.facts.get("units") is None


def judged(
    world: World,
    assumption: str,
    fact: Callable[[Story], bool | None],
    words: str,
    remedy: str,
    *,
    role: str | None = None,
) -> Seen:
    """By one fact of every node, None where a node cannot tell. `words` say what is true."""
    found = stories(world, role)
    verdicts = {story.stream: fact(story) for story in found}
    wrong = [stream for stream, verdict in verdicts.items() if verdict is False]
    if wrong:
        return broken(assumption, f"{', '.join(wrong)} told otherwise: not {words}", remedy)
    told = [stream for stream, verdict in verdicts.items() if verdict]
    if told:
        return held(assumption, f"{len(told)} of {len(found)} nodes told: {words}")
    if found and all(as_processes(story) for story in found):
        return unseen(assumption, "nodes of this local cloud are processes and have no image")
    return unseen(assumption, f"none of {len(found)} nodes told of it")
