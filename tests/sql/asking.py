"""Queries for tests: evaluated to the end, and as rows."""

from typing import NamedTuple

from mainstem.remote.cluster import Cluster
from mainstem.sql.evaluation import Limits
from mainstem.sql.query import SAMPLE_EVENTS, Query
from mainstem.sql.snapshot import Snapshot

TIMEOUT_S = 30.0
Row = tuple[object, ...]


class Answer(NamedTuple):
    names: list[str]
    rows: list[Row]
    snapshot: Snapshot
    notices: list[str]


class Asked:
    """Evaluates queries over one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def __call__(
        self, sql: str, *, sample: int | None = SAMPLE_EVENTS, **limits: int | float | None
    ) -> list[Row]:
        return self.answer(sql, snapshot=None, sample=sample, **limits).rows

    def answer(
        self,
        sql: str,
        *,
        snapshot: Snapshot | None = None,
        sample: int | None = SAMPLE_EVENTS,
        **limits: int | float | None,
    ) -> Answer:
        with self.query(sql, sample=sample, **limits) as query:
            if snapshot is None:
                snapshot = query.snapshot()
            else:
                query.check(snapshot)
            return answered(query, snapshot)

    def query(
        self, sql: str, *, sample: int | None = SAMPLE_EVENTS, **limits: int | float | None
    ) -> Query:
        return Query(self.cluster, sql, limits=Limits(**limits), sample=sample)  # type: ignore[arg-type]


def answered(query: Query, snapshot: Snapshot) -> Answer:
    result = query.run(snapshot)
    rows = [
        row
        for batch in result.batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]
    return Answer(result.schema.names, rows, snapshot, query.notices)
