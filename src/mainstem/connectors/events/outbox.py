"""Outbox tables: each inserted row describes an event, which the connector publishes.

The columns are those of Debezium's outbox event router: ``aggregatetype`` chooses the topic,
``aggregateid`` is the key, ``payload`` the value, and ``id`` a header. A program inserts the row in
the transaction that changes its other tables, so the event is published if and only if that
commits; it may delete the row at once. Deleting or updating rows publishes nothing.
"""

from collections.abc import Iterator

import msgspec

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.events.envelope import Origin
from mainstem.connectors.port import Change, Op, Row, Table
from mainstem.connectors.settings import ROUTED, ConnectorSettings
from mainstem.core.errors import InvalidName
from mainstem.core.event import Event
from mainstem.core.names import check_topic

ID, TYPE, KEY, PAYLOAD = "id", "aggregatetype", "aggregateid", "payload"


def is_outbox(settings: ConnectorSettings, table: Table) -> bool:
    """Return whether the settings name a table as an outbox."""
    return table.id in settings.outbox


class OutboxRouter:
    """Makes the events that the rows of one outbox table describe."""

    def __init__(self, settings: ConnectorSettings, table: Table) -> None:
        self._table = table.id
        self._topic = settings.outbox_topic
        headers = [each.partition(":") for each in settings.outbox_headers]
        self._headers = [(ID, ID), *((column, alias or column) for column, _, alias in headers)]
        columns = {each.name for each in table.columns}
        needed = [TYPE, KEY, PAYLOAD, *(column for column, _ in self._headers)]
        if missing := [each for each in needed if each not in columns]:
            raise SourceRefused(
                f"outbox table {table.id} has no column {', '.join(missing)}: an outbox has the "
                f"columns {ID}, {TYPE}, {KEY}, {PAYLOAD}, and those of outbox_headers"
            )

    def route(self, change: Change, origin: Origin) -> Iterator[tuple[str, Event]]:
        """Yield the event of a new row with its topic; nothing for other changes."""
        row = change.after
        if row is None or change.op not in (Op.CREATE, Op.READ):
            return
        headers = tuple(
            (alias, _raw(row[column])) for column, alias in self._headers if row[column] is not None
        )
        time_ms = origin.committed_us // 1000
        yield self._topic_of(row), Event(_raw(row[PAYLOAD]), _raw(row[KEY]), headers, time_ms)

    def _topic_of(self, row: Row) -> str:
        topic = self._topic.replace(ROUTED, str(row[TYPE] or ""))
        try:
            if row[TYPE] is None:
                raise InvalidName("topic", topic, f"{TYPE} is null")
            check_topic(topic)
        except InvalidName as error:
            raise SourceRefused(
                f"row {str(row[ID])!r:.100} of outbox table {self._table} names no topic: {error}; "
                "take it out of what is followed: mainstem connector restart NAME --snapshot"
            ) from None
        return topic


def _raw(value: object) -> bytes | None:
    """Return a value as bytes: text as UTF-8, bytes unchanged, anything else as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)
