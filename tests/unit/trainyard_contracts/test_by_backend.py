"""A cluster's spec is read by the class of its backend, and stays flat on the wire."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from tests.support.other_backend import OtherSpec
from tests.support.spec_parts import ON_FSX
from typing_extensions import TypeAliasType

from trainyard.http.problems import invalid_request
from trainyard_contracts.base import read_stored
from trainyard_contracts.by_backend import ByBackend
from trainyard_contracts.cluster_ref import ClusterRef
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.hyperpod import HyperPodClusterSpec

GROUPS = [
    {"name": "head", "role": "controller", "instanceType": "ml.c5.xlarge", "count": 1},
    {"name": "workers", "role": "worker", "instanceType": "ml.c5.xlarge", "count": 2},
]
BOTH: dict[str, Any] = {"name": "c", "instanceGroups": GROUPS}
SPEC: dict[str, Any] = {**BOTH, **ON_FSX}
OTHER: dict[str, Any] = {**BOTH, "backend": "other", "shelves": 3}


Either = TypeAliasType("Either", Annotated[HyperPodClusterSpec | OtherSpec, ByBackend()])


class Holder(BaseModel):
    spec: Either | None = None


def places(given: dict[str, Any]) -> list[tuple[Any, ...]]:
    with pytest.raises(ValidationError) as caught:
        Holder.model_validate({"spec": given})
    return [mistake["loc"] for mistake in caught.value.errors()]


def test_a_spec_that_names_no_backend_is_hyperpods() -> None:
    assert isinstance(read_cluster_spec(SPEC), HyperPodClusterSpec)
    assert isinstance(TypeAdapter(Either).validate_python(SPEC), HyperPodClusterSpec)


def test_a_spec_is_read_by_the_backend_that_it_names() -> None:
    read = Holder.model_validate({"spec": OTHER}).spec
    assert isinstance(read, OtherSpec)
    assert (read.shelves, read.node_repair) == (3, None)
    assert read.model_dump(by_alias=True, exclude_unset=True) == OTHER


def test_what_is_stored_is_read_again() -> None:
    stored = Holder.model_validate({"spec": {**SPEC, "nodeRecovery": "None"}}).model_dump_json()
    again = Holder.model_validate_json(stored).spec
    assert isinstance(again, HyperPodClusterSpec)
    assert again.node_repair is None
    assert read_cluster_spec(SPEC).node_repair == (300, 1800), "by default HyperPod repairs nodes"


@pytest.mark.parametrize("spec", [SPEC, OTHER])
def test_a_stored_one_is_read_without_judging_it_again(spec: dict[str, Any]) -> None:
    newer = {"color": "blue", "tags": {"aws:mine": "1"}}
    given = {"spec": {**spec, **newer}}
    with pytest.raises(ValidationError):
        Holder.model_validate(given)
    read = read_stored(Holder, json.dumps(given)).spec
    assert read is not None
    assert (read.backend, read.tags) == (spec.get("backend", "hyperpod"), newer["tags"])


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({**SPEC, "shelves": 3}, ("spec", "shelves")),
        ({**OTHER, "shelves": 0}, ("spec", "shelves")),
        ({**OTHER, "nodeRecovery": "None"}, ("spec", "nodeRecovery")),
        ({**OTHER, "sharedFilesystem": {}}, ("spec", "sharedFilesystem")),
        ({**SPEC, "backend": "nobody"}, ("spec", "backend")),
        ({**SPEC, "backend": ["other"]}, ("spec", "backend")),
    ],
)
def test_a_mistake_is_said_at_its_own_field_without_the_backends_name(
    given: dict[str, Any], place: tuple[str, ...]
) -> None:
    assert places(given) == [place]


@pytest.mark.parametrize("given", ["x", [], 7, True])
def test_what_is_no_object_is_told_as_with_one_backend(given: Any) -> None:
    told = []
    for holder in (Holder, ClusterRef):
        with pytest.raises(ValidationError) as caught:
            holder.model_validate({"spec": given})
        told.append(invalid_request(caught.value.errors()).detail)
    assert told == ["spec: must be an object"] * 2


def test_a_spec_that_was_read_already_is_taken_as_it_is() -> None:
    read = TypeAdapter(Either).validate_python(OTHER)
    assert Holder(spec=read).spec is read


def test_an_unknown_backend_is_told_with_those_that_there_are() -> None:
    with pytest.raises(ValidationError, match="'hyperpod' or 'other'"):
        Holder.model_validate({"spec": {**SPEC, "backend": "nobody"}})


@pytest.mark.parametrize(
    ("given", "fields", "meant"),
    [
        (
            {"name": "mine", "headNode": {}, "queues": [], "sharedStorage": []},
            "'headNode' and 'queues' and 'sharedStorage' are",
            "parallelcluster",
        ),
        ({"name": "mine", "instanceCount": 2}, "'instanceCount' is", "training-job"),
    ],
)
def test_a_spec_with_another_backends_fields_is_asked_to_name_it(
    given: dict[str, Any], fields: str, meant: str
) -> None:
    with pytest.raises(ValidationError) as mistakes:
        read_cluster_spec(given)
    (error,) = invalid_request(mistakes.value.errors()).errors
    assert error.field == "backend"
    assert error.message == (
        f"is needed: {fields} of backend '{meant}', and a spec that names none is read as "
        f"'hyperpod'; give backend: {meant}"
    )
