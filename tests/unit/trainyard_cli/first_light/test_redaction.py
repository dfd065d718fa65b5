"""What must not leave an account never comes out of first-light's file, wherever it stands."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_cli.first_light.redaction import Redactor

BASE64 = string.ascii_letters + string.digits + "/+"
LOWER = string.ascii_lowercase
HEX = "0123456789abcdef"


def drawn(alphabet: str, least: int, most: int | None = None) -> st.SearchStrategy[str]:
    return st.text(alphabet=alphabet, min_size=least, max_size=most or least)


#: A canary of each kind: a text of a document, and the part of it that must not come out.
CANARIES: dict[str, st.SearchStrategy[tuple[str, str]]] = {
    "account id": drawn(string.digits, 12).map(lambda one: (one, one)),
    "account id as people write it": drawn(string.digits, 12).map(
        lambda one: (f"{one[:4]}-{one[4:8]}-{one[8:]}",) * 2
    ),
    "account of an ARN": drawn(string.digits, 12).map(
        lambda one: (f"arn:aws:iam::{one}:role/trainyard", one)
    ),
    "account of a bucket": drawn(string.digits, 12).map(
        lambda one: (f"sagemaker-trainyard-{one}-us-east-1", one)
    ),
    "access key": st.tuples(
        st.sampled_from(["AKIA", "ASIA", "AROA"]),
        drawn(string.ascii_uppercase + string.digits, 16),
    ).map(lambda one: ("".join(one),) * 2),
    "secret key": drawn(BASE64, 40).map(lambda one: (one, one)),
    "session token": drawn(BASE64, 200, 400).map(lambda one: (f"{one}==", one)),
    "JWT": drawn(string.ascii_letters + string.digits + "_-", 20, 60).map(
        lambda one: (f"eyJhbGciOiJI.{one}.{one}", one)
    ),
    "cluster's key": drawn(HEX, 64).map(lambda one: (one, one)),
    "private key": drawn(BASE64, 64).map(
        lambda one: (
            f"-----BEGIN OPENSSH PRIVATE KEY-----\n{one[:30]}\n{one[30:]}\n"
            "-----END OPENSSH PRIVATE KEY-----",
            one[:30],
        )
    ),
    "password in a line": drawn(string.ascii_letters + string.digits, 8, 20).map(
        lambda one: (f"DB_PASSWORD={one} next", one)
    ),
    "token in JSON": drawn(string.ascii_letters + string.digits, 8, 20).map(
        lambda one: (f'{{"adminToken": "{one}"}}', one)
    ),
    "signed header": drawn(HEX, 16).map(lambda one: (f"authorization: Bearer {one}", one)),
    "e-mail": st.tuples(drawn(LOWER, 3, 12), drawn(LOWER, 3, 12)).map(
        lambda one: (f"{one[0]}.x@{one[1]}.example", f"{one[0]}.x@{one[1]}")
    ),
    "end of a public key": st.tuples(drawn(LOWER, 4, 12), drawn(LOWER, 4, 12)).map(
        lambda one: (f"{one[0]}@{one[1]}",) * 2
    ),
    "host of AWS": drawn(LOWER + string.digits, 10).map(
        lambda one: (f"https://{one}.execute-api.us-west-2.amazonaws.com/x", one)
    ),
    "host of a file system": drawn(HEX, 17).map(
        lambda one: (f"fs-{one}.fsx.us-east-1.amazonaws.com@tcp:/abc", one)
    ),
    "host of a node": st.tuples(*[st.integers(0, 255)] * 4).map(
        lambda one: (f"ip-{'-'.join(map(str, one))}",) * 2
    ),
    "host within a VPC": drawn(LOWER, 5, 12).map(
        lambda one: (f"{one}.us-west-2.compute.internal", one)
    ),
    "address": st.tuples(*[st.integers(11, 255)] * 4).map(
        lambda one: (".".join(map(str, one)),) * 2
    ),
}
PLAIN = st.sampled_from(["", "the node said ", "(", '"', "x=", "\n", "failed: ", "…"])


def places(text: str, other: str) -> Any:
    """The text everywhere in a document: as a value, a key, in lists, in a log's line."""
    return {
        "words": f"{other}{text}",
        text: [text, {"deep": [f"{other}{text} and {text}"]}],
        "lifecycleLogs": {f"LifecycleConfig/workers/{text}": [text, f"{other}{text}"]},
        "timeline": [{"message": text, "data": {"n": 1, "why": None, "whole": True}}],
    }


