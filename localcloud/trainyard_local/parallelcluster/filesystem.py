"""The FSx filesystem that is made with a cluster, linked to its buckets, and deleted with it."""

from __future__ import annotations

from trainyard_local.fsx.errors import FsxError, NotDone
from trainyard_local.fsx.service import Fsx
from trainyard_local.parallelcluster.configuration import MadeFilesystem
from trainyard_local.parallelcluster.events import resource_changed
from trainyard_local.parallelcluster.state import Cluster

KIND, LINK = "AWS::FSx::FileSystem", "AWS::FSx::DataRepositoryAssociation"
#: Between two looks at what FSx makes or deletes.
LOOK_SECONDS = 0.1


class NotMade(RuntimeError):
    """FSx refused, or the filesystem failed."""


def make(cluster: Cluster, fsx: Fsx) -> None:
    """With the stack's tags, as CloudFormation hands them on. Raises NotMade."""
    wanted = cluster.configuration.made
    if wanted is None:
        return
    logical = f"FSX{wanted.name}"
    resource_changed(cluster, logical, KIND, "CREATE_IN_PROGRESS")
    try:
        _make(cluster, fsx, wanted)
    except (FsxError, NotDone, NotMade) as refused:
        resource_changed(cluster, logical, KIND, "CREATE_FAILED", str(refused))
        raise NotMade(str(refused)) from None
    resource_changed(cluster, logical, KIND, "CREATE_COMPLETE")


def _make(cluster: Cluster, fsx: Fsx, wanted: MadeFilesystem) -> None:
    tags = [{"Key": key, "Value": value} for key, value in cluster.tags.items()]
    made = fsx.answer("CreateFileSystem", {**wanted.request, "Tags": tags})["FileSystem"]
    cluster.filesystem = fsx.filesystems[made["FileSystemId"]]
    while cluster.filesystem.lifecycle == "CREATING" and not cluster.closing.wait(LOOK_SECONDS):
        pass
    for link in wanted.links:
        request = {**link, "FileSystemId": cluster.filesystem.id, "Tags": tags}
        made = fsx.answer("CreateDataRepositoryAssociation", request)["Association"]
        found = fsx.associations[made["AssociationId"]]
        while found.lifecycle == "CREATING" and not cluster.closing.wait(LOOK_SECONDS):
            pass
        if found.lifecycle != "AVAILABLE" and not cluster.closing.is_set():
            raise NotMade(f"{found.id}: {found.failure or found.lifecycle}")


def end(cluster: Cluster, fsx: Fsx | None) -> None:
    """Delete it with its cluster, unless it is to be retained. Again changes nothing."""
    made, wanted = cluster.filesystem, cluster.configuration.made
    if fsx is None or made is None or wanted is None or wanted.keep:
        return
    if fsx.filesystems.get(made.id) is made:
        fsx.remove(made)
