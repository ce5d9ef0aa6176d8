"""The definition of an endpoint: where the events of a topic are delivered, and how."""

from enum import StrEnum, auto

import msgspec

from mainstem.core.errors import InvalidSetting
from mainstem.core.names import check_topic, is_internal, is_pattern, matches
from mainstem.heads.webhooks.filters import Filter
from mainstem.heads.webhooks.templates import Template
from mainstem.heads.webhooks.urls import check_url

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
RETRIES_MS = (
    5 * SECOND,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    14 * HOUR,
    20 * HOUR,
    24 * HOUR,
)
"""The delays before each retry that Standard Webhooks suggests."""
MAX_NAME = 100
MAX_RETRIES = 100
MAX_SECRETS = 10
OWN_TOPICS = "webhooks."
"""Prefix of this head's own topics: the attempt log, and the ids of received messages."""
DEAD = ".dead"


class Order(StrEnum):
    """In which order the events of a topic are delivered to an endpoint."""

    PARALLEL = auto()
    """Several requests at a time, in no order."""
    KEY = auto()
    """Events of one key in order, one at a time; those without a key in no order."""
    ENDPOINT = auto()
    """One request at a time; an event that fails is retried before the next one is sent."""


class Payload(StrEnum):
    """What the body of a request contains."""

    VALUE = auto()
    """The event's value as it is."""
    ENVELOPE = auto()
    """A JSON object with value, key, headers, timestamp and position."""
    CLOUDEVENTS = auto()
    """A CloudEvent in structured mode (JSON)."""
    CLOUDEVENTS_BINARY = "cloudevents-binary"
    """A CloudEvent in binary mode: attributes in headers, the value as body."""
    TEMPLATE = auto()
    """JSON by the endpoint's template."""


class SigningSecret(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reference to a signing secret; the secret itself is never part of a definition."""

    reference: str
    """``file:NAME`` or ``env:NAME``."""
    until_ms: int | None = None
    """When the secret expires, as a newer one replaces it (ms since 1970); None for the current
    one.
    """


class Status(StrEnum):
    """Whether events are delivered to an endpoint."""

    ACTIVE = auto()
    PAUSED = auto()
    """An operator has paused it, or it has failed for long; events wait in its queues."""
    DISABLED = auto()
    """The receiver answered 410 Gone; events wait in its queues."""


class EndpointState(msgspec.Struct, frozen=True, tag_field="kind", tag="endpoint-state/1"):
    """The status of an endpoint; the head changes it, so it is stored apart from the definition."""

    status: Status = Status.ACTIVE
    reason: str = ""
    since_ms: int = 0
    failing_since_ms: int | None = None
    """Since when every attempt has failed; None if one succeeded."""


class EndpointSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a user says about an endpoint: its URL, its events, and how they are delivered."""

    name: str
    url: str
    topics: str
    """A topic, or a pattern of topics."""
    filters: tuple[str, ...] = ()
    order: Order = Order.PARALLEL
    payload: Payload = Payload.VALUE
    template: str = ""
    """JSON with ``{{FIELD}}`` for fields of the event; only with the payload ``template``."""
    retries_ms: tuple[int, ...] = RETRIES_MS
    """The delay before each retry; after the last one, the event becomes a dead letter."""
    jitter: float = 0.1
    """Each delay is made longer by a random share of it, from 0 to this value."""
    timeout_ms: int = 15_000
    """How long a request may take, from the connection to the end of the response."""
    max_in_flight: int = 8
    max_per_s: float | None = None
    """Maximum number of requests per second; None is no limit."""
    batch: int = 1
    """Maximum number of events in a request."""
    pause_after_ms: int = 5 * DAY
    """The endpoint is paused when every attempt has failed for this long."""


class Endpoint(
    EndpointSettings,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="kind",
    tag="endpoint/1",
):
    """An endpoint as it is stored: its settings and its secrets."""

    secrets: tuple[SigningSecret, ...] = ()
    """References to the signing secrets, the newest first."""
    created_ms: int = 0

    def check(self) -> None:
        """Raise InvalidSetting for invalid values and combinations of values."""
        check_name(self.name)
        check_url(self.url)
        if not is_pattern(self.topics):
            check_topic(self.topics)
        if self.topics.startswith(OWN_TOPICS):
            raise InvalidSetting(f"topics that begin with {OWN_TOPICS} are this head's own")
        Filter(self.filters)
        self._check_numbers()
        if (self.payload is Payload.TEMPLATE) != bool(self.template):
            raise InvalidSetting("the payload template needs a template, and others have none")
        if self.template:
            Template(self.template)
        if self.batch > 1 and self.payload in (Payload.VALUE, Payload.CLOUDEVENTS_BINARY):
            raise InvalidSetting(
                f"a request of several events cannot have the payload {self.payload}: "
                "choose envelope or cloudevents, or batch 1"
            )
        if self.batch > 1 and self.order is Order.ENDPOINT:
            raise InvalidSetting("order endpoint sends one event at a time: choose batch 1")

    def matches(self, topic: str) -> bool:
        """Tell whether events of a topic go to the endpoint.

        A pattern does not match dead letters or internal topics: the endpoint's own failures would
        be delivered to it.
        """
        if not is_pattern(self.topics):
            return topic == self.topics
        if is_internal(topic) or topic.endswith(DEAD) or topic.startswith(OWN_TOPICS):
            return False
        return matches(self.topics, topic)

    def _check_numbers(self) -> None:
        if len(self.retries_ms) > MAX_RETRIES or len(self.secrets) > MAX_SECRETS:
            raise InvalidSetting(
                f"an endpoint has at most {MAX_RETRIES} retries and {MAX_SECRETS} secrets"
            )
        ranges: tuple[tuple[str, float, float, float], ...] = (
            ("jitter", self.jitter, 0, 1),
            ("timeout_ms", self.timeout_ms, 10, 10 * MINUTE),
            ("max_in_flight", self.max_in_flight, 1, 1_000),
            ("max_per_s", 1 if self.max_per_s is None else self.max_per_s, 0.001, 1_000_000),
            ("batch", self.batch, 1, 1_000),
            ("pause_after_ms", self.pause_after_ms, SECOND, 365 * DAY),
            *(("retries_ms", each, 0, 30 * DAY) for each in self.retries_ms),
        )
        for name, value, least, most in ranges:
            if not least <= value <= most:
                raise InvalidSetting(f"{name} must be from {least:g} to {most:g}, not {value:g}")


def check_name(name: str) -> None:
    """Raise InvalidSetting if this is no valid name of an endpoint or source."""
    letters = name.replace("-", "").replace("_", "").replace(".", "")
    if not (letters.isascii() and letters.isalnum()) or len(name) > MAX_NAME:
        raise InvalidSetting(
            f"the name {name!r:.120} is not valid: use up to {MAX_NAME} of a-z, A-Z, 0-9, '.', '_' "
            "and '-', with a letter or digit"
        )
