"""What was measured of small batches, as a page of the docs."""

import statistics
from collections.abc import Callable, Sequence
from functools import partial

from bench.kafka.page import table
from bench.spark_batch import daemon, events, source
from bench.spark_batch.measuring import Session, Stream
from bench.spark_batch.spans import Spans
from bench.spark_page import EVERY_S, OURS, THEIRS, quantile

from mainstem.cli.benchmarks.report import machine

BATCH = "triggerExecution"
_JOB = (events.SUBMIT, events.START, events.RUN, events.END)
_DRIVER = (
    ("latestOffset", "latestOffset", "ask how far the batch can go"),
    ("queryPlanning", "queryPlanning", "plan the query"),
    ("walCommit", "walCommit", "write the offsets to the checkpoint"),
    ("addBatch", "addBatch", "run `foreachBatch`"),
    (
        "",
        "before and after its job",
        "call Python, plan `collect` and its tasks (`partitions`), return the rows",
    ),
    (events.SUBMIT, "from job to task", "schedule"),
    (events.START, "start and end of the task", "send it, load it, send its result"),
    (events.RUN, "**the task**", "read the events"),
    (events.END, "from task to job", "schedule"),
    ("commitOffsets", "commitOffsets", "write the batch to the checkpoint"),
)
_TASK = (
    (daemon.ROWS, "wait for the range to read", "JVM → Python"),
    (daemon.COMMAND, "unpickle the reader", "Spark"),
    (daemon.CONNECT, "connect, twice", "format"),
    (daemon.ANSWER, "wait for metadata and fetch", "server"),
    (daemon.DECODE, "decode to Arrow", "format"),
    (daemon.CHECK, "compare the schema, send requests", "both"),
    (daemon.DUMP, "hand over Arrow", "Python → JVM"),
    (daemon.FREEZE, "keep modules from garbage collection", "format"),
)
_PLANNING = (
    (source.LATEST, "latestOffset, once"),
    (source.PARTITIONS, "partitions"),
    (source.COMMIT, "commit, without a group"),
)


def page(
    before: Sequence[Session], now: Sequence[Session], rounds: int, turns: int, seconds: float
) -> str:
    """Return what docs/benchmarks/spark-batch.md says."""
    old, new = _all(before, OURS), _all(now, OURS)
    their_old, theirs = _all(before, THEIRS), _all(now, THEIRS)
    loads = [each.load for each in (*before, *now)]
    tasks = _tasks(old), _tasks(new)
    waited, frozen = (
        [_median([each.ms.get(name, 0.0) for each in version]) for version in tasks]
        for name in (daemon.ROWS, daemon.FREEZE)
    )
    counting = _median([each.cpu_ms.get(daemon.FREEZE, 0.0) for each in tasks[0]])
    own = _median([each.ms[""] for each in tasks[1]])
    whole, run, others = (
        [_median([part(each) for each in one.batches]) for one in (new, theirs)]
        for part in (_whole, _run, lambda each: _whole(each) - _run(each))
    )
    latency = [
        _latency("mainstem, before", old, before),
        _latency("mainstem", new, now),
        _latency("kafka connector, before", their_old, ()),
        _latency("kafka connector", theirs, ()),
    ]
    each_of = ["mainstem before", "mainstem", "connector before", "connector"]
    return f"""# Where the time of a small Spark batch goes

    python -m bench.spark_batch --before PATH

writes this page; PATH is a clone of the commit before the changes below. Machine: {machine()}.
Load average {min(loads):.0f} to {max(loads):.0f} during the sessions, so compare ratios rather
than times, and processor time where it is given. {rounds} Spark sessions of each version in turn;
in each session the two sources in turn, {turns} times {seconds:.0f} s. One event is published
every {EVERY_S * 1000:.0f} ms; `local[2]`, server and Spark on one machine. All figures are
medians, in milliseconds. "Before" is the version before the changes, with the settings that its
`spark_session()` made; these also affect Spark's own Kafka connector.

## From publishing an event to receiving it in foreachBatch

{table(["source", "events", "p50", "p99", "batch", "of the connector's batch"], latency)}

The last column compares batches of the same session. If a batch takes longer than the
{EVERY_S * 1000:.0f} ms between events, an event also waits for the end of the batch before its
own.

## Spark's side: the parts of a batch

{table(["part", "what it does", *each_of], _driver(old, new, their_old, theirs))}

The parts of `addBatch` are from the event log, which counts whole milliseconds.

## Python's side

Milliseconds in the Python worker process that runs the task of a batch; in parentheses, processor
time:

{table(["in the task", "whose", "before", "now"], _python(tasks))}

Milliseconds in the Python process that plans, for one call:

{table(["call", "before", "now"], _planning(old, new))}

The worker and the planning process are started once for all batches
(`spark.python.worker.reuse`), so no batch imports modules. The connector has no Python side.

## What was saved

- **{waited[0] - waited[1]:.1f} ms: the JVM and Python talk over Unix domain sockets.** The JVM
  first writes the command for the worker, then the rows. Over TCP the second write waits until
  the first is acknowledged (Nagle's algorithm), and Linux delays that by up to 40 ms.
  `spark_session("local[…]")` sets `spark.python.unix.domain.socket.enabled`, with a directory
  that only this user can open. All Python functions of Spark become faster by this, in each of
  their tasks.
- **{frozen[0] - frozen[1]:.1f} ms ({counting:.1f} of the processor): a worker's modules are
  frozen without counting them.** Spark collects garbage after every task, so after its first task
  a worker freezes its modules (`gc.freeze`). Before, each task called `gc.get_freeze_count` to
  see whether this was done, which visits all frozen objects.

## What takes the remaining time

- **Outside the task, Spark's: {others[0]:.0f} of {whole[0]:.0f} ms**, beside {others[1]:.0f} of
  {whole[1]:.0f} ms with the connector. Planning, checkpoint, scheduling and the call of
  `foreachBatch` take this time with every source. The checkpoint is already written by the faster
  of Spark's two file managers. Spark's real-time mode does not have these steps for each batch,
  but it refuses Python sources.
- **The task: {run[0]:.0f} ms, beside {run[1]:.0f} ms of the connector's.** {own:.1f} ms of that
  are in the worker; for the rest of the time the JVM prepares the task for Python, waits for the
  worker to wake up, and reads Arrow. The connector reads inside the JVM, with a consumer that it
  keeps open.
- **Keeping a connection open from task to task** would save two connects and one of two round
  trips. Such a connection would have to survive restarts of brokers and changes of leaders, so
  each task connects anew.
"""


