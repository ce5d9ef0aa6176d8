"""One STOMP session: which frame may come when, and the frames that answer it.

How this works: ``receive`` takes a frame and returns its request. It returns None if there is
nothing to do yet, for a heart-beat or a frame of a transaction, which is kept until COMMIT. A
violation of the protocol raises ``Refused``; its ERROR frame ends the session, as every ERROR does
[ERROR]. The time is an argument, in monotonic milliseconds.
"""

from collections.abc import Iterable
from enum import StrEnum, auto
from typing import ClassVar

import msgspec

from mainstem.heads.conversation import ProtocolError
from mainstem.heads.stomp.codec import HEART_BEAT, Frame, FrameScanner, Version, decode, encode
from mainstem.heads.stomp.settings import StompSettings

VERSIONS = ",".join(Version)
_CONNECTING = frozenset(("CONNECT", "STOMP"))
_MOST_BEAT_MS = 86_400_000


class Refused(ProtocolError):
    """Ends the session with an ERROR frame."""

    def __init__(self, summary: str, detail: str, farewell: bytes) -> None:
        super().__init__(f"{summary}: {detail.strip()}", farewell)
        self.summary = summary


class AckMode(StrEnum):
    """How messages of a subscription are acknowledged."""

    AUTO = auto()
    """Without acknowledgement: a message is settled as soon as it is sent."""
    CLIENT = auto()
    """Cumulative: an ACK covers all earlier messages of the subscription, too."""
    INDIVIDUAL = "client-individual"


class Connect(msgspec.Struct, frozen=True):
    """CONNECT or STOMP: log in, and negotiate the version and heart-beats."""

    command: ClassVar[str] = "CONNECT"
    login: str | None
    passcode: str | None
    client_id: str | None


class Send(msgspec.Struct, frozen=True):
    """SEND: publish a message to a destination."""

    command: ClassVar[str] = "SEND"
    destination: str
    headers: dict[str, str]
    body: bytes
    receipt: str | None


class Subscribe(msgspec.Struct, frozen=True):
    """SUBSCRIBE: receive the messages of a destination."""

    command: ClassVar[str] = "SUBSCRIBE"
    key: str
    """Distinguishes the subscription from others of the session."""
    id: str | None
    destination: str
    ack: AckMode
    headers: dict[str, str]
    receipt: str | None


class Unsubscribe(msgspec.Struct, frozen=True):
    """UNSUBSCRIBE: end a subscription."""

    command: ClassVar[str] = "UNSUBSCRIBE"
    subscription: Subscribe
    headers: dict[str, str]
    receipt: str | None


class Settle(msgspec.Struct, frozen=True):
    """ACK or NACK: acknowledge or reject messages."""

    message_id: str
    accepted: bool
    requeue: bool | None
    """For a NACK, whether the message is to be redelivered; None if the client does not say."""
    receipt: str | None

    @property
    def command(self) -> str:
        """The command of the frame: ACK or NACK."""
        return "ACK" if self.accepted else "NACK"


class Begin(msgspec.Struct, frozen=True):
    """BEGIN: start a transaction."""

    command: ClassVar[str] = "BEGIN"
    receipt: str | None


class Commit(msgspec.Struct, frozen=True):
    """COMMIT: carry out all requests of the transaction, in order."""

    command: ClassVar[str] = "COMMIT"
    requests: tuple[Send | Settle, ...]
    receipt: str | None


class Abort(msgspec.Struct, frozen=True):
    """ABORT: drop the requests of the transaction, without effect."""

    command: ClassVar[str] = "ABORT"
    requests: tuple[Send | Settle, ...]
    receipt: str | None


class Disconnect(msgspec.Struct, frozen=True):
    """DISCONNECT: end the session, after a receipt for all earlier frames."""

    command: ClassVar[str] = "DISCONNECT"
    receipt: str | None


Request = Connect | Send | Subscribe | Unsubscribe | Settle | Begin | Commit | Abort | Disconnect


class _Transaction(msgspec.Struct):
    requests: list[Send | Settle] = []
    bytes: int = 0


