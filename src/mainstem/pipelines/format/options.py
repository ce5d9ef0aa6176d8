"""Parses the ``.option(...)`` values of source and sink; unknown options raise an error."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from mainstem.core.compression import NAMES as COMPRESSIONS
from mainstem.core.errors import InvalidSetting
from mainstem.core.names import check_topic
from mainstem.remote.cluster import Cluster
from mainstem.remote.transactions import MARKS_TOPIC

EARLIEST, LATEST = -2, -1
"""The offsets that mean start and end of a partition in JSON, as in Spark's Kafka source."""

DEFAULT_ADDRESS = "127.0.0.1:9092"
DEFAULT_MAX_ROWS = 500_000
DEFAULT_MAX_BYTES = 256 << 20
DEFAULT_BATCH_ROWS = 10_000

_SPARKS = {"path", "checkpointlocation", "queryname", "outputmode", "includeheaders"}
"""Options that Spark itself uses and passes on; headers are always included."""
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20}
_UNITS |= {"g": 1 << 30, "gb": 1 << 30}

Offsets = str | dict[str, dict[int, int]]
"""``earliest``, ``latest``, or offsets by partition, by topic."""


class Server(msgspec.Struct, frozen=True):
    """How to reach the server: address, client settings, timeout."""

    address: str
    settings: dict[str, str]
    timeout_s: float = 30.0

    def cluster(self) -> Cluster:
        """Return the ``Cluster`` with this address, settings and timeout."""
        return Cluster(self.address, timeout_s=self.timeout_s, settings=self.settings)


class Edge(msgspec.Struct, frozen=True):
    """Where a read starts or ends: at offsets, or at a timestamp."""

    offsets: Offsets
    timestamp_ms: int | None = None


class SourceOptions(msgspec.Struct, frozen=True):
    """The parsed options of a source."""

    server: Server
    topics: tuple[str, ...]
    pattern: str | None
    starting: Edge
    ending: Edge
    max_rows: int
    max_bytes: int
    min_partitions: int
    max_rows_per_partition: int | None
    fail_on_data_loss: bool
    group: str | None
    by_timestamp: bool
    batch_rows: int
    mark_end: bool
    """Whether a row that stands for the end of the input is read after the last event."""


class SinkOptions(msgspec.Struct, frozen=True):
    """The parsed options of a sink."""

    server: Server
    topic: str | None
    """The topic of rows that have no topic column."""
    pipeline: str | None
    batch: int | None
    """The batch number, given in foreachBatch, where Spark does not pass it to the sink."""
    run: str
    parallel: bool
    staging: str | None
    timeout_ms: int
    compression: str
    marks_topic: str


class Given:
    """The options that the user gave, case-insensitive; records which of them were read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): str(value) for name, value in options.items()}
        self._known = set(_SPARKS)

    def text(self, *names: str) -> str | None:
        """Return the value of an option with one of these names; None if it was not given."""
        self._known |= {name.lower() for name in names}
        found = [name for name in names if self._options.get(name.lower())]
        if len(found) > 1:
            raise InvalidSetting(f"{found[0]} and {found[1]} say the same; give one of them")
        return self._options[found[0].lower()] if found else None

    def number(self, *names: str, default: int, least: int = 1) -> int:
        """Return an option as a whole number; suffixes k, m, g multiply by 1024, 1024², 1024³."""
        text = self.text(*names)
        if text is None:
            return default
        found = re.fullmatch(r"(\d+)\s*([kmg]?b?)", text.strip().lower())
        number = int(found[1]) * _UNITS[found[2]] if found else -1
        if number < least:
            raise InvalidSetting(f"{names[0]} must be a number, {least} or more, not {text!r:.100}")
        return number

    def flag(self, name: str, *, default: bool) -> bool:
        """Return the option as a boolean: true or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise InvalidSetting(f"{name} must be true or false, not {text!r:.100}")
        return text.lower() == "true"

    def choice(self, name: str, *choices: str) -> str:
        """Return the option, which must be one of the allowed words; by default the first."""
        text = self.text(name) or choices[0]
        if text.lower() not in choices:
            raise InvalidSetting(f"{name} must be {' or '.join(choices)}, not {text!r:.100}")
        return text.lower()

    def server(self) -> Server:
        """Return how to reach the broker; options ``kafka.*`` become librdkafka settings."""
        address = self.text("address", "kafka.bootstrap.servers") or DEFAULT_ADDRESS
        settings = {
            name.removeprefix("kafka."): value
            for name, value in self._options.items()
            if name.startswith("kafka.") and name != "kafka.bootstrap.servers"
        }
        self._known |= {f"kafka.{name}" for name in settings}
        timeout_s = self.number("timeoutSeconds", default=30)
        server = Server(address, settings, float(timeout_s))
        server.cluster()
        return server

    def refuse_others(self, kind: str) -> None:
        """Raise InvalidSetting if an option was given that nobody read, as it is unknown then."""
        # Spark adds options that begin with underscores.
        others = [each for each in self._options if each not in self._known and each[:1] != "_"]
        if others:
            known = ", ".join(sorted(self._known - _SPARKS))
            raise InvalidSetting(f"a mainstem {kind} has no option {others[0]!r}; it has {known}")


