"""Answers one query in a process of its own, for a server that must not wait or run out of memory.

How this works: ``python -m mainstem.sql.answer`` reads a ``Question`` from its stdin, one line of
JSON, and prints which topics the query reads. When the next line comes, because these may be read,
it prints the answer. Whatever goes wrong is an answer, too. This process reads events and looks at
them, its worker evaluates the query.
"""

import resource
import sys
from collections.abc import Iterator

import msgspec

from mainstem.core.errors import Failure, MainstemError
from mainstem.remote.cluster import Cluster
from mainstem.sql.errors import LimitReached
from mainstem.sql.evaluation import Limits
from mainstem.sql.messages import SPARE_BYTES
from mainstem.sql.query import SAMPLE_EVENTS, Query
from mainstem.sql.question import Answer, Column, Question, Refusal, Topics
from mainstem.sql.rows import rows_of, to_json
from mainstem.sql.snapshot import parse

_TIMEOUT_S = 30.0


def answer(question: Question) -> Iterator[Topics | Answer]:
    """Yield the topics that a query reads, then its answer."""
    cluster = Cluster(question.address, timeout_s=_TIMEOUT_S, settings={})
    limits = Limits(
        memory_bytes=question.memory_bytes, seconds=question.seconds, rows=question.rows
    )
    sample = None if question.sample_all else SAMPLE_EVENTS
    given = parse(question.as_of) if question.as_of else None
    with Query(cluster, question.query, limits=limits, sample=sample) as query:
        yield Topics(query.topics)
        snapshot = query.snapshot() if given is None else given
        if given is not None:
            query.check(given)
        result = query.run(snapshot)
        columns = [Column(field.name, str(field.type)) for field in result.schema]
        encoded, size = [], 0
        for row in rows_of(result.batches):
            encoded.append(msgspec.Raw(to_json(row)))
            size += len(encoded[-1])
            if size > question.result_bytes:
                raise LimitReached(
                    f"the result is larger than {question.result_bytes:,} bytes; select fewer "
                    "columns or rows"
                )
        yield Answer(columns, encoded, str(snapshot), query.notices)


def _say(said: Topics | Answer | Refusal) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Answer the question on stdin."""
    question = msgspec.json.decode(sys.stdin.buffer.readline(), type=Question)
    resource.setrlimit(resource.RLIMIT_DATA, (question.memory_bytes + SPARE_BYTES,) * 2)
    try:
        for said in answer(question):
            _say(said)
            if isinstance(said, Topics) and not sys.stdin.buffer.readline():
                return
    except MainstemError as error:
        _say(Refusal(error.failure.value, str(error)))
    except MemoryError:
        _say(Refusal(Failure.OVERLOADED.value, "the query reads more than memory allows"))


if __name__ == "__main__":
    main()
