"""The node's settings for SQL queries on its admin port."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstem.core.setting_types import MIB, Bytes, PositiveInt


class SqlLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of each query on the admin port, and of all together."""

    max_at_once: Annotated[
        int, Meta(ge=0, le=1000), "SQL queries that may run at the same time; 0 refuses all."
    ] = 2
    max_memory_bytes: Annotated[int, Meta(ge=16 * MIB), "Memory of DuckDB for one query."] = (
        256 * MIB
    )
    max_seconds: Annotated[int, Meta(ge=1, le=3600), "Seconds after which a query is stopped."] = 30
    max_rows: Annotated[PositiveInt, "Rows of a result; a larger one is refused."] = 10_000
    max_result_bytes: Annotated[Bytes, "Bytes of a result as JSON; a larger one is refused."] = (
        16 * MIB
    )