def source_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a source; raises InvalidSetting for invalid or unknown ones."""
    given = Given(options)
    topics, pattern = _topics(given)
    maximum = given.text("maxRowsPerPartition", "maxRecordsPerPartition")
    found = SourceOptions(
        server=given.server(),
        topics=topics,
        pattern=pattern,
        starting=_edge(given, "starting", "earliest"),
        ending=_edge(given, "ending", "latest"),
        max_rows=given.number(
            "maxRowsPerTrigger", "maxOffsetsPerTrigger", default=DEFAULT_MAX_ROWS
        ),
        max_bytes=given.number("maxBytesPerTrigger", default=DEFAULT_MAX_BYTES),
        min_partitions=given.number("minPartitions", default=1),
        max_rows_per_partition=(
            given.number("maxRowsPerPartition", "maxRecordsPerPartition", default=1)
            if maximum
            else None
        ),
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        group=given.text("group", "groupId"),
        by_timestamp=given.choice("admit", "timestamp", "evenly") == "timestamp",
        batch_rows=given.number("batchRows", default=DEFAULT_BATCH_ROWS),
        mark_end=given.flag("markEnd", default=False),
    )
    given.refuse_others("source")
    return found


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a sink; raises InvalidSetting for invalid or unknown ones."""
    given = Given(options)
    batch = given.text("batch")
    found = SinkOptions(
        server=given.server(),
        topic=given.text("topic", "path"),
        pipeline=given.text("pipeline", "queryName"),
        batch=given.number("batch", default=0, least=0) if batch else None,
        run=given.text("run") or "",
        parallel=given.flag("parallel", default=False),
        staging=given.text("stagingLocation"),
        timeout_ms=given.number("transactionTimeoutMs", default=60_000),
        compression=given.choice("compression", *COMPRESSIONS),
        marks_topic=given.text("marksTopic") or MARKS_TOPIC,
    )
    given.refuse_others("sink")
    if found.topic is not None:
        check_topic(found.topic)
    if found.batch is not None and found.pipeline is None:
        raise InvalidSetting("option batch needs a name under which batches count: option pipeline")
    return found


def _topics(given: Given) -> tuple[tuple[str, ...], str | None]:
    pattern = given.text("subscribePattern")
    names = given.text("subscribe", "topic", "topics", "path")
    if pattern and names:
        raise InvalidSetting("subscribe and subscribePattern exclude each other; give one of them")
    if pattern:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidSetting(f"subscribePattern {pattern!r:.200}: {error}") from None
        return (), pattern
    topics = tuple(dict.fromkeys(each.strip() for each in (names or "").split(",") if each.strip()))
    if not topics:
        raise InvalidSetting(
            "no topic to read: load('orders'), or option subscribe ('orders,refunds') "
            "or subscribePattern ('orders-.*')"
        )
    return topics, None


def _edge(given: Given, side: str, default: str) -> Edge:
    offsets, timestamp = given.text(f"{side}Offsets"), given.text(f"{side}Timestamp")
    if offsets and timestamp:
        raise InvalidSetting(f"{side}Offsets and {side}Timestamp exclude each other; give one")
    if timestamp:
        return Edge(default, timestamp_of(timestamp, f"{side}Timestamp"))
    if offsets is None:
        return Edge(default)
    if offsets.lower() in ("earliest", "latest"):
        if side == "ending" and offsets.lower() == "earliest":
            raise InvalidSetting("endingOffsets cannot be earliest: there would be nothing to read")
        return Edge(offsets.lower())
    return Edge(_offsets(offsets, f"{side}Offsets"))


def _offsets(text: str, name: str) -> dict[str, dict[int, int]]:
    try:
        found: object = msgspec.json.decode(text)
        # Accepts the JSON that a progress report or a checkpoint shows.
        if isinstance(found, dict) and {"offsets", "ids"} <= set(found):
            found = found["offsets"]
        return msgspec.convert(found, dict[str, dict[int, int]], strict=False)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InvalidSetting(
            f"{name} must be earliest, latest, or JSON as "
            f'{{"orders": {{"0": 23, "1": -2}}}} (-2 earliest, -1 latest): {error}'
        ) from None


def timestamp_of(text: str, name: str) -> int:
    """Return ms since 1970, from that number or an ISO 8601 time (UTC without a zone)."""
    if re.fullmatch(r"\d+", text.strip()):
        return int(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidSetting(
            f"{name} must be milliseconds since 1970, or a time as 2026-01-31T12:00:00Z, "
            f"not {text!r:.100}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
