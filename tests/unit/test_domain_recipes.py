"""No string of a user's ever meets a shell: the batch script is fixed text, everything else travels as data."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainyard.domain import names
from trainyard.domain.recipes import batch_script, job_bundle
from trainyard.domain.records import Attempt, Run
from trainyard_contracts.files import JobBundle
from trainyard_contracts.specs import RunSpec

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)
RUN = "run-01jd0000000000000000000000"
EVIL = "; rm -rf / #$(reboot)`id`\n#SBATCH --uid=0"


def run(**job: object) -> Run:
    spec = RunSpec.model_validate({"name": "demo", "cluster": {"name": "c"}, "job": {"nodes": 2, "module": "train", **job}})
    return Run(id=RUN, name="demo", spec=spec, created_at=NOW, updated_at=NOW, cluster_name="c")


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(blacklist_characters="\x00", blacklist_categories=["Cs"]), max_size=100))
def test_shell_metacharacters_arrive_as_data(text: str) -> None:
    given_run = run(arguments=[text, EVIL], environment={"A": text, "B": EVIL}, files={"a.py": text})
    bundle = job_bundle(given_run, Attempt(number=3))
    assert bundle.batch_script == batch_script(RUN, 3, 2)
    again = JobBundle.model_validate(json.loads(bundle.model_dump_json(by_alias=True)))
    assert again.arguments == [text, EVIL]
    assert again.environment == {"A": text, "B": EVIL}
    assert again.files == {"a.py": text}


def test_the_batch_script_is_what_recovery_relies_on() -> None:
    script = batch_script(RUN, 3, 2)
    for needed in ("--no-requeue", "--open-mode=append", "--exclusive", "--kill-on-bad-exit=1", "--wait=0", "--export=ALL", "--nodes=2"):
        assert needed in script
    assert "exec srun" in script
    assert script.rstrip().endswith("@PYTHON@ -m trainyard_trainers.launch @ATTEMPT_DIR@")


def test_the_bundle_says_which_nodes_to_leave_out_and_to_set_down() -> None:
    bundle = job_bundle(run(), Attempt(number=2, exclude=["ip-1", "ip-2"], down=["ip-1"]))
    assert (bundle.exclude_nodes, bundle.down_nodes, bundle.program) == (["ip-1", "ip-2"], ["ip-1"], ["-m", "train"])


@pytest.mark.parametrize("name", ["a", "a" * 63, "a" * 55 + "-" + "b" * 7])
def test_a_cluster_made_for_a_run_has_a_valid_name(name: str) -> None:
    made = names.cluster_for_run(name, RUN)
    assert len(made) <= 63
    assert made.endswith("-000000")
    assert "--" not in made[-8:]
