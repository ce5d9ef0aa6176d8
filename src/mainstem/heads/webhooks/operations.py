"""The operations of the admin port on endpoints and sources: names, arguments and results.

Separate from the code that carries them out, because the command line imports only this module.
"""

import msgspec

from mainstem.heads.webhooks.endpoints import DAY, EndpointSettings, SigningSecret
from mainstem.heads.webhooks.sources import SourceSettings

ADD, LIST, SHOW, REMOVE = "webhooks/add", "webhooks/ls", "webhooks/show", "webhooks/rm"
PAUSE, RESUME, ROTATE = "webhooks/pause", "webhooks/resume", "webhooks/rotate"
TEST, REPLAY, ATTEMPTS = "webhooks/test", "webhooks/replay", "webhooks/attempts"
ADD_SOURCE, LIST_SOURCES = "webhooks/sources/add", "webhooks/sources/ls"
SHOW_SOURCE, REMOVE_SOURCE = "webhooks/sources/show", "webhooks/sources/rm"


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of an operation."""


class ListEndpoints(Arguments, frozen=True):
    """Arguments for listing endpoints."""


class NameEndpoint(Arguments, frozen=True):
    """Arguments for an operation on one endpoint."""

    name: str


class AddEndpoint(EndpointSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments for adding an endpoint, or for replacing the definition of one."""

    secret: str = ""
    """``file:NAME`` or ``env:NAME``; empty: one is generated, and shown once."""
    algorithm: str = "hmac"
    """The algorithm of a generated secret: hmac or ed25519."""
    from_start: bool = False
    """Whether the events that the topics have now are delivered, too."""
    replace: bool = False
    """Whether to replace the definition of an endpoint of this name; it keeps its secrets and
    queues.
    """


class RotateSecret(Arguments, frozen=True):
    """Arguments for replacing the secret of an endpoint."""

    name: str
    secret: str = ""
    algorithm: str = "hmac"
    overlap_ms: int = DAY
    """How long requests are signed with the old secret, too."""


class ReplayEvents(Arguments, frozen=True):
    """Arguments for delivering events again: a message id, or a range of a partition's offsets."""

    name: str
    id: str = ""
    topic: str = ""
    partition: int = 0
    first: int | None = None
    """The first offset; None for the start of the log."""
    last: int | None = None
    """The last offset; None for the end of the log."""


class ListAttempts(Arguments, frozen=True):
    """Arguments for listing the last attempts of an endpoint."""

    name: str
    id: str = ""
    """A message id, to list only the attempts of that message; empty for all."""
    limit: int = 100


class EndpointInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint and its state, as the admin port returns it."""

    name: str
    url: str
    topics: str
    status: str
    reason: str
    since_ms: int
    failing_since_ms: int | None
    waiting: int
    """Number of unsettled offsets of its queues: an upper limit of the events that wait."""
    in_flight: int
    filters: tuple[str, ...]
    order: str
    payload: str
    secrets: tuple[SigningSecret, ...]
    """References to the secrets, the newest first."""
    public_keys: tuple[str, ...]
    """The public keys of ed25519 secrets."""
    retries_ms: tuple[int, ...]
    jitter: float
    timeout_ms: int
    max_in_flight: int
    max_per_s: float | None
    batch: int
    pause_after_ms: int
    replays: tuple[str, ...]
    """Ids of replays that are not finished."""


class Secured(msgspec.Struct, frozen=True):
    """An endpoint; ``secret`` is set only if the operation has generated a new secret."""

    endpoint: EndpointInfo
    secret: str


class Tested(msgspec.Struct, frozen=True):
    """The receiver's answer to a test message."""

    id: str
    status: int | None
    error: str
    took_ms: int


class Replayed(msgspec.Struct, frozen=True):
    """A replay that was started."""

    id: str
    offsets: int
    """How many offsets the range of the replay has."""


class ListSources(Arguments, frozen=True):
    """Arguments for listing sources."""


class NameSource(Arguments, frozen=True):
    """Arguments for an operation on one source."""

    name: str


class AddSource(SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments for adding a source, or for replacing the definition of one."""

    secrets: tuple[str, ...] = ()
    """``file:NAME`` or ``env:NAME``, the newest first; none: one is generated, and shown once."""
    replace: bool = False


class SourceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A source, as the admin port returns it."""

    name: str
    url: str
    """The URL to which the source sends webhooks, with the address that this server knows of
    itself.
    """
    topic: str
    scheme: str
    secrets: tuple[SigningSecret, ...]
    header: str
    id_header: str
    tolerance_ms: int
    window_ms: int


class SourceAdded(msgspec.Struct, frozen=True):
    """A source; ``secret`` is set only if the operation has generated one."""

    source: SourceInfo
    secret: str
