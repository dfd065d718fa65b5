"""The gate: which requests are let through, judged without a server."""

from __future__ import annotations

import pytest

from trainyard_cli.console.gate import (
    MOST_BODY_BYTES,
    OWN_HEADER,
    Pass,
    Refusal,
    body_length,
    plans,
    wrong_call,
    wrong_change,
    wrong_header,
    wrong_place,
)

OURS = Pass(4321, token="t0ken", cookie="c00kie")
HOST = {"host": "127.0.0.1:4321"}


def test_the_token_is_good_for_one_use_and_a_wrong_one_uses_nothing_up() -> None:
    ours = Pass(1, token="right")
    assert [ours.exchanged(one) for one in ("wrong", "", "right", "right")] == [
        False, False, True, False,
    ]  # fmt: skip


def test_tokens_and_cookies_are_made_anew_and_are_long() -> None:
    one, other = Pass(1), Pass(1)
    assert len({one.token, one.cookie, other.token, other.cookie}) == 4
    assert min(len(one.token), len(one.cookie)) >= 43


@pytest.mark.parametrize(
    ("cookies", "known"),
    [
        ("trainyard-console-4321=c00kie", True),
        ("a=b; trainyard-console-4321=c00kie", True),
        ("", False),
        ("trainyard-console-4321=", False),
        ("trainyard-console-4321=c00kie2", False),
        ("trainyard-console-4322=c00kie", False),
        ("xtrainyard-console-4321=c00kie", False),
        # Another server of this host may set one beside ours.
        ("trainyard-console-4321=c00kie; trainyard-console-4321=other", False),
    ],
)
def test_only_our_cookie_is_known(cookies: str, known: bool) -> None:
    assert OURS.known(cookies) is known


@pytest.mark.parametrize(
    "host", ["", "localhost:4321", "127.0.0.1", "127.0.0.1:80", "evil.example:4321", "[::1]:4321"]
)
def test_a_name_that_was_rebound_to_loopback_is_not_this_host(host: str) -> None:
    found = wrong_place(OURS, {"host": host}, "GET")
    assert found is not None
    assert found.status == 421


