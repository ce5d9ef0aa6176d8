"""What fuzzing has found, each in a test of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.heads.kafka.raw_peers import Peer, served

from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.metadata import (
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataTopicName,
)


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    """A client of an empty server."""
    with served(tmp_path / "served") as address, Peer(address) as found:
        yield found


@pytest.mark.parametrize("version", [10, 11])
def test_a_topic_by_its_id_is_refused_where_the_version_cannot_answer_so(
    peer: Peer, version: int
) -> None:
    wish = MetadataRequest((MetadataTopicName(topic_id=b"0123456789abcdef", name=None),))

    found = peer.ask(METADATA, version, wish, MetadataResponse)

    assert [(each.name, each.error_code) for each in found.topics] == [("", Code.INVALID_REQUEST)]
