"""Which broker leads a partition, and a connection to it."""

from contextlib import suppress

from confluent_kafka import KafkaError

from mainstem.core.errors import Unreachable
from mainstem.remote.administering import Place
from mainstem.remote.link import Link, host_and_port
from mainstem.remote.refusals import explained
from mainstem.remote.wire import INT8, Answer, Wire, array, string

MOVED = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
    }
)
"""Ask who leads the partition now."""
_METADATA, _VERSION = 3, 4
_NEVER_CREATE = 0


class Leaders:
    """Connections to the brokers that lead partitions, made when first asked for."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._leader: dict[Place, tuple[str, int]] = {}
        self._wires: dict[tuple[str, int], Wire] = {}

    def wire(self, place: Place) -> Wire:
        """Return a connection to the broker that leads a partition."""
        if place not in self._leader:
            self._look(place[0])
        if place not in self._leader:
            raise Unreachable(
                self._link.address, f"nobody leads partition {place[1]} of topic {place[0]!r}"
            )
        at = self._leader[place]
        if at not in self._wires:
            self._wires[at] = Wire(*at, self._link.timeout_s)
        return self._wires[at]

    def forget(self, place: Place) -> None:
        """Ask anew who leads a partition, and by a new connection."""
        at = self._leader.pop(place, None)
        if at is not None and at in self._wires:
            self._wires.pop(at).close()

    def close(self) -> None:
        """Let go of all connections."""
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    def _look(self, topic: str) -> None:
        wire = self._any()
        try:
            answer = wire.ask(
                _METADATA, _VERSION, array([string(topic)]) + INT8.pack(_NEVER_CREATE)
            )
            self._read(answer)
        finally:
            wire.close()

    def _any(self) -> Wire:
        """Connect to the first of the addresses where somebody answers."""
        first, *others = self._link.address.split(",")
        for place in others:
            with suppress(Unreachable):
                return Wire(*host_and_port(place), self._link.timeout_s)
        return Wire(*host_and_port(first), self._link.timeout_s)

    def _read(self, answer: Answer) -> None:
        answer.int32()
        brokers = {
            number: (host, port) for number, host, port, _ in answer.array(lambda: _broker(answer))
        }
        answer.string()
        answer.int32()
        for code, topic, partitions in answer.array(lambda: _topic(answer)):
            if code and code not in MOVED:
                raise explained(KafkaError(code), self._link.address, topic=topic)
            for partition, leader in partitions:
                if leader in brokers:
                    self._leader[topic, partition] = brokers[leader]


def _broker(answer: Answer) -> tuple[int, str, int, str]:
    return answer.int32(), answer.string(), answer.int32(), answer.string()


def _topic(answer: Answer) -> tuple[int, str, list[tuple[int, int]]]:
    code, topic = answer.int16(), answer.string()
    answer.int8()
    return code, topic, answer.array(lambda: _partition(answer))


def _partition(answer: Answer) -> tuple[int, int]:
    answer.int16()
    partition, leader = answer.int32(), answer.int32()
    answer.array(answer.int32)
    answer.array(answer.int32)
    return partition, leader
