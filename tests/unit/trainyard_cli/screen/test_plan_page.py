"""What a dry run says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.fake_api import FakeApi

pytestmark = pytest.mark.real


def test_a_dry_run_shows_the_plan_and_asks_for_nothing_else(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str
) -> None:
    plan = {"operation": "CreateCluster", "request": {"ClusterName": "mine"},
            "files": {"on_create.sh": 2048}, "batchScript": "#!/bin/bash [x]",
            "hourlyUsd": 1.5, "expectedUsd": 3.0, "mostUsd": 15.0,
            "environment": [
                {"name": "LR", "value": "[b]1", "source": "job", "note": ""},
                {"name": "TOKEN", "value": None, "source": "secret", "note": "the secret 'a'"},
                {"name": "TRAINYARD_ATTEMPT", "value": "1", "source": "launcher", "note": "so"},
            ],
            "warnings": ["no spare"]}  # fmt: skip
    api.answers["POST /v1/runs"] = (200, plan)
    code, out, _ = trainyard("run", "submit", spec, "--dryrun")
    assert code == 0
    for part in (
        "CreateCluster",
        "1.50 USD an hour, 3.00 USD the run, 15.00 USD at most",
        "#!/bin/bash [x]",
        "no spare",
        "1 file, 2.0 KiB",
    ):
        assert part in out
    rows = [line.split() for line in out.splitlines()]
    assert ["LR", "[b]1", "job"] in rows
    assert ["TOKEN", "the", "secret", "'a'", "secret"] in rows
    assert ["TRAINYARD_ATTEMPT", "1", "(so)", "launcher"] in rows
    assert [request["query"] for request in api.requests] == [{"dryrun": "true"}]


def test_a_dry_run_compares_ways_by_prices_zones_and_what_their_backends_cannot_do(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str
) -> None:
    first = {"way": "ml.p5.48xlarge", "backend": "hyperpod", "hourlyUsd": 2.0, "expectedUsd": 6.0,
             "mostUsd": 48.0, "zones": ["us-east-1a", "us-east-1b"], "cannot": [],
             "files": {"a.tar": 1024, "b.json": 1024}}  # fmt: skip
    prices = dict.fromkeys(("hourlyUsd", "expectedUsd", "mostUsd"))
    other = {"way": "training-job: ml.p5.48xlarge", "backend": "training-job", **prices,
             "zones": [], "cannot": ["No spares."]}  # fmt: skip
    plan = {"operation": "CreateCluster", "backend": "hyperpod", "ways": [first, other, other]}
    api.answers["POST /v1/runs"] = (200, plan)
    _, out, _ = trainyard("run", "submit", spec, "--dryrun")
    said = " ".join(out.split())
    assert (
        "way 1: ml.p5.48xlarge (2.00 USD an hour, 6.00 USD the run, 48.00 USD at most, "
        "in us-east-1a or us-east-1b, 2 files of 2.0 KiB) "
        "way 2: training-job: ml.p5.48xlarge (price not known)"
    ) in said
    assert said.count("limits of training-job: No spares.") == 1
    assert "hyperpod cannot" not in said


def test_a_dry_run_where_nodes_are_free_says_what_the_list_says(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str
) -> None:
    listed = {"hourlyUsd": 12.24, "expectedUsd": 24.48, "mostUsd": None, "asOf": "2026-09-15",
              "words": "12.24 USD an hour: list price of 2026-09-15."}  # fmt: skip
    plan = {"operation": "CreateCluster", "hourlyUsd": 0.0, "listPrice": listed}
    api.answers["POST /v1/runs"] = (200, plan)
    told = " ".join(trainyard("run", "submit", spec, "--dryrun")[1].split())
    assert "price 0.00 USD an hour" in told
    assert "on AWS 12.24 USD an hour: list price of 2026-09-15." in told
    assert "24.48 USD the run" in told
    listed |= {"hourlyUsd": None, "expectedUsd": None, "words": "not known: none is shipped."}
    told = " ".join(trainyard("run", "submit", spec, "--dryrun")[1].split())
    assert "on AWS not known: none is shipped." in told
    assert "24.48" not in told


def test_a_dry_run_on_a_cluster_that_is_there_says_so_and_explains_the_scripts_words(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str
) -> None:
    script = "export PYTHONPATH=@LIBRARY@\nexec srun @PYTHON@ @ATTEMPT_DIR@"
    api.answers["POST /v1/runs"] = (200, {"request": {}, "batchScript": script, "hourlyUsd": 0.0})
    code, out, _ = trainyard("run", "submit", spec, "--dryrun")
    told = " ".join(out.split())
    assert code == 0
    assert "The cluster is there: only the job would be submitted." in told
    assert "{}" not in told
    assert "0.00 USD an hour" in told
    assert "@LIBRARY@ /opt/trainyard/lib, where every node has Trainyard's packages" in told
