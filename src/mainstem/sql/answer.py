"""Answers one query in a process of its own, so that it cannot block a server or use its memory.

How this works: the process (``serve``) reads a ``QueryRequest`` from its stdin, one line of JSON,
and prints which topics and tables the query reads. The server checks that the user may read these,
and sends another line; then this process prints the answer. A failure is printed as an answer, too
(``Refusal``). This process reads events and infers their fields; its worker (``worker.py``)
evaluates the query.
"""

import resource
import sys
from collections.abc import Callable, Iterator

import msgspec
import pyarrow as pa

from mainstem.core.errors import Failure, MainstemError
from mainstem.remote.cluster import Cluster
from mainstem.sql.avro import AvroValues
from mainstem.sql.errors import LimitReached
from mainstem.sql.evaluation import Limits
from mainstem.sql.query import SAMPLE_EVENTS, Query
from mainstem.sql.rows import rows_of, to_json
from mainstem.sql.server_messages import Answer, Column, QueryRequest, Refusal, Topics
from mainstem.sql.snapshot import parse
from mainstem.sql.worker_messages import SPARE_BYTES

_TIMEOUT_S = 30.0


StoredAt = Callable[[str, str], pa.Table | None]
"""Returns the rows of a table that is no topic, by where such tables have their state, and its name
"""


def answer(request: QueryRequest, stored: StoredAt) -> Iterator[Topics | Answer]:
    """Yield which topics and tables a query reads, then its result."""
    cluster = Cluster(request.address, timeout_s=_TIMEOUT_S, settings={})
    limits = Limits(memory_bytes=request.memory_bytes, seconds=request.seconds, rows=request.rows)
    sample = None if request.sample_all else SAMPLE_EVENTS
    given = parse(request.as_of) if request.as_of else None
    with Query(
        cluster,
        request.query,
        limits=limits,
        sample=sample,
        stored=lambda name: stored(request.stored_at, name),
        schemas={
            topic: AvroValues(schema, f"the schema of {topic}")
            for topic, schema in request.schemas.items()
        },
    ) as query:
        yield Topics(query.topics, query.stored_tables)
        snapshot = query.snapshot() if given is None else given
        if given is not None:
            query.check(given)
        result = query.run(snapshot)
        columns = [Column(field.name, str(field.type)) for field in result.schema]
        encoded, size = [], 0
        for row in rows_of(result.batches):
            encoded.append(msgspec.Raw(to_json(row)))
            size += len(encoded[-1])
            if size > request.result_bytes:
                raise LimitReached(
                    f"the result is larger than {request.result_bytes:,} bytes; select fewer "
                    "columns or rows"
                )
        notices = query.notices
        if query.stored_tables and query.topics:
            notices.append(f"{', '.join(query.stored_tables)}: as of now, and not in the snapshot")
        yield Answer(columns, encoded, str(snapshot), notices)


def _say(said: Topics | Answer | Refusal) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.buffer.flush()


def serve(stored: StoredAt) -> None:
    """Answer the query whose request is on stdin; print the messages to stdout."""
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=QueryRequest)
    resource.setrlimit(resource.RLIMIT_DATA, (request.memory_bytes + SPARE_BYTES,) * 2)
    try:
        for said in answer(request, stored):
            _say(said)
            if isinstance(said, Topics) and not sys.stdin.buffer.readline():
                return
    except MainstemError as error:
        _say(Refusal(error.failure.value, str(error)))
    except MemoryError:
        _say(Refusal(Failure.OVERLOADED.value, "the query reads more than memory allows"))
