"""Wireshark's dissector reads the packets, requests and answers of a feed."""

import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.broker.brokers import publish
from tests.heads.moldudp64.feed_head import TOPIC, broker_with_topic, feeding, new_group
from tests.heads.transport.echo import run, until
from tests.processes import output_of

from mainstem.heads.moldudp64.codec import Packet, encode_packet

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not there (Debian: tshark)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root, so packets cannot be captured"),
]


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
        return capture.exists() and encode_packet(packet) in capture.read_bytes()

    with subprocess.Popen(
        ["tshark", "-q", "-i", "lo", "-f", "udp", "-w", str(capture)],
        stderr=subprocess.DEVNULL,
    ) as tshark:
        run("uvloop", scenario)
        tshark.send_signal(signal.SIGINT)

    packets = dissected(capture, ports)
    kinds = Counter("expert" if "_ws.malformed" in it else kind(it) for it in packets)
    print(kinds)  # noqa: T201 - for whoever asks with -s
    assert kinds.keys() == {"messages", "heartbeat", "end", "request"}
    # Requests are a header alone, and look like packets whose messages are missing.
    assert kinds["request"] == 2
    assert {it["moldudp64.session"] for it in packets} == {"S1        "}


def dissected(capture: Path, ports: list[int]) -> list[dict[str, object]]:
    """Return the MoldUDP64 layer of every packet of these ports."""
    told = [word for port in ports for word in ("-d", f"udp.port=={port},moldudp64")]
    wanted = " || ".join(f"udp.port=={port}" for port in ports)
    out = output_of(["tshark", "-r", str(capture), *told, "-Y", wanted, "-T", "json"])
    layers = [it["_source"]["layers"] for it in json.loads(out)]
    return [it["moldudp64"] | {key: it[key] for key in it if "malformed" in key} for it in layers]


def kind(packet: dict[str, object]) -> str:
    """Say what a packet is."""
    count = int(str(packet["moldudp64.count"]))
    has_messages = any("msg" in key.lower() for key in packet)
    return {0: "heartbeat", 0xFFFF: "end"}.get(count, "messages" if has_messages else "request")
