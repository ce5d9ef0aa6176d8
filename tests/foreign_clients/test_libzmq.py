"""A program in C on Debian's libzmq: it catches up from the log, then goes on live."""

import subprocess
from pathlib import Path

from tests.faults.killable_server import free_port
from tests.foreign_clients.c_programs import LIBZMQ, compiled
from tests.heads.server_process import Process

import mainstem

pytestmark = LIBZMQ
COUNT = 10_000


def test_a_c_program_has_every_event_once_and_in_order(tmp_path: Path) -> None:
    program = compiled("follow", tmp_path, "zmq")
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
