"""A disk that fails, as Kafka clients see it: nothing is acknowledged that could be lost."""

from pathlib import Path

from tests.faults.killable_server import Mortal, read, until
from tests.heads.kafka.raw_peers import Peer, fetching, produce

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.fetch import FETCH, FetchResponse

FAILS = """
import errno, os
from mainstem.log.files.files import RealFile
def fail(self, real=RealFile.sync):
    if os.path.exists({sign!r}):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    real(self)
RealFile.sync = fail
"""
"""Syncs fail while a file is there."""
KNOWN, LOST = (bytes(build([Event(value)], now_ms=1)) for value in (b"known", b"lost"))


def test_what_a_failing_disk_has_not_taken_is_not_acknowledged_and_what_it_has_is_read(
    tmp_path: Path,
) -> None:
    sign = tmp_path / "failing"
    with (
        Mortal(tmp_path / "data", flaw=FAILS.format(sign=str(sign))) as server,
        Peer(server.address) as peer,
    ):
        assert produce(peer, "t", KNOWN).error_code == 0

        sign.touch()
        codes = [Code(produce(peer, "t", LOST).error_code) for _ in range(3)]
        fetched = peer.ask(FETCH, 12, fetching("t"), FetchResponse).responses[0].partitions[0]
        sign.unlink()
        after = Code(produce(peer, "t", LOST).error_code)
        peer.socket.close()
        server.restart()

        assert codes == [Code.KAFKA_STORAGE_ERROR] * 3
        # After a sync that failed, nobody knows what the disk has, before it is opened anew.
        assert after is Code.KAFKA_STORAGE_ERROR
        assert fetched.error_code == 0
        assert fetched.high_watermark == 1
        found = read(server.address, "t", 0)
        assert found[0] == b"known"
        # What was not acknowledged may be there all the same, once for every try at most.
        assert set(found[1:]) <= {b"lost"}
        assert len(found) <= 5


def test_a_directory_that_is_deleted_acknowledges_nothing_more(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Mortal(data) as server, Peer(server.address) as peer:
        assert produce(peer, "t", KNOWN).error_code == 0
        for each in data.rglob("*"):
            if each.is_file():
                each.unlink()

        until(lambda: produce(peer, "t", LOST).error_code == Code.KAFKA_STORAGE_ERROR)

        # Others are answered, and told the same.
        with Peer(server.address) as other:
            answer = produce(other, "t", LOST)
            assert Code(answer.error_code) is Code.KAFKA_STORAGE_ERROR
            assert answer.error_message