@pytest.mark.parametrize(
    "more",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:4322"},
        {"origin": "http://localhost:4321"},
        {"sec-fetch-site": "cross-site"},
        # Another port of loopback is the same site for a browser.
        {"sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_page_is_refused(more: dict[str, str], method: str) -> None:
    found = wrong_place(OURS, {**HOST, **more}, method)
    assert found is not None
    assert found.status == 403


def test_a_change_names_the_page_that_asks() -> None:
    assert wrong_place(OURS, HOST, "GET") is None
    assert wrong_place(OURS, {**HOST, "origin": OURS.origin}, "POST") is None
    found = wrong_place(OURS, HOST, "POST")
    assert found is not None
    assert found.status == 403


@pytest.mark.parametrize(
    "target",
    [
        "/v1/runs",
        "/v1/runs?limit=5&label=a%3Db",
        "/v1/runs/run-1:cancel?reason=a+b",
        "/v1/clusters/c/nodes/i-1:reboot",
    ],
)
def test_calls_of_the_api_pass(target: str) -> None:
    assert wrong_call("GET", target) is None


@pytest.mark.parametrize(
    "target",
    [
        "/v1/../admin", "/v1/runs/..", "/v1/runs/../../x", "/v1/./runs", "/v1//runs", "/v1/",
        "/v1/%2e%2e/admin", "/v1/runs%2f..", "/v1/runs/%00", "/v1/a\\b", "/v1/runs#x", "/v2/runs",
        "http://evil.example/v1/runs", "//evil.example/v1/runs", "@evil.example/v1/runs", "*", "",
        "/v1/runs?a=b c", "/v1/runs?a=\r\nx", "/v1/runs\r\nhost: evil", "/v1/rün",
    ],
)  # fmt: skip
def test_what_could_be_another_path_or_host_is_refused(target: str) -> None:
    found = wrong_call("GET", target)
    assert found is not None
    assert found.status == 400


@pytest.mark.parametrize(
    "method", ["HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT", "PROPFIND", "get"]
)
def test_other_methods_are_refused(method: str) -> None:
    found = wrong_call(method, "/v1/runs")
    assert found is not None
    assert found.status == 405


SENT = {OWN_HEADER: "1", "idempotency-key": "k" * 36}
OURS_TO_CHANGE = (
    "POST /v1/runs",
    "POST /v1/runs/run-1:cancel?reason=a+b",
    "POST /v1/runs/run-1:resume",
    "POST /v1/runs/run-1:export",
    "POST /v1/clusters/c-1/nodes/i-0a1:replace",
    "POST /v1/clusters/c-1/nodes/i-0a1:reboot",
    "DELETE /v1/clusters/c-1?force=true",
    "POST /v1/approvals/apr-1-1:approve",
    "POST /v1/approvals/apr-1-1:deny",
)


@pytest.mark.parametrize("change", OURS_TO_CHANGE)
def test_what_the_page_has_a_button_for_may_be_changed(change: str) -> None:
    method, target = change.split()
    assert wrong_change(method, target, SENT) is None


@pytest.mark.parametrize(
    "change",
    [
        "DELETE /v1/runs/run-1", "DELETE /v1/filesystems/f", "DELETE /v1/clusters/c/nodes",
        "DELETE /v1/schedules/s", "POST /v1/clusters", "POST /v1/clusters/c:stop",
        "POST /v1/clusters:adopt", "POST /v1/runs/run-1:share", "POST /v1/runs/run-1:transfer",
        "POST /v1/runs/a/b:cancel", "POST /v1/runs/:cancel", "POST /v1/uploads",
        "POST /v1/clusters/c/nodes/j:reboot", "POST /v1/approvals/a:approve/x", "POST /v1/runs/",
        "DELETE /v1/clusters/", "POST /v1/RUNS", "post /v1/runs",
    ],
)  # fmt: skip
def test_no_other_change_is_signed(change: str) -> None:
    method, target = change.split()
    found = wrong_change(method, target, SENT)
    assert found is not None
    assert (found.status, target in found.detail) == (403, True)


@pytest.mark.parametrize("change", OURS_TO_CHANGE)
@pytest.mark.parametrize("value", [None, "", "0", "1, 1"])
def test_a_change_has_the_header_that_no_form_can_send(change: str, value: str | None) -> None:
    method, target = change.split()
    given = {**SENT, OWN_HEADER: value or ""}
    if value is None:
        given.pop(OWN_HEADER)
    found = wrong_change(method, target, given)
    assert found is not None
    assert (found.status, OWN_HEADER in found.detail) == (403, True)


@pytest.mark.parametrize("key", ["", "short", "k" * 129, "k" * 20 + " ", "k" * 20 + "\n", "é" * 20])
def test_a_change_has_a_key_of_its_own(key: str) -> None:
    found = wrong_change("POST", "/v1/runs", {**SENT, "idempotency-key": key})
    assert found is not None
    assert (found.status, "idempotency-key" in found.detail) == (400, True)


@pytest.mark.parametrize("value", ["\xe9", "a\r\n b", "a\x00", "a" * 1025, "\x7f"])
def test_a_header_that_goes_on_can_be_signed(value: str) -> None:
    found = wrong_header({"if-match": value}, ("if-match",))
    assert found is not None
    assert (found.status, found.detail[:9]) == (400, "if-match:")
    assert wrong_header({"cookie": value, "if-match": '"1-a"'}, ("if-match", "if-range")) is None


def test_a_plan_needs_no_key_and_reading_needs_nothing() -> None:
    assert wrong_change("POST", "/v1/runs?dryrun=true", {OWN_HEADER: "1"}) is None
    assert wrong_change("GET", "/v1/filesystems", {}) is None
    for query in ("", "dryrun=false", "dryrun=true&dryrun=false", "a=b&dryrun=true"):
        assert not plans(query)


def test_a_target_may_not_be_endless() -> None:
    found = wrong_call("GET", "/v1/runs?" + "a" * 9000)
    assert found is not None
    assert found.status == 414


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-length": str(MOST_BODY_BYTES + 1)}, 413),
        ({"content-length": "9" * 15}, 413),
        ({"content-length": "-1"}, 400),
        ({"content-length": "1e3"}, 400),
        ({"transfer-encoding": "chunked"}, 411),
        ({"transfer-encoding": "chunked", "content-length": "3"}, 411),
    ],
)
def test_a_body_says_its_length_and_has_a_bound(headers: dict[str, str], status: int) -> None:
    found = body_length(headers)
    assert isinstance(found, Refusal)
    assert found.status == status


def test_a_body_of_the_bound_is_taken_and_none_is_none() -> None:
    assert body_length({"content-length": str(MOST_BODY_BYTES)}) == MOST_BODY_BYTES
    assert body_length({}) == 0
