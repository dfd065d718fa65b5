"""What was meant by a word that is not known."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.http_events import Client, changed, spec
from tests.support.memory import World
from tests.support.spec_parts import cluster_spec

from trainyard.domain.errors import Throttled
from trainyard.http.nearest import did_you_mean, nearest


@pytest.mark.parametrize(
    ("given", "known", "word"),
    [
        ("nods", ["nodes", "module"], "nodes"),
        ("NODES", ["nodes"], "nodes"),
        ("faild", ["Failed", "Running"], "Failed"),
        ("zzz", ["nodes"], None),
        ("", ["nodes"], None),
        ("nodes", [], None),
    ],
)
def test_the_nearest_known_word_is_found_however_its_letters_are_written(
    given: str, known: list[str], word: str | None
) -> None:
    assert nearest(given, known) == word
    assert did_you_mean(given, known) == (f"; did you mean '{word}'?" if word else "")


@pytest.mark.parametrize(
    ("body", "field", "word"),
    [
        (changed("nmae", "x"), "nmae", "name"),
        (changed("job.nods", 2), "job.nods", "nodes"),
        (changed("job.processesPerNod", 2), "job.processesPerNod", "processesPerNode"),
        (changed("progress", {"regexp": "x"}), "progress.regexp", "regex"),
        (
            changed("cluster.spec.instanceGroups.1.cuont", 2),
            "cluster.spec.instanceGroups.1.cuont",
            "count",
        ),
        (changed("cluster.spec.nodeRecovry", "None"), "cluster.spec.nodeRecovry", "nodeRecovery"),
    ],
)
def test_an_unknown_field_of_a_spec_names_the_one_that_was_meant(
    client: Client, body: dict[str, Any], field: str, word: str
) -> None:
    answer = client.post("/v1/runs", body)
    assert answer.status == 400
    assert answer.fields[field].endswith(f"; did you mean '{word}'?")


def test_of_several_backends_it_is_the_field_of_the_one_that_was_named(client: Client) -> None:
    body = {"backend": "parallelcluster", "name": "p", "headNod": {}, "schedulng": {}}
    answer = client.post("/v1/clusters", body)
    assert answer.fields["headNod"].endswith("did you mean 'headNode'?")
    hyperpod = {**cluster_spec(workers=1), "headNod": {}}
    assert "did you mean" not in client.post("/v1/clusters", hyperpod).fields["headNod"]


def test_a_word_of_a_closed_list_names_the_one_that_was_meant(client: Client) -> None:
    words = client.get("/v1/runs", query={"status": "success"}).fields["status"]
    assert words.endswith("; did you mean 'Succeeded'?")
    words = client.post("/v1/runs", changed("job.recipe", "deepsped")).fields["job.recipe"]
    assert words.endswith("; did you mean 'deepspeed'?")


def test_a_name_that_nothing_has_names_the_one_that_was_meant(client: Client) -> None:
    client.post("/v1/clusters", {**cluster_spec(workers=1), "name": "shared-cpu"})
    client.post("/v1/runs", spec())
    assert client.get("/v1/clusters/shared-gpu").json["detail"] == (
        "'shared-gpu' is not the name of a cluster; did you mean 'shared-cpu'?"
    )
    body = {**spec(), "cluster": {"name": "sharedcpu"}}
    assert client.post("/v1/runs", body).json["detail"].endswith("did you mean 'shared-cpu'?")
    assert client.get("/v1/runs/dmeo").json["detail"].endswith("; did you mean 'demo'?")
    assert client.get("/v1/runs/other").json["detail"].endswith("nor a run's name.")
    client.post("/v1/schedules", {"name": "nightly", "cron": "0 2 * * *", "run": spec()})
    assert client.get("/v1/schedules/nigthly").json["detail"].endswith("mean 'nightly'?")


def test_a_list_that_cannot_be_read_is_no_reason_for_another_answer(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def throttled(**_: Any) -> Any:
        raise Throttled("too many")

    monkeypatch.setattr(world.clusters, "list", throttled)
    answer = client.get("/v1/clusters/shared")
    assert (answer.status, answer.json["detail"]) == (404, "'shared' is not the name of a cluster.")
