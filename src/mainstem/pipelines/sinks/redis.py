"""A cache in Redis: one key per row, with the row as JSON.

How this works: a Lua script, which Redis runs atomically, checks the mark and writes the rows of a
batch; so a driver that was considered dead cannot write over a newer batch. A batch of many rows is
written in several calls, and its mark with the last one: after a crash in between, the batch is
written again, with the same rows.

The hash ``PREFIX__mainstem`` has the columns and the marks. With ``latest=``, the hash
``PREFIX__versions`` has the version of each row, also of deleted ones; its fields are named without
the prefix, which a swap changes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, cast

import msgspec

from mainstem.pipelines.errors import InvalidDefinition, StoreUnavailable, importing
from mainstem.pipelines.sinks.port import Mark, Sink
from mainstem.pipelines.sinks.statements import text_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType
    from redis import Redis

Row = dict[str, object]

_ROWS_PER_CALL = 1_000
_COLUMNS = "columns"
_WRITE = """
local batch = tonumber(ARGV[2])
local written = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '-1')
if written >= batch then return 0 end
local name_at = #KEYS[2] - #'__versions' + 2
for number = 3, #KEYS do
  local at = (number - 3) * 2 + 4
  local value, version = ARGV[at], ARGV[at + 1]
  local newer = true
  if version ~= '' then
    local name = string.sub(KEYS[number], name_at)
    local known = redis.call('HGET', KEYS[2], name)
    newer = not known or version > known
    if newer then redis.call('HSET', KEYS[2], name, version) end
  end
  if newer and value ~= '' then redis.call('SET', KEYS[number], value) end
  if newer and value == '' then redis.call('DEL', KEYS[number]) end
end
if ARGV[3] == 'last' then redis.call('HSET', KEYS[1], ARGV[1], batch) end
return 1
"""


class _Write(msgspec.Struct, frozen=True):
    """The new value of one Redis key, or "" to delete it; the row's version with ``latest``."""

    key: str
    value: str
    version: str


