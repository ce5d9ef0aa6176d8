"""The limit on the number of names in a request."""

from collections.abc import Sequence
from typing import TypeVar

from mainstem.heads.conversation import ProtocolError
from mainstem.heads.kafka.adapter.service import Asked

Name = TypeVar("Name")


def limited(asked: Asked, names: Sequence[Name]) -> Sequence[Name]:
    """Return the names in a request; raises ProtocolError if there are too many.

    Few responses have an error code for the whole request, and a response with an error for each
    name would be as long as the request.
    """
    most = asked.service.settings.max_names
    if len(names) > most:
        raise ProtocolError(f"a request with {len(names)} names; at most {most} are answered")
    return names
