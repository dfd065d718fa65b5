"""Whether a run's code is there, with its script."""

from __future__ import annotations

from trainyard.app.runs.kept_trees import read_tree, usable_code, wrong_tree
from trainyard.domain.errors import BlobNotFound, InvalidRequest
from trainyard.domain.records import Code
from trainyard.ports import Ports
from trainyard_contracts.specs import JobSpec, RunSpec
from trainyard_contracts.trees import Tree


def check_code(ports: Ports, spec: RunSpec) -> Code | None:
    """The code that the run would be given.

    Raises UploadIncomplete, and InvalidRequest for a script that is in neither place.
    """
    tree_id = spec.job.workdir
    if tree_id is None:
        return None
    code, key = usable_code(ports, tree_id, "job.workdir", "upload the directory again")
    _check_script(ports, spec.job, key)
    return code


def _check_script(ports: Ports, job: JobSpec, key: str) -> None:
    if job.script is None or job.script in job.files:
        return
    try:
        tree = read_tree(ports.blobs.get(key))
    except (BlobNotFound, InvalidRequest):
        return  # the run says so when it copies the tree
    if all(job.script != path for path in _names(tree)):
        raise wrong_tree(
            "job.script", f"'{job.script}' is neither in job.workdir nor in job.files; correct it"
        )


def _names(tree: Tree) -> list[str]:
    return [*(file.path for file in tree.files), *(link.path for link in tree.links)]
