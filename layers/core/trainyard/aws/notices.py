"""Notices in the table (layout: `table.py`): each is written with what it tells, or not at all."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from trainyard.aws.items import Item, pack, record_of, stamp, text
from trainyard.aws.refusals import translated
from trainyard.aws.table import Table
from trainyard.domain import errors
from trainyard.domain.notice_text import attributes_of, subject_of, text_of
from trainyard.domain.notices import Notice
from trainyard.outside.notices import UnsentNotice
from trainyard_contracts.user_events import CHANGES, SOURCE, UserEvent

_LOG = logging.getLogger(__name__)
_UNSENT = "notices"
#: Those that were refused, by when they were: they keep no other from its turn.
_AGAIN = "notices#again"
#: So many of those for each that was not tried.
_PART = 4
#: So many times as many are looked at where some cannot be read.
_LOOKED_AT = 16
#: What an item has besides while its notice is not sent.
_SENT = "REMOVE gsi1pk, gsi1sk, notice"
_IS_UNSENT = "attribute_exists(notice)"


def attributes(notice: Notice | None) -> Item:
    """What the item has besides that makes a notice known, written once by the item's key."""
    if notice is None:
        return {}
    return {
        "notice": pack(notice),
        "gsi1pk": text(_UNSENT),
        "gsi1sk": text(f"{stamp(notice.at)}#{notice.id}"),
    }


class TableNotices:
    """The port `Notices` on DynamoDB, EventBridge and SNS; without a topic, on the bus only.

    `shown`: whether anybody shows runs, and so is woken by their changes.
    """

    def __init__(
        self,
        table: Table,
        events: Any,
        bus: str,
        sns: Any = None,
        topic: str = "",
        *,
        shown: bool = False,
    ) -> None:
        self._table, self._events, self._bus = table, events, bus
        self._sns, self._topic, self._shown = sns, topic, shown

    def unsent(self, at_most: int) -> list[UnsentNotice]:
        again = max(1, at_most // _PART)
        return [*self._readable(_UNSENT, at_most), *self._readable(_AGAIN, again)]

    def _readable(self, partition: str, at_most: int) -> list[UnsentNotice]:
        """Those behind as many that cannot be read, too."""
        size = at_most
        while True:
            items = self._table.indexed(partition, at_most=size)
            found = _read_all(items)
            if len(found) >= at_most or len(items) < size or size >= _LOOKED_AT * at_most:
                return found[:at_most]
            size *= 2

    def send(self, event: UserEvent) -> None:
        self._put(event)
        if self._topic:
            self._publish(event)

    def _publish(self, event: UserEvent) -> None:
        values = attributes_of(event)
        with translated("publish to the topic of notices"):
            self._sns.publish(
                TopicArn=self._topic,
                Subject=subject_of(event),
                Message=text_of(event),
                MessageAttributes={
                    name: {"DataType": "String", "StringValue": value}
                    for name, value in values.items()
                },
            )

    def _put(self, event: UserEvent) -> None:
        entry = {
            "EventBusName": self._bus,
            "Source": SOURCE,
            "DetailType": event.type,
            "Time": event.at,
            "Detail": event.model_dump_json(by_alias=True, exclude_none=True),
        }
        self._put_entry(entry, f"{event.type} of {event.id}")

    def run_changed(self, run_id: str) -> None:
        if not self._shown:
            return
        entry = {
            "EventBusName": self._bus,
            "Source": CHANGES,
            "DetailType": "run.changed",
            "Detail": json.dumps({"run": {"id": run_id}}),
        }
        try:
            self._put_entry(entry, f"a change of {run_id}")
        except errors.TrainyardError as error:
            _LOG.warning("who shows %s hears of its change later: %s", run_id, error)

    def _put_entry(self, entry: dict[str, Any], what: str) -> None:
        with translated("put an event on the bus"):
            answer = self._events.put_events(Entries=[entry])
        if answer["FailedEntryCount"]:
            refused = answer["Entries"][0]
            raise errors.RetryableError(
                f"the bus did not take {what}: "
                f"{refused.get('ErrorCode')}: {refused.get('ErrorMessage')}"
            )

    def sent(self, unsent: UnsentNotice) -> None:
        self._table.update(*unsent.key, _SENT, condition=_IS_UNSENT, values={})

    def postpone(self, unsent: UnsentNotice, now: datetime) -> None:
        self._table.update(
            *unsent.key,
            "SET gsi1pk = :again, gsi1sk = :sk",
            condition=_IS_UNSENT,
            values={
                ":again": text(_AGAIN),
                ":sk": text(f"{stamp(now)}#{unsent.notice.id}"),
            },
        )


def _read_all(items: Sequence[Item]) -> list[UnsentNotice]:
    found = []
    for item in items:
        if "notice" not in item:  # sent, and the index does not know it yet
            continue
        try:
            found.append(_read(item))
        except errors.RecordUnreadable as error:
            _LOG.error("%s: nobody is told of it", error.detail)
    return found


def _read(item: Item) -> UnsentNotice:
    notice = record_of(Notice, {**item, "doc": item["notice"]})
    return UnsentNotice(notice, (item["pk"]["S"], item["sk"]["S"]))
