"""Writes rows to a topic, each batch in one transaction, through ``format("mainstem")``."""

from typing import TYPE_CHECKING

import msgspec

from mainstem.core.errors import InvalidName
from mainstem.core.names import check_topic
from mainstem.pipelines.errors import InvalidDefinition, PipelineFailed, RunRefused
from mainstem.pipelines.sinks.port import DELETED, Mark, Sink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

EVENT = ("key", "value", "headers", "topic", "partition", "timestamp")


class TopicSink(msgspec.Struct, frozen=True):
    """A topic: rows with the columns of events are written unchanged, others as JSON."""

    topic: str
    key: tuple[str, ...] = ()
    """Columns of the event's key; a later event of the same key replaces an earlier one."""
    address: str = ""
    """Address of the broker; empty for the pipeline's broker."""

    @property
    def place(self) -> str:
        """The name of the topic, for messages."""
        return f"topic {self.topic}"

    def check(self, columns: "StructType") -> None:
        """Raise InvalidDefinition if the rows cannot be events."""
        from mainstem.pipelines.sinks.collecting import check_columns  # noqa: PLC0415

        try:
            check_topic(self.topic)
        except InvalidName as error:
            raise InvalidDefinition(str(error)) from None
        check_columns(columns, self.key, (), self.place)

    def write(self, rows: "DataFrame", mark: Mark) -> bool:
        """Write the rows and the mark in one transaction."""
        if mark.replace:
            raise PipelineFailed(
                f"the database table was truncated, and {self.place} cannot be emptied; delete its "
                "events (mainstem topic trim), or replay into a new topic"
            )
        events = self._events(rows)
        options = {
            "address": self.address,
            "topic": self.topic,
            "pipeline": mark.pipeline,
            "batch": str(mark.batch),
        }
        # The write runs all tasks even if the batch was written before, so that they create their
        # state.
        events.write.format("mainstem").options(**options).mode("append").save()
        return True

    def _events(self, rows: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own custom

        if "value" in rows.columns and set(rows.columns) <= set(EVENT):
            return rows
        stored = [F.col(f"`{name}`") for name in rows.columns if name != DELETED]
        value = F.to_json(F.struct(*stored))
        if DELETED in rows.columns:
            # A tombstone, so that compaction removes the row.
            value = F.when(~F.col(DELETED), value)
        value = value.alias("value")
        if not self.key:
            return rows.select(value)
        parts = [F.col(f"`{name}`") for name in self.key]
        simple = len(parts) == 1 and dict(rows.dtypes)[self.key[0]] == "string"
        key = parts[0] if simple else F.to_json(F.struct(*parts))
        return rows.select(key.alias("key"), value)

    def read(self) -> "pa.Table | None":
        """Return None, because this sink cannot read its rows back."""
        return None

    def beside(self, name: str) -> Sink:
        """Return the sink of a copy, another topic."""
        return msgspec.structs.replace(self, topic=f"{self.topic}.{name}")

    def swap(self, name: str) -> None:
        """Raise an error: a topic cannot be renamed, and consumers keep their offsets."""
        raise RunRefused(
            f"{self.place} cannot be swapped with {self.topic}.{name}: topics cannot be renamed; "
            "let its consumers read the new one"
        )
