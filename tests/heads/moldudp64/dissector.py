"""What Wireshark's dissector reads in captured packets of MoldUDP64."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.processes import output_of, wait_until

TSHARK = [
    pytest.mark.peers,
    pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not there (Debian: tshark)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root, so packets cannot be captured"),
]


@contextlib.contextmanager
def capturing(file: Path, command: Sequence[str] = ()) -> Iterator[None]:
    """Capture UDP packets of the loopback interface; ``command``: how tshark's command begins."""
    with subprocess.Popen(
        [*command, "tshark", "-q", "-i", "lo", "-f", "udp", "-w", str(file)],
        stderr=subprocess.DEVNULL,
    ) as tshark:
        try:
            wait_until(file.exists, "tshark does not begin")
            yield
        finally:
            tshark.send_signal(signal.SIGINT)


def dissected(capture: Path, ports: list[int]) -> list[dict[str, object]]:
    """Return the MoldUDP64 layer of every packet of these ports."""
    told = [word for port in ports for word in ("-d", f"udp.port=={port},moldudp64")]
    wanted = " || ".join(f"udp.port=={port}" for port in ports)
    out = output_of(["tshark", "-r", str(capture), *told, "-Y", wanted, "-T", "json"])
    layers = [it["_source"]["layers"] for it in json.loads(out)]
    return [it["moldudp64"] | {key: it[key] for key in it if "malformed" in key} for it in layers]


def kinds(packets: list[dict[str, object]]) -> Counter[str]:
    """Return how many packets there are of each kind; malformed is one."""
    return Counter("malformed" if "_ws.malformed" in it else _kind(it) for it in packets)


def _kind(packet: dict[str, object]) -> str:
    count = int(str(packet["moldudp64.count"]))
    has_messages = any("msg" in key.lower() for key in packet)
    # Requests are a header alone, and look like packets whose messages are missing.
    return {0: "heartbeat", 0xFFFF: "end"}.get(count, "messages" if has_messages else "request")
