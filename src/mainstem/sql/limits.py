"""The node's settings for SQL queries on its admin port."""

from typing import Annotated

import msgspec
from msgspec import Meta


class SqlLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of each query on the admin port, and of all together."""

    max_at_once: Annotated[
        int,
        Meta(ge=0, le=1000, description="Queries that run at a time; 0 refuses all."),
    ] = 2
    max_memory_bytes: Annotated[
        int,
        Meta(ge=16 << 20, description="Memory of DuckDB for one query."),
    ] = 256 << 20
    max_seconds: Annotated[
        int,
        Meta(ge=1, le=3600, description="Seconds after which a query is stopped."),
    ] = 30
    max_rows: Annotated[
        int,
        Meta(ge=1, description="Rows of a result; a larger one is refused."),
    ] = 10_000
    max_result_bytes: Annotated[
        int,
        Meta(ge=1024, description="Bytes of a result as JSON; a larger one is refused."),
    ] = 16 << 20
