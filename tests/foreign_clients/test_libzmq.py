"""A program in C on Debian's libzmq: it catches up from the log, then goes on live."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.faults.killable_server import free_port
from tests.heads.server_process import Process

import mainstem

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(
        shutil.which("gcc") is None or not Path("/usr/include/zmq.h").exists(),
        reason="needs a compiler and libzmq (Debian: gcc, libzmq3-dev)",
    ),
]
SOURCE = Path(__file__).parent / "c" / "follow.c"
COUNT = 10_000


def test_a_c_program_has_every_event_once_and_in_order(tmp_path: Path) -> None:
    program = tmp_path / "follow"
    compiled = ["gcc", "-Wall", "-Werror", "-O1", "-o", str(program), str(SOURCE), "-lzmq"]
    subprocess.run(compiled, check=True, timeout=60)
    ports = free_port(), free_port()
    words = [b"message %d" % number for number in range(COUNT)]
    with mainstem.open(tmp_path / "data") as stem:
        stem.topics.create("trades", partitions=1)
    with (
        Process(
            tmp_path / "data",
            zmq__listen=f"127.0.0.1:{ports[0]}",
            zmq__publish=f"127.0.0.1:{ports[1]}",
        ) as server,
        mainstem.connect(server.address) as stem,
    ):
        stem.publish_many("trades", words[: COUNT // 2])
        with subprocess.Popen(
            [program, "127.0.0.1", str(ports[0]), "trades", str(COUNT)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as follower:
            assert follower.stderr is not None
            assert follower.stderr.readline() == b"caught up\n"
            stem.publish_many("trades", words[COUNT // 2 :])
            found, said = follower.communicate(timeout=60)

    assert follower.returncode == 0, said
    assert found.splitlines() == words
