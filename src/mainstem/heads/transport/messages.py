"""Passes messages, received by a library that owns its sockets, to the head."""

import logging
from collections.abc import Callable
from typing import TypeVar

from mainstem.heads.transport.traffic import Traffic

T = TypeVar("T")
_logger = logging.getLogger("mainstem.heads")


def pass_on(messages: list[T], receive: Callable[[list[T]], None], traffic: Traffic) -> None:
    """Call ``receive`` with messages; count them as cut off if it fails."""
    try:
        receive(messages)
    except Exception:
        # The socket goes on with the next messages.
        traffic.cut_off += len(messages)
        _logger.exception("%d messages could not be handled", len(messages))
