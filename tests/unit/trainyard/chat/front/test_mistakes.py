"""What is said in a form is what the spec would say, and nothing that is right is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.memory import World
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.runs.submit_run import submit_run
from trainyard.chat.drafts import FIELDS, changed, spec_of
from trainyard.chat.front.mistakes import DENY, MOST_REASON, SUBMIT, mistakes
from trainyard.domain.errors import InvalidRequest
from trainyard.domain.records import Run
from trainyard_contracts.people import named


def _run() -> Run:
    """On a cluster that is there: how many nodes it has is not for the spec to say."""
    world = World()
    make_cluster(Story(world))
    spec = run_spec(cluster={"name": "shared"})
    return submit_run(world.ports, spec, by=named("arn:aws:iam::111122223333:user/alice"))


RUN = _run()
EDGES = {
    "name": ["a", "a" * 63, "a" * 64, "a-b", "-a", "a-", "a_b", "", "a b", "é"],
    "nodes": ["1", "0", "-1", "6758", "6759", "2.5", "two", "", "1e3", " 2 ", "9" * 5000],
    "arguments": ["", "--steps 2", "'open", "“a b”", "a" * 300],
    "hours": ["1", "0", "-1", "0.0166", "0.0167", "1440", "1440.1", "nan", "inf", "", "x", "2,5"],
    "budget": ["", "1", "0", "-1", "0.01", "1e9", "1.1e9", "nan", "inf", "x", "$5"],
    "priority": ["0", "-100", "100", "101", "-101", "1.5", "", "high"],
}


def refused(name: str, text: str) -> str:
    """The words of the worker, which has the run and its spec; '' of none."""
    try:
        spec_of(RUN, changed(RUN, {name: text}))
    except InvalidRequest as wrong:
        return wrong.errors[0].message
    return ""


def test_every_field_of_the_form_is_judged_but_those_that_are_not_there() -> None:
    assert list(EDGES) == list(FIELDS)
    assert mistakes(SUBMIT, {}) == {}
    assert mistakes("trainyard.other", {"nodes": "x"}) == {}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in EDGES.items() for text in texts]
)
def test_at_the_edges_the_form_says_what_the_worker_would(name: str, text: str) -> None:
    said = mistakes(SUBMIT, {name: text})
    assert bool(said) == bool(refused(name, text)), (said, refused(name, text))


@given(name=st.sampled_from(sorted(EDGES)), text=st.text(max_size=20))
def test_what_the_worker_takes_the_form_takes(name: str, text: str) -> None:
    if not refused(name, text):
        assert mistakes(SUBMIT, {name: text}) == {}


@given(values=st.dictionaries(st.sampled_from(sorted(EDGES)), st.text()))
def test_a_mistake_is_a_sentence_of_its_own_field(values: dict[str, str]) -> None:
    for name, words in mistakes(SUBMIT, values).items():
        assert name in values
        assert words[0].isupper()
        assert words.endswith(".")


def test_a_denial_says_why_in_few_words() -> None:
    assert mistakes(DENY, {"reason": " \n"}) == {
        "reason": "Must say why: the one who asked reads it."
    }
    assert "reason" in mistakes(DENY, {"reason": "x" * (MOST_REASON + 1)})
    assert mistakes(DENY, {"reason": "too dear"}) == {}