def _all(sessions: Sequence[Session], name: str) -> Stream:
    """Return what all sessions measured of a source."""
    streams = [each for one in sessions for each in one.streams if each.source == name]
    return Stream(
        name,
        [each for one in streams for each in one.latency],
        [each for one in streams for each in one.batches],
        [each for one in streams for each in one.python],
    )


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 0.0


def _latency(name: str, stream: Stream, sessions: Sequence[Session]) -> list[str]:
    ratios = [
        _median([each[BATCH] for each in _all([one], OURS).batches])
        / _median([each[BATCH] for each in _all([one], THEIRS).batches])
        for one in sessions
    ]
    return [
        name,
        f"{len(stream.latency):,}",
        f"{_median(stream.latency):,.0f}",
        f"{quantile(stream.latency, 0.99):,.0f}",
        f"{_median([each[BATCH] for each in stream.batches]):,.0f}",
        f"{_median(ratios):.2f}" if ratios else "1.00",
    ]


def _batch_part(batch: dict[str, float], name: str) -> float:
    """Return a part of a batch; without a name, what addBatch does outside its job."""
    if name:
        return batch.get(name, 0.0)
    return batch["addBatch"] - sum(batch.get(each, 0.0) for each in _JOB)


def _whole(batch: dict[str, float]) -> float:
    return batch[BATCH]


def _run(batch: dict[str, float]) -> float:
    return _batch_part(batch, events.RUN)


def _driver(*streams: Stream) -> list[list[str]]:
    def row(name: str, what: str, part: Callable[[dict[str, float]], float]) -> list[str]:
        found = [_median([part(each) for each in one.batches]) for one in streams]
        return [name, what, *(f"{each:,.0f}" for each in found)]

    rows = []
    for part, name, what in _DRIVER:
        inside = part == "" or part in _JOB
        rows.append(row(f"· {name}" if inside else name, what, partial(_batch_part, name=part)))
    return [*rows, row("**all**", "", _whole)]


def _tasks(stream: Stream) -> list[Spans]:
    return [each for each in stream.python if each.kind == daemon.TASK]


def _python(versions: Sequence[list[Spans]]) -> list[list[str]]:
    named = [name for name, _, _ in _TASK]

    def cell(tasks: list[Spans], *names: str, but: Sequence[str] = ()) -> str:
        clock, cpu = (
            _median([_sum(ms, names) - _sum(ms, but) for ms in kind])
            for kind in ([each.ms for each in tasks], [each.cpu_ms for each in tasks])
        )
        return f"{clock:.1f} ({cpu:.1f})"

    return [
        *([what, whose, *(cell(one, name) for one in versions)] for name, what, whose in _TASK),
        ["everything else", "Spark", *(cell(one, "", but=named) for one in versions)],
        ["**all**", "", *(cell(one, "") for one in versions)],
    ]


def _sum(milliseconds: dict[str, float], names: Sequence[str]) -> float:
    return sum(milliseconds.get(each, 0.0) for each in names)


def _planning(*streams: Stream) -> list[list[str]]:
    return [
        [what, *(f"{_median(_calls(one, kind)):.1f}" for one in streams)]
        for kind, what in _PLANNING
    ]


def _calls(stream: Stream, kind: str) -> list[float]:
    return [each.ms[""] for each in stream.python if each.kind == kind]
