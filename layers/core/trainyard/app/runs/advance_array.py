"""Takes an array further: members that ended are counted, and the next ones begin.

The record is written before the runs that it names are made. A process that dies in between
leaves members that the next look makes, under the same ids.
"""

from __future__ import annotations

from collections.abc import Callable

from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.runs.cancel_run import cancel_run
from trainyard.app.runs.owners import tell_admins, why_not
from trainyard.app.runs.submit_run import check_cluster, new_run, start_run
from trainyard.app.runs.team_budgets import check_shared
from trainyard.domain import arrays, chains, names
from trainyard.domain.array_records import RunArray
from trainyard.domain.errors import BudgetUsedUp, ConflictError, RunNotFound, TrainyardError
from trainyard.domain.records import ArrayMember, Run
from trainyard.domain.words import who
from trainyard.ports import Ports
from trainyard_contracts.people import Person
from trainyard_contracts.specs import ClusterRef, RunSpec

#: The record is written by each member's end, perhaps by many at once.
_TRIES = 8
#: How the reason begins while members wait for a budget, or for an owner who may submit them.
_WAITS = "Waiting: "


def advance_array(ports: Ports, array_id: str) -> RunArray:
    """Look at every active member, make those that lack their run, and begin the next ones.

    Again changes nothing. Raises ArrayNotFound.
    """
    array = _with_cluster(ports, ports.arrays.get(array_id))
    ends = {index: end for index in array.active if (end := _end_of(ports, array, index))}
    array = _changed(ports, array, lambda one: _settled(one, ends))
    return _closed(ports, begin_members(ports, array))


def member_ended(ports: Ports, run: Run) -> None:
    """Count a member whose run is over, and begin the next one in its place."""
    if run.array is None or not run.terminal:
        return
    end: dict[int, str] = {run.array.index: run.status}
    array = _changed(ports, ports.arrays.get(run.array.id), lambda one: _settled(one, end))
    _closed(ports, begin_members(ports, array))


def cancel_array(
    ports: Ports, array_id: str, *, by: Person | None = None, reason: str = ""
) -> RunArray:
    """No member begins any more, and the active ones are cancelled. Twice is the same as once."""
    array = ports.arrays.get(array_id)
    why = f"{who(by)} cancelled the array" + (f": {reason}" if reason else ".")
    _changed(ports, array, lambda one: arrays.cancelled(one, why))
    return advance_array(ports, array_id)


def begin_members(ports: Ports, array: RunArray) -> RunArray:
    """Begin members while there is room, so many in one step."""
    if reason := _hopeless(ports, array):
        return _changed(ports, array, lambda one: arrays.rest_refused(one, reason))
    if array.status == "Running" and array.waiting and (held := _held(ports, array)):
        return _waiting(ports, array, held)
    new: list[int] = []

    def fill(one: RunArray) -> RunArray:
        filled, new[:] = arrays.filled(one)
        return filled

    array = _changed(ports, array, fill)
    refused = {index: "refused" for index in new if not _begin(ports, array, index)}
    return _changed(ports, array, lambda one: _settled(one, refused)) if refused else array


def _hopeless(ports: Ports, array: RunArray) -> str:
    """Why no member can begin any more; '' while each may. A run for each would only fail."""
    if array.status != "Running" or not array.waiting:
        return ""
    spec = array.spec.run
    bad = chains.unsuccessful(spec, [ports.runs.get(one) for one in spec.after])
    if bad is None:
        return ""
    return (
        f"{chains.named(bad)} is {bad.status}, and members were to begin after its success. "
        "Once it has succeeded, submit the array again."
    )


def _held(ports: Ports, array: RunArray) -> str:
    """Why no member begins until the array is somebody else's; '' where they begin."""
    if reason := why_not(ports, array):
        assert array.created_by is not None
        tell_admins(ports, array, f"{array.id}/{array.created_by.id}", reason)
    return reason


def _waiting(ports: Ports, array: RunArray, why: str) -> RunArray:
    reason = f"{_WAITS}{why}"[:1000]
    return _changed(ports, array, lambda one: one.changed(reason=reason))


def member_run(array: RunArray, index: int) -> str:
    return names.member_id(array.id, array.created_at, index)


