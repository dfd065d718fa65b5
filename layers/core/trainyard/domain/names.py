"""Names that the control plane derives from other names: ids, executions, roles.

Names that other processes must know, too, are in `trainyard_contracts.places`.
"""

from __future__ import annotations

from datetime import datetime, timezone
from hashlib import sha256

from trainyard_contracts import places

_MOMENT = "%Y%m%dT%H%M%S.%f"


def run_id(ulid: str) -> str:
    return f"run-{ulid.lower()}"


#: Crockford's digits, in lower case, as ids of runs have them.
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"


def keyed_id(kind: str, key: str) -> str:
    """The id that belongs to a key of the client's."""
    return derived_id(kind, datetime.fromtimestamp(0, timezone.utc), key)


def derived_id(kind: str, at: datetime, *parts: object) -> str:
    """An id that follows from its parts: made a second time it is the same.

    It sorts by the time, as ids that are drawn do.
    """
    moment, drawn = int(at.timestamp() * 1000), sha256("/".join(map(str, parts)).encode()).digest()
    number = (moment << 80) | int.from_bytes(drawn[:10], "big")
    digits = "".join(_DIGITS[(number >> (5 * place)) & 31] for place in reversed(range(26)))
    return f"{kind}-{digits}"


def same_moment(one: str, other: str) -> bool:
    """Whether two ids were made for the same millisecond, as all runs of one firing are."""
    return one.rpartition("-")[2][:10] == other.rpartition("-")[2][:10]


def array_id(ulid: str) -> str:
    return f"arr-{ulid.lower()}"


def member_id(array: str, made_at: datetime, index: int) -> str:
    """The run of a member of an array."""
    return derived_id("run", made_at, array, index)


def scheduled_run_id(key: str, at: datetime, number: int = 0) -> str:
    """A run of one time of a schedule; `number` is its place in the chain."""
    place = (str(number),) if number else ()
    return derived_id("run", at, key, at.isoformat(), *place)


def cluster_for_run(spec_name: str, run: str) -> str:
    """The name of a run's own cluster: at most 63 characters, the last 6 are of the run's ulid."""
    return f"{spec_name[:56].rstrip('-')}-{run[-6:]}"


def node_role_path(stage: str, cluster: str, generation: int) -> str:
    """The path of the role of one cluster's nodes; the path says whose role it is."""
    return f"{places.cluster_roles_path(stage, cluster)}{generation}/"


def job_role_path(stage: str, cluster: str, generation: int, made_at: datetime) -> str:
    """The path of the role of one cluster's training jobs, which says of which record it is.

    Of such a cluster the role is all that AWS has while no job runs. A job takes no colon in the
    ARN of its role.
    """
    moment = made_at.astimezone(timezone.utc).strftime(_MOMENT)
    return f"{places.job_roles_path(stage)}{cluster}/{generation}/{moment}/"


def record_of_job_role(path: str) -> tuple[str, int, datetime]:
    """Cluster, generation and the record's time, of such a role's path."""
    *_, cluster, generation, moment, _ = path.split("/")
    made_at = datetime.strptime(moment, _MOMENT).replace(tzinfo=timezone.utc)
    return cluster, int(generation), made_at


def cluster_of_role(path: str) -> tuple[str, int]:
    """Cluster and generation of a role's path."""
    *_, cluster, generation, _ = path.split("/")
    return cluster, int(generation)


def node_role(stage: str, cluster: str, generation: int) -> str:
    """At most 64 characters, unique in the account: a role's path does not make its name unique."""
    whole = sha256(f"{stage}/{cluster}/{generation}".encode()).hexdigest()[:12]
    return f"{stage[:20]}-{cluster[:28]}-{whole}"


def s3_uri(bucket: str, key: str) -> str:
    return f"s3://{bucket}/{key}"


def run_execution(run: str, generation: int) -> str:
    return f"{run}-{generation}"


def cluster_execution(cluster: str, generation: int, tries: int = 0) -> str:
    """Execution name of the cluster and teardown machines; a restarted one has a new name."""
    return f"{cluster}-{generation}" if tries == 0 else f"{cluster}-{generation}-{tries}"


def run_owner(run: str) -> str:
    return f"run:{run}"


def cluster_owner(cluster: str) -> str:
    return f"cluster:{cluster}"


def teardown_owner(cluster: str) -> str:
    return f"teardown:{cluster}"