class Session:
    """The protocol state of one client: decodes frames to requests, and encodes responses."""

    def __init__(self, settings: StompSettings, now_ms: int) -> None:
        self._settings = settings
        self._scanner = FrameScanner(settings)
        self._receipt: str | None = None
        """The receipt header of the frame that ``receive`` got last."""
        self._subscriptions: dict[str, Subscribe] = {}
        self._transactions: dict[str, _Transaction] = {}
        self._transaction_bytes = 0
        """Bytes of the requests in all open transactions."""
        self.heard_ms = self.sent_ms = now_ms
        """When data last came from the client, and was last sent to it (monotonic ms)."""
        self._send_every_ms = self._hear_every_ms = 0
        self.version: Version | None = None
        """The negotiated version; None until the client has sent CONNECT."""

    # Bytes in

    def frame_size(self, view: memoryview) -> int | None:
        """Return the size of the frame that begins here, None if more bytes are needed."""
        try:
            return self._scanner.size(view)
        except ProtocolError as error:
            raise self.refused("Malformed frame", f"{error}\n") from None

    def receive(self, data: memoryview) -> Request | None:
        """Decode a frame to its request; return None if there is nothing to do yet."""
        self._receipt = None
        self._scanner.forget()
        try:
            frame = decode(data, self._settings, self.version)
        except ProtocolError as error:
            raise self.refused("Malformed frame", f"{error}\n") from None
        if frame is None:
            return None
        if frame.command not in _CONNECTING:
            self._receipt = frame.headers.get("receipt")
        if frame.command != "SEND" and frame.body.strip():
            # "All other frames MUST NOT have a body" [Body]
            raise self.refused("Malformed frame", f"{frame.command} must not have a body\n")
        if self.version is None:
            return self._connect(frame)
        return self._request(frame)

    # Frames out

    def connected(self, session: str, server: str) -> bytes:
        """Encode CONNECTED, the response to CONNECT."""
        headers = [
            ("version", str(self.version)),
            ("heart-beat", f"{self._send_every_ms},{self._hear_every_ms}"),
            ("session", session),
            ("server", server),
        ]
        return encode("CONNECTED", headers)

    def receipt(self, receipt: str) -> bytes:
        """Encode RECEIPT, which confirms the frame with this receipt header."""
        return encode("RECEIPT", (("receipt-id", receipt),), version=self.version)

    def message(self, headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
        """Encode MESSAGE, which delivers a message."""
        return encode("MESSAGE", headers, body, self.version)

    def refused(self, summary: str, detail: str, receipt: str | None = None) -> Refused:
        """Return the error for the last received frame, or for the frame with this receipt."""
        headers = [("message", summary), ("content-type", "text/plain"), ("version", VERSIONS)]
        if (receipt := receipt or self._receipt) is not None:
            headers.append(("receipt-id", receipt))
        body = detail.encode("utf-8", "replace")
        return Refused(summary, detail, encode("ERROR", headers, body, self.version))

    # Time

    def deadline(self) -> int | None:
        """Return when ``tick`` must be called next (monotonic ms), None if never."""
        if self.version is None:
            return self.sent_ms + self._settings.connect_ms
        times = []
        if self._send_every_ms:
            # Send early, to allow for the network's delay.
            times.append(self.sent_ms + self._send_every_ms * 3 // 4)
        if self._hear_every_ms:
            times.append(self._silent_at())
        return min(times) if times else None

    def tick(self, now_ms: int) -> bytes:
        """Return a heart-beat if one is due; raises Refused if the client missed its own."""
        if self.version is None:
            if now_ms >= self.sent_ms + self._settings.connect_ms:
                raise self.refused("Not connected", "no CONNECT was received in time\n")
            return b""
        if self._hear_every_ms and now_ms >= self._silent_at():
            raise self.refused(
                "Heart-beat missed", f"nothing was received for {now_ms - self.heard_ms} ms\n"
            )
        if self._send_every_ms and now_ms >= self.sent_ms + self._send_every_ms * 3 // 4:
            self.sent_ms = now_ms
            return HEART_BEAT
        return b""

    def _silent_at(self) -> int:
        # "the receiver SHOULD be tolerant and take into account an error margin" [Heart-beating]
        return self.heard_ms + 2 * self._hear_every_ms

    # CONNECT

    def _connect(self, frame: Frame) -> Connect:
        if frame.command not in _CONNECTING:
            raise self.refused("Illegal command", "You must log in using CONNECT first\n")
        headers = frame.headers
        # A frame without the header is from a client of 1.0 [Protocol Negotiation].
        offered = {each.strip() for each in headers.get("accept-version", "1.0").split(",")}
        version = max((each for each in Version if each in offered), default=None)
        if version is None:
            raise self.refused("Version mismatch", f"Supported versions are {VERSIONS}\n")
        can_send_ms, wants_ms = self._heart_beat(headers.get("heart-beat", "0,0"))
        least_ms = self._settings.min_heart_beat_ms
        self._send_every_ms = max(wants_ms, least_ms) if wants_ms else 0
        self._hear_every_ms = max(can_send_ms, least_ms) if can_send_ms else 0
        self.version = version
        return Connect(headers.get("login"), headers.get("passcode"), headers.get("client-id"))

    def _heart_beat(self, text: str) -> tuple[int, int]:
        first, comma, second = text.replace(" ", "").partition(",")
        if not (comma and first.isdecimal() and second.isdecimal() and len(text) <= 30):
            raise self.refused(
                "Invalid header", f"heart-beat must be two numbers as in 0,0, not {text!r:.50}\n"
            )
        return min(int(first), _MOST_BEAT_MS), min(int(second), _MOST_BEAT_MS)

    # Other commands

    def _request(self, frame: Frame) -> Request | None:
        match frame.command:
            case "SEND":
                return self._kept(frame, self._send(frame))
            case "ACK" | "NACK":
                return self._kept(frame, self._settle(frame))
            case "SUBSCRIBE":
                return self._subscribe(frame)
            case "UNSUBSCRIBE":
                return self._unsubscribe(frame)
            case "BEGIN" | "COMMIT" | "ABORT":
                return self._transact(frame)
            case "DISCONNECT":
                return Disconnect(self._receipt)
            case "CONNECT" | "STOMP":
                raise self.refused("Illegal command", "CONNECT was sent already\n")
            case _:
                text = f'Could not interpret command "{frame.command}"\n'
                raise self.refused("Bad command", text)

    def _send(self, frame: Frame) -> Send:
        if "message-id" in frame.headers:
            raise self.refused("Invalid header", "'message-id' is not allowed on 'SEND'.\n")
        return Send(self._destination(frame), frame.headers, frame.body, self._receipt)

    def _settle(self, frame: Frame) -> Settle:
        name = "id" if self.version is Version.V1_2 else "message-id"
        message_id = frame.headers.get(name)
        if message_id is None:
            raise self.refused(
                "Missing header", f"'{frame.command}' must include the '{name}' header\n"
            )
        requeue = None
        if "requeue" in frame.headers:
            requeue = frame.headers["requeue"].lower() != "false"
        return Settle(message_id, frame.command == "ACK", requeue, self._receipt)

    def _subscribe(self, frame: Frame) -> Subscribe:
        headers, destination = frame.headers, self._destination(frame)
        named = headers.get("id")
        if named is None and self.version is not Version.V1_0:
            raise self.refused("Missing Header", "'SUBSCRIBE' must include the 'id' header\n")
        key = _key(named, destination)
        if key in self._subscriptions:
            raise self.refused(
                "Duplicated subscription identifier",
                f"A subscription identified by '{named or destination}' already exists.\n",
            )
        if len(self._subscriptions) >= self._settings.max_subscriptions:
            raise self.refused(
                "Too many subscriptions",
                f"{self._settings.max_subscriptions} is the limit (stomp.max_subscriptions)\n",
            )
        try:
            ack = AckMode(headers.get("ack", "auto"))
        except ValueError:
            choices = ", ".join(AckMode)
            raise self.refused("Invalid header", f"'ack' must be one of {choices}\n") from None
        found = Subscribe(key, named, destination, ack, headers, self._receipt)
        self._subscriptions[key] = found
        return found

    def _unsubscribe(self, frame: Frame) -> Unsubscribe:
        named, destination = frame.headers.get("id"), frame.headers.get("destination")
        if named is None and destination is None:
            raise self.refused(
                "Missing destination or id",
                "UNSUBSCRIBE must include a 'destination' or 'id' header\n",
            )
        found = self._subscriptions.pop(_key(named, destination or ""), None)
        if found is None:
            raise self.refused(
                "No subscription found",
                f"There is no subscription {named or destination!r:.100}.\n",
            )
        return Unsubscribe(found, frame.headers, self._receipt)

    def _transact(self, frame: Frame) -> Begin | Commit | Abort:
        name = frame.headers.get("transaction")
        if name is None:
            text = f"'{frame.command}' must include a 'transaction' header\n"
            raise self.refused("Missing transaction", text)
        if frame.command != "BEGIN":
            ended = self._transaction(name)
            del self._transactions[name]
            self._transaction_bytes -= ended.bytes
            made = Commit if frame.command == "COMMIT" else Abort
            return made(tuple(ended.requests), self._receipt)
        if name in self._transactions:
            raise self.refused("Bad transaction", f"{name!r:.100} has begun already\n")
        if len(self._transactions) >= self._settings.max_transactions:
            text = f"{self._settings.max_transactions} at once is the limit\n"
            raise self.refused("Too many transactions", text)
        self._transactions[name] = _Transaction()
        return Begin(self._receipt)

    def _kept(self, frame: Frame, request: Send | Settle) -> Send | Settle | None:
        """Return a request; but keep that of a transaction until COMMIT, and return None."""
        name = frame.headers.get("transaction")
        if name is None:
            return request
        found = self._transaction(name)
        found.requests.append(request)
        size = len(frame.body) + sum(len(k) + len(v) + 8 for k, v in frame.headers.items())
        found.bytes += size
        self._transaction_bytes += size
        if self._transaction_bytes > self._settings.max_transaction_bytes:
            raise self.refused(
                "Transaction too large",
                f"{self._settings.max_transaction_bytes} bytes is the limit "
                "(stomp.max_transaction_bytes)\n",
            )
        return None

    def _transaction(self, name: str) -> _Transaction:
        found = self._transactions.get(name)
        if found is None:
            raise self.refused(
                "Bad transaction", f"Invalid transaction identifier: {name!r:.100}\n"
            )
        return found

    def _destination(self, frame: Frame) -> str:
        found = frame.headers.get("destination")
        if found is None:
            text = f"'{frame.command}' must include a 'destination' header\n"
            raise self.refused("Missing destination", text)
        return found


def _key(named: str | None, destination: str) -> str:
    """Return the key of a subscription: made of its id, or in 1.0 perhaps of its destination.

    An id and a destination never give the same key.
    """
    return f"destination {destination}" if named is None else f"id {named}"
