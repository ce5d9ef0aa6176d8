"""The operation that runs an SQL query over topics, each query in a process of its own.

The process reads topics through the server's own Kafka port, and tables of pipelines from their
files. First it says which topics and tables the query reads; then the server checks the
permissions, and only then the process answers. To read a table of a pipeline, a user needs
permission to describe the cluster, and to read the topics that the table is made from.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from mainstem.auth import CLUSTER, Action, Peer, Resource, ResourceKind
from mainstem.core.errors import Failure
from mainstem.heads.addresses import Address
from mainstem.heads.admin_operations import OperationFailed, operation
from mainstem.heads.context import HeadContext
from mainstem.pipelines.stored_rows import stored_table
from mainstem.sql.limits import SqlLimits
from mainstem.sql.requirements import check_installed
from mainstem.sql.server_messages import Answer, Column, QueryRequest, Refusal, Said, Topics
from mainstem.sql.worker_messages import WITHOUT_ARENAS

_decoder = msgspec.json.Decoder(Said)
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_SPARE_S = 5.0
"""How much longer than the query its process may take, for its start."""


class AskSql(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Run an SQL query over the events of topics."""

    query: Annotated[str, Meta(description="One SELECT; docs/guides/sql.md has the dialect.")]
    as_of: Annotated[
        str, Meta(description="The snapshot of an earlier answer; otherwise all events until now.")
    ] = ""
    rows: Annotated[
        int | None,
        Meta(description="Refuse a result with more rows; at most, and otherwise, sql.max_rows."),
    ] = None
    seconds: Annotated[
        float | None,
        Meta(
            description="Stop the query after this time; at most, or by default, sql.max_seconds."
        ),
    ] = None
    sample_all: Annotated[
        bool, Meta(description="Whether all events are looked at to find the fields of topics.")
    ] = False
    schemas: Annotated[
        dict[str, object], Meta(description="The Avro schemas of the values of topics, as JSON.")
    ] = {}


class SqlAnswer(msgspec.Struct, frozen=True):
    """The result of a query."""

    columns: list[Column]
    """Names and Arrow types."""
    rows: list[list[object]]
    """The values of each row, in the order of the columns."""
    snapshot: str
    """The events that were read; as ``as_of`` they give the same answer again."""
    notices: list[str]
    """What a user should know of the result."""


class SqlOperations:
    """Runs SQL queries, at most as many at a time as the settings allow."""

    def __init__(self, context: HeadContext, limits: SqlLimits, pipelines: Path) -> None:
        """``pipelines`` is the state directory of pipelines."""
        self._context, self._limits, self._pipelines = context, limits, pipelines
        self._places = threading.Semaphore(limits.max_at_once)

    @operation("sql", "POST sql", answer=SqlAnswer)
    def ask(self, peer: Peer, asked: AskSql) -> dict[str, object]:
        """Run an SQL query over the events of topics."""
        check_installed()
        request = self._request(asked)
        if not self._places.acquire(blocking=False):
            raise OperationFailed(
                Failure.OVERLOADED,
                f"{self._limits.max_at_once} queries run already (sql.max_at_once); try again "
                "when one of them is done",
            )
        try:
            with self._process(request.seconds + _SPARE_S) as process:
                return msgspec.structs.asdict(self._answer(process, request, peer))
        finally:
            self._places.release()

    def _request(self, asked: AskSql) -> QueryRequest:
        kafka = self._context.addresses.get("kafka")
        if kafka is None:
            raise OperationFailed(
                Failure.UNAVAILABLE, "queries read topics at the Kafka port, and it is off"
            )
        limits = self._limits
        rows = limits.max_rows if asked.rows is None else asked.rows
        seconds = float(limits.max_seconds) if asked.seconds is None else asked.seconds
        for name, value, most in (
            ("rows", rows, limits.max_rows),
            ("seconds", seconds, limits.max_seconds),
        ):
            if not 0 < value <= most:
                raise OperationFailed(
                    Failure.INVALID, f"{name} must be more than 0 and at most {most:,} here"
                )
        return QueryRequest(
            address=str(Address(_ANYWHERE.get(kafka.host, kafka.host), kafka.port)),
            query=asked.query,
            as_of=asked.as_of,
            sample_all=asked.sample_all,
            rows=rows,
            seconds=seconds,
            memory_bytes=limits.max_memory_bytes,
            result_bytes=limits.max_result_bytes,
            stored_at=str(self._pipelines),
            schemas=asked.schemas,
        )

    def _answer(
        self, process: "subprocess.Popen[bytes]", request: QueryRequest, peer: Peer
    ) -> Answer:
        _send(process, msgspec.json.encode(request))
        said = self._said(process, request)
        if isinstance(said, Topics):
            self._authorize(said, peer)
            _send(process, b"")
            said = self._said(process, request)
        if isinstance(said, Refusal):
            raise OperationFailed(Failure(said.failure), said.detail)
        assert isinstance(said, Answer)
        return said

    def _authorize(self, said: Topics, peer: Peer) -> None:
        """Raise unless the user may read the topics and tables that the query reads."""
        auth, topics = self._context.auth, set(said.topics)
        for name in said.tables:
            auth.authorize(peer.principal, Action.DESCRIBE, CLUSTER)
            if (table := stored_table(self._pipelines, name)) is not None:
                topics.update(table.status.offsets)
        for topic in sorted(topics):
            auth.authorize(peer.principal, Action.READ, Resource(ResourceKind.TOPIC, topic))

    def _said(self, process: "subprocess.Popen[bytes]", request: QueryRequest) -> Said:
        assert process.stdout is not None
        line = process.stdout.readline()
        if line:
            said: Said = _decoder.decode(line)
            return said
        code = process.wait(_SPARE_S)
        if self._context.draining:
            raise OperationFailed(Failure.UNAVAILABLE, "the server is stopping")
        if code == -signal.SIGKILL:
            why = f"the query was not done within {request.seconds:g} s, or out of memory"
            raise OperationFailed(Failure.OVERLOADED, why)
        raise OperationFailed(
            Failure.UNAVAILABLE, f"the process of the query ended unexpectedly (exit code {code})"
        )

    @contextmanager
    def _process(self, seconds: float) -> Iterator["subprocess.Popen[bytes]"]:
        """Start a query's process; it is killed when the block ends, or ``seconds`` are over.

        It also ends with the server.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "mainstem.node.api.sql_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | WITHOUT_ARENAS,
            # Ctrl-C is for the server.
            start_new_session=True,
        )
        timer = threading.Timer(seconds, process.kill)
        forget = self._context.from_thread(lambda: self._context.wait_with(process.kill))
        try:
            timer.start()
            if self._context.draining:
                process.kill()
            yield process
        finally:
            timer.cancel()
            self._context.on_loop(forget)
            with process:
                process.kill()


def _send(process: "subprocess.Popen[bytes]", line: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(line + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise OperationFailed(
            Failure.UNAVAILABLE, "the process of the query ended unexpectedly"
        ) from None
