"""Which field of our spec a finding of ParallelCluster is about.

A finding of its schema has the path in its configuration. One of a validator has the validator's
name and a sentence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from trainyard.backends.parallelcluster.answers import UpdateError, ValidationMessage
from trainyard.backends.parallelcluster.paths import ours
from trainyard.backends.parallelcluster.places import ANYWHERE, place_of
from trainyard_contracts.parallelcluster import ParallelClusterSpec

SCHEMA = "ConfigSchemaValidator"
_OF_S3 = re.compile(
    r"(?P<fsx>sharedStorage\.(?P<at>\d+)\.fsx\.)(importPath|importChanges|repositories)"
)
#: A name in brackets may have dots.
_PARTS = re.compile(r"[^.\[]+(?:\[[^\]]*\])?")


def field_of(spec: ParallelClusterSpec, finding: ValidationMessage) -> str:
    """The field's path, as in our own refusals."""
    if finding.type != SCHEMA:
        return _written(spec, place_of(spec, finding.type, finding.message))
    paths = [ours(path) for path in schema_paths(finding.message)]
    return _written(spec, next((path for path in paths if path), ANYWHERE))


def _written(spec: ParallelClusterSpec, field: str) -> str:
    """ParallelCluster's validators say the same of all ways to name S3: which one has the spec?"""
    found = _OF_S3.fullmatch(field)
    fsx = spec.shared_storage[int(found["at"])].fsx if found else None
    if found is None or fsx is None:
        return field
    if fsx.archive:
        return f"{found['fsx']}archive"
    return f"{found['fsx']}repositories" if fsx.repositories else field


def field_of_update(spec: ParallelClusterSpec, refused: UpdateError) -> str:
    """Of a path such as Scheduling.SlurmQueues[q].ComputeResources[nodes].MaxCount.

    What has no place in the spec any more (a queue that was removed) is the list's.
    """
    places = {
        "SlurmQueues": [queue.name for queue in spec.queues],
        "Pools": [pool.name for pool in spec.login_nodes],
        "SharedStorage": [storage.name for storage in spec.shared_storage],
    }
    path: list[str] = []
    for part in _PARTS.findall(refused.parameter):
        key, _, name = part.rstrip("]").partition("[")
        path.append(key)
        names = places.get(key, [name])
        if name and name not in names:
            break
        path += [str(names.index(name))] if name else []
    return ours(path) or ANYWHERE


def words_of(spec: ParallelClusterSpec, finding: ValidationMessage) -> str:
    """The finding after its field's path."""
    return f"{field_of(spec, finding)}: {finding.message}"


def schema_paths(message: str) -> list[tuple[str, ...]]:
    """The paths of a finding of the schema, which is written as a list in Python."""
    try:
        found = ast.literal_eval(message)
    except (ValueError, SyntaxError):
        return []
    pairs = found if isinstance(found, list) else []
    return [path for pair in pairs if isinstance(pair, tuple) for path in _leaves(dict([pair]))]


def _leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if not isinstance(tree, dict):
        yield path
        return
    for key, below in tree.items():
        more = () if key == "_schema" else (str(key),)
        yield from _leaves(below, (*path, *more))
