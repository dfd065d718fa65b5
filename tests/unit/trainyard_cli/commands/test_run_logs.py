"""The logs of a run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.fake_api import RUN, FakeApi, a_run, an_event

pytestmark = pytest.mark.real


def test_who_asks_for_a_job_log_that_says_nothing_is_told_of_the_other_one(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers[f"GET /v1/runs/{RUN}/logs"] = (
        200,
        {"kind": "job", "attempt": 1, "source": "none", "text": ""},
    )
    _, _, err = trainyard("run", "logs", RUN)
    assert f"run logs --kind lifecycle {RUN}" in err
    _, _, err = trainyard("run", "logs", RUN, "--kind", "lifecycle")
    assert "Nothing is in the lifecycle log, or there is none." in err


def test_what_a_job_wrote_is_shown_and_never_obeyed(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b1A"
    problem = {"title": f"Failed {evil}", "detail": evil, "nextStep": evil, "code": "same-error"}
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run("Failed", name=evil, reason=evil, problem=problem)),
        f"GET /v1/runs/{RUN}/events": (200, {"events": [an_event(1, evil)]}),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
        f"GET /v1/runs/{RUN}/logs": (
            200,
            {"kind": "job", "attempt": 1, "source": "node", "text": evil},
        ),
        "GET /v1/runs": (200, {"runs": [a_run(name=evil, reason=evil)]}),
        f"POST /v1/runs/{RUN}:cancel": (409, problem),
    }
    calls = [
        ("show", RUN),
        ("events", RUN),
        ("logs", RUN),
        ("ls",),
        ("watch", RUN),
        ("cancel", RUN),
    ]
    for call in [*calls, *[(*call, "--json") for call in calls]]:
        _, out, err = trainyard("run", *call)
        assert "owned" in out + err
        assert not set(out + err) & {"\x1b", "\x07", "\x9b"}, call


def test_a_log_is_searched_and_nothing_found_is_said(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    said = {"kind": "job", "attempt": 1, "source": "s3", "text": ""}
    api.answers[f"GET /v1/runs/{RUN}/logs"] = (200, said)
    code, _, err = trainyard("run", "logs", RUN, "--grep", "[nan]", "--attempt", "1")
    assert (code, "No line of the job log has '[nan]' in it." in err) == (0, True)
    query = api.requests[-1]["query"]
    assert (query["contains"], query["attempt"]) == ("[nan]", "1")
    code, _, err = trainyard("run", "logs", RUN, "--since", "600")
    assert (code, "Nothing was printed in 600 seconds" in err) == (0, True)
    assert api.requests[-1]["query"]["sinceSeconds"] == "600"


def test_one_ranks_log_is_asked_for_and_one_node_goes_not_with_it(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    said = {"kind": "job", "attempt": 1, "source": "s3", "text": "of rank 0"}
    api.answers[f"GET /v1/runs/{RUN}/logs"] = (200, said)
    code, out, _ = trainyard("run", "logs", RUN, "--rank", "0")
    assert (code, out) == (0, "of rank 0\n")
    assert api.requests[-1]["query"]["rank"] == "0"
    assert "node" not in api.requests[-1]["query"]
    trainyard("run", "logs", RUN, "--node", "ip-1")
    assert api.requests[-1]["query"]["node"] == "ip-1"
    code, _, err = trainyard("run", "logs", RUN, "--node", "ip-1", "--rank", "0")
    assert (code, "goes not with --rank" in err) == (2, True)
    api.answers[f"GET /v1/runs/{RUN}/logs"] = (200, {**said, "text": ""})
    assert "Nothing is in the log of rank 3" in trainyard("run", "logs", RUN, "--rank", "3")[2]
    assert "in the logs of node ip-1" in trainyard("run", "logs", RUN, "--node", "ip-1")[2]
