"""Webhooks hear of a run's story: each thing, whatever dies or hangs on the way."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from tests.support.memory import Died, World
from tests.support.story import Story

from trainyard.app.sweep import notices as notices_module
from trainyard.app.sweep.sweep import sweep
from trainyard.app.sweep.webhooks import MOST_FAILING
from trainyard.app.webhooks.deliver import Delivered, deliver
from trainyard.app.webhooks.manage import (
    MOST_WEBHOOKS,
    add_webhook,
    redeliver,
    remove_webhook,
    rotate_webhook,
    secret_name,
)
from trainyard.domain.errors import (
    ConflictError,
    IdempotencyConflict,
    InvalidRequest,
    RetryableError,
    TooManyWebhooks,
    WebhookNotFound,
)
from trainyard.domain.webhook_answers import Answer
from trainyard.domain.webhook_records import Delivery, Webhook
from trainyard.domain.webhook_tries import MOST_IN_A_ROW
from trainyard_contracts.webhooks import WebhookSpec

URL = "https://example.com/x"


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def world(story: Story) -> World:
    return story.world


def added(world: World, **fields: Any) -> tuple[Webhook, str]:
    spec = WebhookSpec(**{"url": URL, "types": ["run.submitted"], **fields})
    webhook, secret = add_webhook(world.ports, spec, idempotency_key=None)
    assert secret is not None
    return webhook, secret


def sent(world: World) -> list[Delivered]:
    """One sweep, and a call of the sender for each delivery that it found due."""
    sweep(world.ports)
    due = list(dict.fromkeys(world.webhooks.dispatched))
    world.webhooks.dispatched.clear()
    return [deliver(world.ports, *one, pause=world.clock.tick) for one in due]


def only_delivery(world: World) -> Delivery:
    (found,) = world.webhooks.sent_to.values()
    return found


def submitted(story: Story, **fields: Any) -> None:
    story.world.clock.tick(1)
    story.submit(**fields)
    story.rest()


def test_a_run_is_told_signed_to_each_receiver_that_asked(story: Story, world: World) -> None:
    _, secret = added(world)
    added(world, url="https://example.com/failures", types=["run.failed"])
    added(world, url="https://example.com/vision", labels={"team": "vision"})
    submitted(story, labels={"team": "vision"})
    assert {one.result for one in sent(world)} == {"delivered"}
    assert sorted(url for url, _, _ in world.receivers.posted) == [
        "https://example.com/vision", URL
    ]  # fmt: skip
    body = next(sent for url, _, sent in world.receivers.posted if url == URL)
    assert json.loads(body)["type"] == "run.submitted"
    assert json.loads(body)["data"]["run"]["id"] == story.run.id
    kept = world.secrets.written
    assert any(secret in text for text in kept.values())
    assert sent(world) == []


def test_the_second_try_is_made_soon_by_the_same_call(story: Story, world: World) -> None:
    added(world)
    submitted(story)
    world.receivers.answers = [Answer(None, "no answer"), Answer(200)]
    assert [one.result for one in sent(world)] == ["delivered"]
    first, second = only_delivery(world).tries
    assert (first.said, second.status) == ("no answer", 200)
    assert 5 <= (second.at - first.at).total_seconds() < 6
    ids = {headers["webhook-id"] for _, headers, _ in world.receivers.posted}
    assert len(ids) == 1


def test_a_delivery_that_is_called_for_twice_is_tried_once(story: Story, world: World) -> None:
    webhook, _ = added(world)
    submitted(story)
    sweep(world.ports)
    (one,) = world.webhooks.dispatched
    assert deliver(world.ports, *one).result == "delivered"
    assert deliver(world.ports, *one).reason == "it is not due"
    assert len(world.receivers.posted) == 1
    assert deliver(world.ports, webhook.id, "msg-none").result == "dropped"
    assert deliver(world.ports, "wh-none", "msg-none").result == "dropped"


@pytest.mark.parametrize("after", [False, True])
def test_whatever_dies_on_the_way_it_comes_at_least_once(after: bool) -> None:
    """The process dies at each call of a port in turn, and the minutes after it go on."""
    call, died = 0, True
    while died:
        call += 1
        story = Story()
        added(story.world)
        submitted(story)
        story.world.fuse.arm(call, after=after)
        try:
            sent(story.world)
            died = False
        except Died:
            pass
        story.world.fuse.arm(None)
        for _ in range(3):
            story.world.clock.tick(91)
            sent(story.world)
        assert only_delivery(story.world).state == "delivered", call
    assert call > 20


def test_one_receiver_in_trouble_delays_no_other(story: Story, world: World) -> None:
    slow, _ = added(world, types=[])
    added(world, url="https://example.com/quick", types=[])
    submitted(story)
    sweep(world.ports)
    by_hook = dict(world.webhooks.dispatched)
    assert len(by_hook) == 2  # a call for each
    world.receivers.answers = [Answer(503, retry_after="3600")]
    assert deliver(world.ports, slow.id, by_hook[slow.id]).result == "slow"
    assert world.webhooks.stored[slow.id].held_until is not None
    world.receivers.answers = [Answer(200)]
    world.webhooks.dispatched.clear()
    world.clock.tick(60)
    story.ready()
    results = sent(world)
    assert results
    assert slow.id not in {one.webhook for one in results}
    world.clock.tick(3600)
    assert slow.id in {one.webhook for one in sent(world)}


def test_a_receiver_that_fails_for_a_day_is_disabled_and_people_hear_of_it(
    story: Story, world: World
) -> None:
    webhook, _ = added(world, types=["run.submitted"])
    submitted(story)
    world.receivers.answers = [Answer(500)]
    for _ in range(40):
        sent(world)
        world.clock.tick(3600)
    after = world.webhooks.stored[webhook.id]
    assert after.status == "Disabled"
    assert "took nothing for a day" in after.disabled_because
    heard = [event for event in world.notices.events if event.type == "webhook.disabled"]
    assert [event.webhook.id for event in heard if event.webhook] == [webhook.id]
    tries = len(world.receivers.posted)
    assert sent(world) == []

    world.receivers.answers = [Answer(200)]
    redeliver(world.ports, webhook.id, only_delivery(world).id)
    assert [one.result for one in sent(world)] == ["delivered"]
    assert world.webhooks.stored[webhook.id].status == "Active"
    assert world.webhooks.stored[webhook.id].failing_since is None
    assert len(world.receivers.posted) == tries + 1


def test_a_receiver_that_answers_410_is_left_alone(story: Story, world: World) -> None:
    webhook, _ = added(world)
    submitted(story)
    world.receivers.answers = [Answer(410)]
    assert [one.result for one in sent(world)] == ["gone"]
    assert world.webhooks.stored[webhook.id].status == "Disabled"
    assert only_delivery(world).state == "failed"
    assert deliver(world.ports, webhook.id, only_delivery(world).id).reason == (
        "the webhook is Disabled"
    )


def test_a_rotated_secret_signs_beside_the_new_one(story: Story, world: World) -> None:
    webhook, before = added(world)
    rotated, after = rotate_webhook(world.ports, webhook.id)
    assert rotated.rotated_at is not None
    submitted(story)
    sent(world)
    (_, headers, body) = world.receivers.posted[-1]
    for secret in (before, after):
        key = Verifier(secret)
        at = world.clock.now()
        assert key.sign(headers["webhook-id"], at, body.decode()) in headers["webhook-signature"]


def test_a_secret_that_cannot_be_read_sends_nothing_and_says_so(story: Story, world: World) -> None:
    webhook, _ = added(world)
    world.secrets.written[secret_name(world.ports, webhook.id)] = "whsec_by-hand"
    submitted(story)
    sent(world)
    assert world.receivers.posted == []
    assert "rotate it" in only_delivery(world).tries[-1].said
    rotate_webhook(world.ports, webhook.id)
    world.clock.tick(3600)
    assert [one.result for one in sent(world)] == ["delivered"]


def test_one_that_is_removed_is_sent_nothing_and_has_no_secret(story: Story, world: World) -> None:
    webhook, _ = added(world)
    submitted(story)
    sweep(world.ports)
    remove_webhook(world.ports, webhook.id)
    remove_webhook(world.ports, webhook.id)
    assert world.secrets.written == {}
    assert [deliver(world.ports, *one).reason for one in world.webhooks.dispatched] == [
        "the webhook is Deleted"
    ]
    assert world.receivers.posted == []
    with pytest.raises(WebhookNotFound):
        rotate_webhook(world.ports, webhook.id)


def test_a_key_makes_one_webhook_whose_secret_is_shown_once(world: World) -> None:
    spec = WebhookSpec(url=URL)
    made, secret = add_webhook(world.ports, spec, idempotency_key="ann/one")
    again, none = add_webhook(world.ports, spec, idempotency_key="ann/one")
    assert secret is not None
    assert (again, none) == (made, None)
    other = WebhookSpec(url="https://example.com/other")
    with pytest.raises(IdempotencyConflict):
        add_webhook(world.ports, other, idempotency_key="ann/one")


def test_an_address_within_is_refused_with_the_field(world: World) -> None:
    spec = WebhookSpec(url="https://169.254.169.254/latest")
    with pytest.raises(InvalidRequest) as refused:
        add_webhook(world.ports, spec, idempotency_key=None)
    assert [one.field for one in refused.value.errors] == ["url"]
    assert "metadata" in refused.value.detail


def test_there_is_an_end_to_how_many_there_are(world: World) -> None:
    for number in range(MOST_WEBHOOKS):
        added(world, url=f"https://example.com/{number}")
    with pytest.raises(TooManyWebhooks, match="50 already"):
        added(world)


def test_the_bus_being_away_delays_no_webhook(story: Story, world: World) -> None:
    added(world)
    submitted(story)
    world.notices.away = True
    assert [one.result for one in sent(world)] == ["delivered"]
    world.notices.away = False
    world.clock.tick(60)
    assert sent(world) == []
    assert len(world.receivers.posted) == 1


def test_a_receiver_that_makes_every_try_die_has_an_end(
    story: Story, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process dies amid each try, so no answer is ever written down."""
    added(world)
    submitted(story)

    def dies(*_: Any) -> Answer:
        world.receivers.posted.append(("", {}, b""))
        raise Died("post")

    monkeypatch.setattr(world.receivers, "post", dies)
    for _ in range(90):
        with contextlib.suppress(Died):
            sent(world)
        world.clock.tick(3600)
    assert len(world.receivers.posted) == MOST_IN_A_ROW
    found = only_delivery(world)
    assert (found.state, found.due) == ("failed", None)
    assert "died" in found.tries[-1].said


