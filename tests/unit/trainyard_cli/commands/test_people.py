"""Whoami, the audit list, owners in lists, and how things are shared and given away."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_api import CLUSTER, RUN, FakeApi, T, a_run

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]
ALICE = {
    "id": "AIDA1",
    "arn": "arn:aws:iam::111122223333:user/alice",
    "account": "111122223333",
    "name": "alice[bold]",
    "kind": "user",
}


def entry(**fields: Any) -> dict[str, Any]:
    return {
        "id": "r-1",
        "at": T,
        "who": ALICE,
        "what": "run.cancel",
        "subject": f"run/{RUN}",
        "reason": "wrong data",
        "sourceIp": "203.0.113.7",
        "userAgent": "x",
        "outcome": "done",
        "detail": "",
        **fields,
    }


def test_whoami_shows_the_person_and_the_role(api: FakeApi, trainyard: Command) -> None:
    found = {"person": ALICE, "role": "member", "everybodyIsAdmin": False}
    api.answers["GET /v1/whoami"] = (200, found)
    code, out, _ = trainyard("whoami")
    assert code == 0
    assert "alice[bold]" in out
    assert ALICE["arn"] in out
    assert "member" in out
    assert json.loads(trainyard("whoami", "--json")[1]) == found
    api.answers["GET /v1/whoami"] = (200, {**found, "role": None})
    assert "none" in trainyard("whoami")[1]
    api.answers["GET /v1/whoami"] = (200, {**found, "role": "admin", "everybodyIsAdmin": True})
    assert "Admins is *" in trainyard("whoami")[1]


def test_the_audit_list_is_asked_for_with_its_filters_and_shown_newest_first(
    api: FakeApi, trainyard: Command
) -> None:
    own = entry(id="o", who=None, what="node.replace", outcome="decided", sourceIp=None)
    api.answers["GET /v1/audit"] = (200, {"entries": [entry(), own], "nextToken": None})
    code, out, _ = trainyard("audit", "--since", "2d", "--who", "alice", "--what", "run")
    assert code == 0
    assert "wrong data" in out
    assert "203.0.113.7" in out
    assert "Trainyard" in out
    query = api.requests[-1]["query"]
    assert (query["who"], query["what"]) == ("alice", "run")
    assert query["since"].endswith("+00:00")
    assert len(json.loads(trainyard("audit", "--json")[1])["entries"]) == 2


def test_an_empty_page_of_the_audit_list_is_not_its_end(api: FakeApi, trainyard: Command) -> None:
    api.answers["GET /v1/audit"] = [
        (200, {"entries": [], "nextToken": "more"}),
        (200, {"entries": [entry()], "nextToken": None}),
    ]
    assert "wrong data" in trainyard("audit")[1]
    api.answers["GET /v1/audit"] = (200, {"entries": [], "nextToken": None})
    assert "Nothing was changed" in trainyard("audit")[1]


def test_lists_show_owners_and_one_without_an_owner_is_shown_all_the_same(
    api: FakeApi, trainyard: Command
) -> None:
    runs = [a_run(createdBy=ALICE), a_run()]
    api.answers |= {
        "GET /v1/runs": (200, {"runs": runs, "nextToken": None}),
        "GET /v1/clusters": (
            200,
            {"clusters": [{**CLUSTER, "createdBy": ALICE}, CLUSTER], "nextToken": None},
        ),
    }
    code, out, _ = trainyard("run", "ls", "--mine")
    assert (code, "alice[bold]" in out) == (0, True)
    assert api.requests[-1]["query"]["mine"] == "true"
    trainyard("run", "ls", "--all")
    assert "mine" not in api.requests[-1]["query"]
    assert "alice[bold]" in trainyard("cluster", "ls")[1]


def test_a_cancel_and_a_deletion_carry_their_reason(api: FakeApi, trainyard: Command) -> None:
    api.answers |= {
        f"POST /v1/runs/{RUN}:cancel": (202, a_run()),
        "DELETE /v1/clusters/mine-abc": (202, CLUSTER),
    }
    assert trainyard("run", "cancel", RUN, "--yes", "--reason", "wrong data")[0] == 0
    assert api.requests[-1]["query"] == {"reason": "wrong data"}
    assert trainyard("cluster", "delete", "mine-abc", "--yes", "--reason", "idle")[0] == 0
    assert api.requests[-1]["query"] == {"reason": "idle"}


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        ("run", RUN, f"/v1/runs/{RUN}"),
        ("cluster", "big", "/v1/clusters/big"),
        ("filesystem", "lab", "/v1/filesystems/lab"),
    ],
)
def test_each_kind_of_thing_is_shared_and_given_away(
    api: FakeApi, trainyard: Command, kind: str, name: str, path: str
) -> None:
    api.answers |= {
        f"POST {path}:share": (200, {"sharedWith": []}),
        f"POST {path}:transfer": (200, {"createdBy": ALICE}),
    }
    arns = [ALICE["arn"], "arn:aws:iam::111122223333:role/R"]
    shared = trainyard(kind, "share", name, "--with", arns[0], "--with", arns[1])
    assert (shared[0], arns[0] in shared[1]) == (0, True)
    assert json.loads(api.requests[-1]["body"]) == {"sharedWith": arns}
    assert trainyard(kind, "share", name, "--nobody")[0] == 0
    assert json.loads(api.requests[-1]["body"]) == {"sharedWith": []}
    given = trainyard(kind, "transfer", name, "--to", arns[0], "--reason", "left", "--yes")
    assert (given[0], arns[0] in given[1]) == (0, True)
    assert json.loads(api.requests[-1]["body"]) == {"to": arns[0]}
    assert api.requests[-1]["query"] == {"reason": "left"}
    trainyard(kind, "transfer", name, "--yes")
    assert json.loads(api.requests[-1]["body"]) == {}


def test_sharing_with_nobody_named_is_a_mistake(api: FakeApi, trainyard: Command) -> None:
    for arguments in ((), ("--nobody", "--with", "x")):
        code, _, err = trainyard("run", "share", RUN, *arguments)
        assert (code, "--nobody" in err) == (2, True)
    assert api.requests == []


def test_a_refusal_says_whose_it_is_and_what_to_do(api: FakeApi, trainyard: Command) -> None:
    problem = {
        "type": "urn:trainyard:problem:not-allowed",
        "title": "You may not do that",
        "status": 403,
        "code": "not-allowed",
        "detail": "Run 'r' belongs to alice (arn).",
        "nextStep": "Ask alice.",
    }
    api.answers[f"POST /v1/runs/{RUN}:cancel"] = (403, problem)
    code, _, err = trainyard("run", "cancel", RUN, "--yes")
    assert code != 0
    assert "belongs to alice" in err
    assert "Ask alice." in err


def test_a_user_of_the_local_cloud_signs_with_the_key_that_was_written(
    api: FakeApi, trainyard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_LOCAL_USER", "bob")
    local = json.loads((tmp_path / "local.json").read_text())
    (tmp_path / "local.json").write_text(json.dumps({**local, "stateDir": str(tmp_path)}))
    code, _, err = trainyard("run", "ls")
    assert code != 0
    assert "trainyard local user add" in err
    (tmp_path / "people").mkdir()
    key = {"accessKeyId": "AKIABOB", "secretAccessKey": "s"}
    (tmp_path / "people/bob.json").write_text(json.dumps(key))
    trainyard("run", "ls")
    sent = {name.lower(): value for name, value in api.requests[-1]["headers"].items()}
    assert "Credential=AKIABOB/" in sent["authorization"]