def _settled(array: RunArray, ends: dict[int, str]) -> RunArray:
    for index, end in ends.items():
        array = arrays.settled(array, index, end)
    return array


def _end_of(ports: Ports, array: RunArray, index: int) -> str | None:
    """How a member's run ended; None while it goes on. Makes a run that is not there yet."""
    try:
        run = ports.runs.get(member_run(array, index))
    except RunNotFound:
        if array.status == "Cancelling":
            return "Cancelled"
        return None if _begin(ports, array, index) else "refused"
    if run.terminal:
        return run.status
    if array.status == "Cancelling":
        cancel_run(ports, run.id, reason=array.reason)
    return None


def _begin(ports: Ports, array: RunArray, index: int) -> bool:
    """Make the member's run and start it; False where it is refused. Again changes nothing.

    One that waits stays active without a run, which a later look makes.
    """
    if held := _held(ports, array):
        _waiting(ports, array, held)
        return True
    spec = _spec(array, index)
    try:
        if spec.cluster.name is not None:  # one of its own was looked at when the array came
            check_cluster(ports, spec)
        else:
            check_shared(ports, spec, None)
    except BudgetUsedUp as waits:
        _waiting(ports, array, waits.detail)
        return True
    except TrainyardError as refused:
        if refused.retryable:
            raise
        reason = f"Member {index} was refused: {refused.detail}"
        _changed(ports, array, lambda one: one.changed(reason=one.reason or reason[:1000]))
        return False
    run = new_run(
        ports,
        spec,
        array.code,
        array.start_from,
        array.data,
        by=array.created_by,
        run_id=member_run(array, index),
        array=ArrayMember(id=array.id, index=index),
    )
    start_run(ports, ports.runs.create(run, idempotency_key=None, body_hash=""))
    if array.reason.startswith(_WAITS):
        _changed(ports, array, lambda one: one.changed(reason=""))
    return True


def _spec(array: RunArray, index: int) -> RunSpec:
    values = list(array.spec.values())[index]
    spec = array.spec.member(index, values)
    if not array.owns_cluster:
        return spec
    return spec.changed(cluster=ClusterRef(name=array.cluster_name), teardown=None)


def _with_cluster(ports: Ports, array: RunArray) -> RunArray:
    """Have the cluster of all members made, until the first of them has begun."""
    made = array.spec.run.cluster
    if not array.owns_cluster or array.begun or array.status != "Running" or made.spec is None:
        return array
    if why_not(ports, array):
        return array
    try:
        create_cluster(
            ports,
            made.spec,
            otherwise=made.otherwise,
            name=array.cluster_name,
            idempotency_key=array.id,
            by=array.created_by,
        )
    except TrainyardError as refused:
        if refused.retryable:
            raise
        reason = f"Its cluster was refused: {refused.detail}"
        return _changed(ports, array, lambda one: arrays.rest_refused(one, reason))
    return array


def _closed(ports: Ports, array: RunArray) -> RunArray:
    array = _changed(ports, array, lambda one: arrays.closed(one, ports.clock.now()))
    if array.over and array.owns_cluster:
        _delete_cluster(ports, array)
    return array


def _delete_cluster(ports: Ports, array: RunArray) -> None:
    """The cluster of an array goes as one of a run does; where it must stay, its idle limit ends
    it.
    """
    policy = array.spec.run.teardown_policy
    if policy == "never" or (policy == "on-success" and array.status != "Succeeded"):
        return
    try:
        if ports.clusters.get(array.cluster_name).idempotency_key == array.id:
            delete_cluster(ports, array.cluster_name)
    except TrainyardError as kept:
        if kept.retryable:
            raise


def _changed(ports: Ports, array: RunArray, change: Callable[[RunArray], RunArray]) -> RunArray:
    """The array with a change that holds whatever others changed meanwhile.

    Raises ConflictError if others keep changing it; the sweep goes on then.
    """
    for _ in range(_TRIES):
        after = change(array)
        if after == array:
            return array
        try:
            return ports.arrays.put(after)
        except ConflictError:
            array = ports.arrays.get(array.id)
    raise ConflictError(f"array {array.id} is changed by many at once")
