"""Answers of the transaction APIs, sent when the result is durable."""

from collections.abc import Callable

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.service import Asked
from mainstem.kafka_protocol.error_codes import Code

Then = Callable[[Callable[[MainstemError | None], None]], None]


def reply_when_durable(asked: Asked, then: Then, answer: Callable[[Code], None]) -> None:
    """Reply, in the loop's thread, when a change is durable, or with the code of its failure."""
    service = asked.service

    def settled(error: MainstemError | None) -> None:
        code = Code.NONE if error is None else code_in(asked.header, error)
        service.on_loop(lambda: answer(code))

    then(settled)
