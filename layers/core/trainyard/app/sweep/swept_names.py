"""What a sweep calls the thing that it looked at."""

from __future__ import annotations

from trainyard.app.sweep.notices import Unsent
from trainyard.app.sweep.orphans import Suspect
from trainyard.app.sweep.watched_budgets import Watched
from trainyard.domain.approval_records import Approval
from trainyard.domain.array_records import RunArray
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.records import Cluster, Run, Wait
from trainyard.domain.schedule_records import Schedule
from trainyard.domain.webhook_records import Delivery
from trainyard.outside.directories import Directory
from trainyard.outside.executions import DeadLetter
from trainyard.outside.seen_clusters import Remains
from trainyard.outside.seen_filesystems import SeenFilesystem


def name_of(
    item: Wait
    | Run
    | Cluster
    | Suspect
    | Remains
    | DeadLetter
    | Filesystem
    | SeenFilesystem
    | Directory
    | RunArray
    | Schedule
    | Approval
    | Unsent
    | Delivery
    | Watched,
) -> str:
    if isinstance(item, Unsent):
        return item.notice.notice.id
    if isinstance(item, DeadLetter):
        return item.body[:200]
    if isinstance(item, SeenFilesystem):
        return item.fsx_id
    if isinstance(item, (Run, RunArray, Approval, Delivery)):
        return item.id
    return item.owner if isinstance(item, Wait) else item.name