@pytest.mark.parametrize("kind", CANARIES)
def test_a_canary_never_comes_out_wherever_it_was_planted(kind: str) -> None:
    @given(CANARIES[kind], PLAIN)
    def planted(canary: tuple[str, str], other: str) -> None:
        text, secret = canary
        written = json.dumps(Redactor().document(places(text, other)), ensure_ascii=False)
        # hypothesis draws words of our sources, too, so a password may be one of every document.
        around = json.dumps(places("", other), ensure_ascii=False)
        for spelt in (secret, json.dumps(secret)[1:-1]):
            assert written.count(spelt) <= around.count(spelt)

    planted()


@given(st.dictionaries(
    st.sampled_from(["adminToken", "secretAccessKey", "AWS_SESSION_TOKEN", "password",
                     "TokenValue", "Signature", "apiKey"]),
    drawn(LOWER, 4, 30), min_size=1))  # fmt: skip
def test_the_value_of_a_field_that_is_named_like_a_secret_goes_whatever_it_looks_like(
    fields: dict[str, str],
) -> None:
    redacted = Redactor().document({"run": {**fields}})
    assert all(value.startswith("<secret-") for value in redacted["run"].values())


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
        lambda one: st.lists(one) | st.dictionaries(st.text(), one),
    )
)
def test_what_was_redacted_once_is_not_changed_by_another_time(document: Any) -> None:
    once = Redactor().document(document)
    assert Redactor(seen=once).document(once) == once


def test_the_same_text_has_the_same_stand_in_and_another_one_another() -> None:
    redacted = Redactor().document(
        ["111111111111", "222222222222", "arn:aws:iam::111111111111:role/a"]
    )
    assert redacted == ["<account-1>", "<account-2>", "arn:aws:iam::<account-1>:role/a"]


def test_a_number_that_is_an_account_goes_too() -> None:
    assert Redactor().document({"AccountId": 123456789012, "bytes": 12345678901}) == {
        "AccountId": "<account-1>",
        "bytes": 12345678901,
    }


def test_stand_ins_of_a_file_that_is_gone_on_with_are_not_given_twice() -> None:
    before = {"words": "<account-4> made it", "nodes": ["<host-2>"]}
    redactor = Redactor(seen=before)
    assert redactor.document({**before, "more": "999999999999 on ip-10-0-0-1"}) == {
        "words": "<account-4> made it", "nodes": ["<host-2>"], "more": "<account-5> on <host-3>",
    }  # fmt: skip


def test_words_of_this_very_run_go_wherever_they_stand_a_machines_name_only_as_a_whole_word() -> (
    None
):
    redactor = Redactor([("host", "train"), ("secret", "hunter22")])
    assert (
        redactor.text("train said: training; xhunter22x") == "<host-1> said: training; x<secret-1>x"
    )


@pytest.mark.parametrize(
    "text",
    [
        "first-light-abcdefgh", "run-01m81bp1ry4hk8ekp1tf1vr9ce", "i-0123456789abcdef0",
        "2026-11-22T10:08:39.679+00:00", "A-018", "LifecycleConfig/workers/i-0123456789abcdef0",
        "/aws/sagemaker/Clusters/first-light-abcdefgh/zd1uzacxebtm", "slurm.conf", "12:34:56.789",
        "subnet-0123456789abcdef0", "the node is down: no token bucket", "sagemaker.amazonaws.com",
        "127.0.0.1", "torch==2.13.0",
    ],
)  # fmt: skip
def test_what_a_reader_needs_stays_as_it_is(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    "part", ["a-b.", "a", "1:", "1.", "token=", "x@", "-----BEGIN PRIVATE KEY-----", "eyJ", "/"]
)
def test_a_long_text_of_what_looks_like_the_beginning_of_a_secret_is_read_to_its_end(
    part: str,
) -> None:
    """Patterns whose work grows with the square of the text would need an hour for this one."""
    text = part * (400_000 // len(part)) + " 123456789012 me@mine.example"
    redacted = Redactor().text(text)
    assert "123456789012" not in redacted
    assert "mine" not in redacted


def test_where_a_file_system_is_mounted_from_holds_no_e_mail() -> None:
    assert (
        Redactor().text("fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com@tcp:/abc of me@tcp.org")
        == "<host-1>@tcp:/abc of <e-mail-1>"
    )