class RedisSink(msgspec.Struct, frozen=True):
    """The keys ``PREFIX:...`` of a Redis server; a row replaces the row with the same key."""

    url: str
    prefix: str
    key: tuple[str, ...] = ()
    latest: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The pattern of the keys, for messages; shows no password."""
        return f"Redis keys {self.prefix}:*"

    def check(self, columns: "StructType") -> None:
        """Raise InvalidDefinition if the server cannot be used, or if the columns differ."""
        from mainstem.pipelines.sinks.collecting import check_columns  # noqa: PLC0415

        if not self.key:
            raise InvalidDefinition(f"{self.place}: a cache needs key=, the columns of its keys")
        check_columns(columns, self.key, self.latest, self.place)
        for name in self.latest:
            if columns[name].dataType.typeName() not in ("string", "timestamp", "date"):
                raise InvalidDefinition(
                    f"{self.place}: versions are compared as text; name a string, a time or a "
                    f"date in latest=, not {name!r}"
                )
        wanted = columns.simpleString()
        with self._opened() as base:
            base.hsetnx(self._meta, _COLUMNS, wanted)
            found = _text(base.hget(self._meta, _COLUMNS))
        if found != wanted:
            raise InvalidDefinition(
                f"{self.place} have the columns {found[7:-1]}, but the definition gives "
                f"{wanted[7:-1]}; replay into a new prefix (--replay --into NAME) and swap"
            )

    def write(self, rows: "DataFrame", mark: Mark) -> bool:
        """Write the rows in one or more calls to Redis; the last one also stores the mark."""
        from mainstem.pipelines.sinks.collecting import collected, split  # noqa: PLC0415

        with self._opened() as base:
            written = _text(base.hget(self._meta, mark.pipeline))
            if written and int(written) >= mark.batch:
                return False
            found = split(collected(rows, self.key, self.latest))
            stored, deleted = found.stored.to_pylist(), found.deleted.to_pylist()
            writes = [self._write(row, text_of(row)) for row in stored]
            writes += [self._write(row, "") for row in deleted]
            if mark.replace:
                known = {each.key for each in writes}
                writes += [
                    _Write(name, "", "") for name in self._row_keys(base) if name not in known
                ]
            if not writes:
                return True
            script = base.register_script(_WRITE)
            calls = list(_parts(writes))
            for number, part in enumerate(calls, 1):
                values = [text for each in part for text in (each.value, each.version)]
                last = "last" if number == len(calls) else ""
                script(
                    [self._meta, self._versions, *(each.key for each in part)],
                    [mark.pipeline, mark.batch, last, *values],
                )
        return True

    def _write(self, row: Row, value: str) -> _Write:
        parts = [row[name] for name in self.key]
        name = ":".join(each if isinstance(each, str) else text_of(each) for each in parts)
        version = [row[name] for name in self.latest]
        texts = [each if isinstance(each, str) else text_of(each) for each in version]
        return _Write(f"{self.prefix}:{name}", value, "\x00".join(texts))

    def read(self) -> "pa.Table | None":
        """Return all rows, with values as JSON has them."""
        import pyarrow as pa  # noqa: PLC0415 - slow to load

        with self._opened() as base:
            if not base.exists(self._meta):
                return None
            values = [base.get(name) for name in self._row_keys(base)]
        rows = [msgspec.json.decode(cast("bytes", each)) for each in values if each is not None]
        return pa.Table.from_pylist(rows)

    def beside(self, name: str) -> Sink:
        """Return the sink of a copy, with another prefix."""
        return msgspec.structs.replace(self, prefix=f"{self.prefix}.{name}")

    def swap(self, name: str) -> None:
        """Replace the rows by those of the copy in one step; the old ones get another prefix."""
        copy = msgspec.structs.replace(self, prefix=f"{self.prefix}.{name}")
        old = msgspec.structs.replace(self, prefix=f"{self.prefix}.before-{name}")
        with self._opened() as base:
            if not base.exists(copy._meta):
                return
            # One transaction, so that readers see all old rows or all new ones.
            with base.pipeline(transaction=True) as moves:
                for source, target in ((self, old), (copy, self)):
                    for each in (*source._row_keys(base), *source._own_keys(base)):
                        moves.rename(each, f"{target.prefix}{each.removeprefix(source.prefix)}")
                moves.execute()

    @property
    def _meta(self) -> str:
        return f"{self.prefix}__mainstem"

    @property
    def _versions(self) -> str:
        return f"{self.prefix}__versions"

    def _own_keys(self, base: "Redis") -> list[str]:
        return [each for each in (self._meta, self._versions) if base.exists(each)]

    def _row_keys(self, base: "Redis") -> list[str]:
        pattern = "".join(f"\\{each}" if each in "*?[]^\\" else each for each in self.prefix)
        found = base.scan_iter(match=f"{pattern}:*", count=_ROWS_PER_CALL)
        # A key may be returned more than once.
        return sorted({_text(each) for each in found})

    @contextmanager
    def _opened(self) -> "Iterator[Redis]":
        """Open a connection; a server that is away, then or later, raises StoreUnavailable."""
        with importing("p.redis", "the package redis", extra="redis"):
            import redis  # noqa: PLC0415 - an extra
        try:
            base = redis.Redis.from_url(self.url, socket_connect_timeout=10, protocol=2)
        except ValueError as error:
            raise InvalidDefinition(f"{self.place} cannot be used: {error}") from None
        try:
            with base:
                base.ping()
                yield base
        except redis.AuthenticationError as error:
            raise InvalidDefinition(f"{self.place} cannot be used: {error}") from None
        # It also means that the server is still loading its data.
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise StoreUnavailable(self.place, error) from None


def _parts(writes: Sequence[_Write]) -> Iterator[list[_Write]]:
    rest = iter(writes)
    while part := list(islice(rest, _ROWS_PER_CALL)):
        yield part


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else ""