def test_a_secret_that_cannot_be_asked_for_costs_no_try(
    story: Story, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(world)
    submitted(story)

    def away(*_: Any, **__: Any) -> str:
        raise RetryableError("Secrets Manager is away")

    with monkeypatch.context() as patched:
        patched.setattr(world.secrets, "read", away)
        for _ in range(20):
            with contextlib.suppress(RetryableError):
                sent(world)
            world.clock.tick(91)
    assert only_delivery(world).attempt == 0
    assert [one.result for one in sent(world)] == ["delivered"]


def test_one_that_is_removed_meanwhile_is_not_brought_back(
    story: Story, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook, _ = added(world)
    submitted(story)
    sent(world)
    stored = world.webhooks.delivery

    def removed_before(webhook_id: str, delivery_id: str) -> Delivery:
        monkeypatch.setattr(world.webhooks, "delivery", stored)
        remove_webhook(world.ports, webhook_id)
        return stored(webhook_id, delivery_id)

    monkeypatch.setattr(world.webhooks, "delivery", removed_before)
    with pytest.raises(WebhookNotFound):
        redeliver(world.ports, webhook.id, only_delivery(world).id)
    assert world.webhooks.stored[webhook.id].status == "Deleted"


@pytest.mark.parametrize("where", ["get", "read", "write"])
def test_a_secret_of_one_that_is_removed_meanwhile_is_not_kept(
    world: World, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    webhook, _ = added(world)
    store: Any = world.webhooks if where == "get" else world.secrets
    called = getattr(store, where)

    def removed_before(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(store, where, called)
        found = called(*given, **named) if where == "get" else None
        remove_webhook(world.ports, webhook.id)
        return found if where == "get" else called(*given, **named)

    monkeypatch.setattr(store, where, removed_before)
    with pytest.raises(WebhookNotFound):
        rotate_webhook(world.ports, webhook.id)
    assert world.secrets.written == {}
    assert world.webhooks.stored[webhook.id].status == "Deleted"


def test_one_that_is_removed_before_it_has_a_secret_leaves_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = world.secrets.write

    def removed_before(name: str, value: str) -> None:
        (webhook_id,) = world.webhooks.stored
        remove_webhook(world.ports, webhook_id)
        written(name, value)

    monkeypatch.setattr(world.secrets, "write", removed_before)
    with pytest.raises(ConflictError, match="removed"):
        added(world)
    assert world.secrets.written == {}


def test_those_that_are_disabled_count_too(story: Story, world: World) -> None:
    """Else each could be brought back by a redelivery."""
    first, _ = added(world)
    submitted(story)
    world.receivers.answers = [Answer(410)]
    sent(world)
    assert world.webhooks.stored[first.id].status == "Disabled"
    for number in range(MOST_WEBHOOKS - 1):
        added(world, url=f"https://example.com/{number}")
    with pytest.raises(TooManyWebhooks):
        added(world)


def test_a_topic_that_is_away_for_long_delays_no_webhook(
    story: Story, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More has to be told by then than one sweep takes."""
    monkeypatch.setattr(notices_module, "NOTICES", 4)
    added(world)
    world.notices.away = True
    for minutes in range(1, 12):
        submitted(story)
        sent(world)
        world.clock.tick(60)
        assert len(world.receivers.posted) == minutes
    world.notices.away = False
    for _ in range(12):
        sent(world)
        world.clock.tick(60)
    told = [one.id for one in world.notices.events if one.type == "run.submitted"]
    assert (len(told), len(set(told))) == (11, 11)
    assert len(world.receivers.posted) == 11


def test_receivers_in_trouble_take_few_calls_and_each_has_its_turn(
    story: Story, world: World
) -> None:
    """Calls at once are the whole account's; a person's fifty receivers must not take them all."""
    ill = [added(world, url=f"https://example.com/{number}")[0].id for number in range(25)]
    world.receivers.answers = [Answer(500)]
    submitted(story)
    sent(world)
    assert all(world.webhooks.stored[one].failing_since for one in ill)
    well, _ = added(world, url="https://example.com/well")
    for _ in range(3):
        submitted(story)
    tried: Counter[str] = Counter()
    for minute in range(3):
        sweep(world.ports)
        due = [webhook for webhook, _ in world.webhooks.dispatched]
        failing = [one for one in due if one != well.id]
        assert len(failing) == len(set(failing)) <= MOST_FAILING
        if minute == 0:
            assert due[:3] == [well.id] * 3
        world.receivers.answers = [Answer(200)]
        for one in list(world.webhooks.dispatched):
            if one[0] == well.id:
                deliver(world.ports, *one, pause=world.clock.tick)
        world.receivers.answers = [Answer(500)]
        for one in list(world.webhooks.dispatched):
            if one[0] != well.id:
                deliver(world.ports, *one, pause=world.clock.tick)
        world.webhooks.dispatched.clear()
        tried.update(failing)
        world.clock.tick(60)
    assert set(tried) == set(ill)


def test_deliveries_of_many_webhooks_go_in_turn(story: Story, world: World) -> None:
    first, _ = added(world)
    second, _ = added(world, url="https://example.com/2")
    for _ in range(3):
        submitted(story)
    sweep(world.ports)
    assert [one for one, _ in world.webhooks.dispatched] == [first.id, second.id] * 3


def test_a_call_that_a_receiver_held_for_long_makes_no_second_try(
    story: Story, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(world)
    submitted(story)
    posted = []

    def hangs(*_: Any) -> Answer:
        posted.append(world.clock.now())
        world.clock.tick(15)
        return Answer(None, "the receiver did not answer within 15 s")

    monkeypatch.setattr(world.receivers, "post", hangs)
    sent(world)
    assert len(posted) == 1
    world.clock.tick(60)
    sent(world)
    assert len(posted) == 2
