"""The definition of a source: a client whose webhooks are received, and how they are verified."""

from enum import StrEnum, auto

import msgspec

from mainstem.core.errors import InvalidSetting
from mainstem.core.names import check_topic
from mainstem.heads.webhooks.endpoints import (
    DAY,
    HOUR,
    MAX_SECRETS,
    MINUTE,
    OWN_TOPICS,
    SECOND,
    SigningSecret,
    check_name,
)

MAX_WINDOW_MS = 7 * DAY


class Scheme(StrEnum):
    """How a source proves that it has sent a request."""

    STANDARD = auto()
    """Standard Webhooks: ``webhook-signature``, HMAC or ed25519, with a timestamp."""
    GITHUB = auto()
    """``X-Hub-Signature-256``."""
    STRIPE = auto()
    """``Stripe-Signature``, with a timestamp."""
    SLACK = auto()
    """``X-Slack-Signature``, with a timestamp."""
    HMAC = auto()
    """HMAC-SHA256 of the body, in hex or base64, in a header of any name."""
    TOKEN = auto()
    """A secret that is sent as it is, as bearer token or in a header of any name."""


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a user says about a source of webhooks, and the topic to which they are appended."""

    name: str
    topic: str
    scheme: Scheme = Scheme.STANDARD
    header: str = ""
    """The header with the signature or token; only for the schemes ``hmac`` and ``token``."""
    id_header: str = ""
    """The header with the id of the message, empty if there is none; only for ``hmac`` and
    ``token``.
    """
    tolerance_ms: int = 5 * MINUTE
    """How far the timestamp of a request may be from the server's time."""
    window_ms: int = DAY
    """How long an id is remembered: a message with the same id is answered, but not appended again.
    """


class Source(
    SourceSettings, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="source/1"
):
    """A source as it is stored: its settings and its secrets."""

    secrets: tuple[SigningSecret, ...] = ()
    """References to the secrets for verification, the newest first."""
    created_ms: int = 0

    @property
    def signature_header(self) -> str:
        """The header with the signature or token, in lower case."""
        default = "authorization" if self.scheme is Scheme.TOKEN else "x-signature"
        return self.header.lower() or default

    def check(self) -> None:
        """Raise InvalidSetting for invalid values."""
        check_name(self.name)
        check_topic(self.topic)
        if self.topic.startswith(OWN_TOPICS):
            raise InvalidSetting(f"topics that begin with {OWN_TOPICS} are this head's own")
        if not 1 <= len(self.secrets) <= MAX_SECRETS:
            raise InvalidSetting(f"a source has 1 to {MAX_SECRETS} secrets")
        has_headers = self.scheme in (Scheme.HMAC, Scheme.TOKEN)
        for header in (self.header, self.id_header):
            letters = header.replace("-", "").replace("_", "")
            if header and not (has_headers and letters.isascii() and letters.isalnum()):
                raise InvalidSetting(
                    f"the header {header!r:.100} is not valid; the schemes hmac and token have "
                    "headers of a name of your choice"
                )
        if not SECOND <= self.tolerance_ms <= HOUR:
            raise InvalidSetting(f"tolerance_ms must be from {SECOND} to {HOUR}")
        if not 0 <= self.window_ms <= MAX_WINDOW_MS:
            raise InvalidSetting(f"window_ms must be from 0 to {MAX_WINDOW_MS}")
