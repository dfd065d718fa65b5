"""The checked-in JSON schemas are fresh, valid, and say the same as the classes."""

from __future__ import annotations

import json

import jsonschema
import pytest
from scripts import schemas

from trainyard_contracts.events import AGENT_EVENTS
from trainyard_contracts.schema_export import contract_classes, schema_files
from trainyard_contracts.specs import RunSpec


def test_the_checked_in_schemas_are_fresh() -> None:
    assert schemas.main(["--check"]) == 0


def test_a_stale_schema_is_noticed(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(schemas, "DIRECTORY", tmp_path)
    (tmp_path / "Gone.v1.json").write_text("{}")
    assert schemas.main(["--check"]) == 1
    assert "Gone.v1.json is stale" in capsys.readouterr().out
    assert schemas.main([]) == 0
    assert schemas.main(["--check"]) == 0
    assert not (tmp_path / "Gone.v1.json").exists()


@pytest.mark.parametrize("name", sorted(schema_files()))
def test_every_schema_is_a_valid_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_files()[name]))


def test_every_event_has_a_schema() -> None:
    assert set(AGENT_EVENTS.values()) <= set(contract_classes())


def test_every_field_of_a_spec_says_what_it_means() -> None:
    schema = RunSpec.model_json_schema(by_alias=True)
    parts = {"RunSpec": schema, **schema["$defs"]}
    silent = [
        f"{title}.{name}"
        for title, part in parts.items()
        for name, field in part.get("properties", {}).items()
        if not field.get("description")
    ]
    assert silent == [], "give it a description; docs/reference/specs.md shows it"


def test_the_schema_of_a_run_refuses_what_the_class_refuses() -> None:
    schema = json.loads(schema_files()["RunSpec.v1.json"])
    good = {"name": "a", "cluster": {"name": "c"}, "job": {"nodes": 1, "module": "train"}}
    jsonschema.validate(good, schema)
    for bad in (good | {"extra": 1}, good | {"name": "under_score"}, {"name": "a"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema)
