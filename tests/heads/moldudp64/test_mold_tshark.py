"""Wireshark's dissector reads the packets, requests and answers of a feed."""

from pathlib import Path

from tests.broker.brokers import publish
from tests.heads.moldudp64.dissector import TSHARK, capturing, dissected, kinds
from tests.heads.moldudp64.feed_head import TOPIC, broker_with_topic, feeding, new_group
from tests.heads.transport.echo import run, until

from mainstem.heads.moldudp64.codec import Packet, encode_packet

pytestmark = TSHARK


def test_tshark_finds_no_malformed_packet(tmp_path: Path) -> None:
    group, capture = new_group(), tmp_path / "feed.pcap"
    ports: list[int] = [int(group.rpartition(":")[2])]

    async def scenario() -> None:
        broker = broker_with_topic()
        publish(broker, TOPIC, *(b"message %d" % each for each in range(500)), b"", b"x" * 1378)
        async with feeding(broker, group, heartbeat_ms=20) as feed:
            ports.append(feed.head.address.port)
            # It captures by now.
            await until(lambda: captured(Packet("S1", 503)))
            feed.ask(1, 500)
            await feed.answers(1)
            feed.ask(502, 1)
            await feed.answers(2)
            publish(broker, TOPIC, b"live")
            await feed.hears(503)
            feed.head.end("S1")
            await until(lambda: captured(Packet("S1", 504, is_end=True)))

    def captured(packet: Packet) -> bool:
        return encode_packet(packet) in capture.read_bytes()

    with capturing(capture):
        run("uvloop", scenario)

    packets = dissected(capture, ports)
    found = kinds(packets)
    print(found)  # noqa: T201 - for whoever asks with -s
    assert found.keys() == {"messages", "heartbeat", "end", "request"}
    assert found["request"] == 2
    assert {it["moldudp64.session"] for it in packets} == {"S1        "}
