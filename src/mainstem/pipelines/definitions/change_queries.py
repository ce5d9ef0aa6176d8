"""The queries of ``apply_changes``: from the changes of a table to its rows, or to their history.

How this works: changes are grouped by key. For each key Spark's state holds the newest change
(``mirror``) or all changes (``history``), ordered by their position in the database's log. So it
does not matter in which order changes arrive, or how often, and a deleted row stays deleted when an
older change arrives late. The state grows with the number of keys (``mirror``) or of changes
(``history``). Result rows whose column ``DELETED`` is true are those that the sink deletes.
"""

from typing import cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql.types import StructType

from mainstem.pipelines.definitions.apply_changes import POSITION
from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.sinks.port import CHANGED_AT, DELETED, TRUNCATED

_TRUNCATED = (
    "the database table was truncated at %s, and a history does not show which rows that deleted; "
    "delete rows by DELETE, or begin a new history: let the connector write to a new topic, and "
    "name that as source"
)


def mirror(changes: DataFrame, key: tuple[str, ...], latest: str) -> DataFrame:
    """Return the current row of each key; ``DELETED`` is true in those of deleted rows."""
    versions = _versions(changes, latest)
    columns = _row_columns(versions)
    row, order = F.col("row"), F.col("order")
    is_truncate = F.col("op") == "truncate"
    newest = versions.groupBy(*(row.getField(each).alias(each) for each in key)).agg(
        F.max_by(DELETED, order).alias(DELETED),
        F.max(F.when(is_truncate, F.col("position"))).alias(TRUNCATED),
        F.max_by("position", order).alias(CHANGED_AT),
        *(
            # An update may leave out large unchanged columns, so each column has a newest change of
            # its own.
            F.max_by(
                F.struct(row.getField(each).alias("value")),
                F.when(~_is_unavailable(F.col("unavailable"), each), order),
            ).alias(each)
            for each in columns
            if each not in key
        ),
    )
    return newest.select(
        *(
            F.col(each) if each in key else F.col(each).getField("value").alias(each)
            for each in columns
        ),
        DELETED,
        TRUNCATED,
        CHANGED_AT,
    )


def history(changes: DataFrame, key: tuple[str, ...], latest: str) -> DataFrame:
    """Return all versions of the rows, with the times ``valid_from`` and ``valid_to``."""
    versions = _versions(changes, latest)
    columns = _row_columns(versions)
    truncated = F.raise_error(F.format_string(_TRUNCATED, "position")).cast("boolean")
    deleted = F.when(F.col("op") == "truncate", truncated).otherwise(F.col(DELETED))
    versions = versions.withColumn(DELETED, deleted)
    version = F.struct(
        "order", "position", "committed_at", DELETED, "unavailable", "is_read", "row"
    )
    row = F.col("row")
    grouped = versions.groupBy(*(row.getField(each).alias(each) for each in key)).agg(
        F.array_sort(F.collect_set(version)).alias("all")
    )
    complete = F.transform("all", lambda each, at: _completed(each, at, columns))
    marked = F.transform("all", lambda each, at: F.struct(each.alias("it"), *_again(each, at)))
    kept = F.filter("marked", lambda each: ~each.getField("again"))
    shown = F.filter("marked", lambda each: ~each.getField("twice"))
    found = (
        grouped.select(complete.alias("all"))
        .select(marked.alias("marked"))
        .select(F.explode(shown).alias("each"), kept.alias("kept"))
        .select("each.it.*", "each.again", F.col("kept"))
    )
    later = F.filter("kept", lambda each: each.getField("it").getField("order") > F.col("order"))
    after = F.get(later, F.lit(0)).getField("it")
    following = F.get(later, F.lit(1)).getField("it").getField("committed_at")
    return found.select(
        *(row.getField(each).alias(each) for each in columns),
        _began(F.col("is_read"), F.col("committed_at"), after.getField("committed_at")).alias(
            "valid_from"
        ),
        _began(after.getField("is_read"), after.getField("committed_at"), following).alias(
            "valid_to"
        ),
        F.col("position").alias(POSITION),
        (F.col(DELETED) | F.col("again")).alias(DELETED),
    )


def _versions(changes: DataFrame, latest: str) -> DataFrame:
    """Return one row for each change: the version that it made, or the row that it deleted."""
    is_delete = F.col("op") == "delete"
    row = F.when(is_delete, F.col("before")).otherwise(F.col("after"))
    named = cast("StructType", changes.schema["after"].dataType).fieldNames()
    if latest not in changes.columns and latest not in named:
        raise InvalidDefinition(
            f"latest={latest!r} is no column of the changes ({', '.join(changes.columns)}) nor of "
            f"their rows ({', '.join(named)})"
        )
    order = F.col(latest) if latest in changes.columns else row.getField(latest)
    return changes.select(
        row.alias("row"),
        "op",
        is_delete.alias(DELETED),
        (F.col("op") == "read").alias("is_read"),
        order.alias("order"),
        "position",
        "committed_at",
        "unavailable",
    )


def _row_columns(versions: DataFrame) -> list[str]:
    return cast("StructType", versions.schema["row"].dataType).fieldNames()


def _is_unavailable(unavailable: Column, column: str) -> Column:
    return F.coalesce(F.array_contains(unavailable, column), F.lit(False))


def _completed(version: Column, at: Column, columns: list[str]) -> Column:
    """Return a version, with values that its change did not log taken from earlier versions.

    ``at`` is the number of the version in the column ``all``.
    """

    def known(column: str) -> Column:
        logged = F.filter(
            F.slice("all", F.lit(1), at + 1),
            lambda each: ~_is_unavailable(each.getField("unavailable"), column),
        )
        return F.try_element_at(logged, F.lit(-1)).getField("row").getField(column)

    whole = F.struct(*(known(each).alias(each) for each in columns))
    row = F.when(version.getField("unavailable").isNull(), version.getField("row")).otherwise(whole)
    return version.withField("row", row)


def _began(is_read: Column, at: Column, next_at: Column) -> Column:
    """Return the time at which a version became valid.

    ``at`` is its commit time. A version read by a snapshot has instead the time at which the
    snapshot read it, by the connector's clock, which may be later than the commit time of the next
    change (``next_at``); then the version began at ``next_at`` at the latest.
    """
    return F.when(is_read, F.least(at, next_at)).otherwise(at)


def _again(version: Column, at: Column) -> tuple[Column, Column]:
    """Return the columns ``again`` and ``twice`` of a version.

    ``again``: a snapshot has read the row unchanged, so it is no new version. ``twice``: the
    version before it also has the same position, so the sink takes both for one version.
    """
    before = F.get("all", at - 1)
    same = before.getField("row").eqNullSafe(version.getField("row"))
    again = version.getField("is_read") & same & ~before.getField(DELETED) & (at > 0)
    twice = again & (before.getField("position") == version.getField("position"))
    return again.alias("again"), twice.alias("twice")
