"""Topic administration when the server does not respond, or others change the topics."""

import signal
from pathlib import Path

import pytest
from tests.faults.killable_server import Mortal
from tests.in_process_server import serving

import mainstem
from mainstem.core.errors import Unreachable
from mainstem.remote.admin import Admin
from mainstem.remote.cluster import Cluster

ORDERS = ("orders", 0)


def test_offsets_that_a_server_does_not_tell_are_not_made_up(tmp_path: Path) -> None:
    with Mortal(tmp_path / "data") as server:
        with mainstem.connect(server.address) as stem:
            stem.topics.create("orders", partitions=1)
        administration = Admin(Cluster(server.address, timeout_s=1, settings={}))
        # Where the leader is, is known: only it need not answer.
        administration.bounds([ORDERS])

        server.tell(signal.SIGSTOP)

        with pytest.raises(Unreachable):
            administration.bounds([ORDERS])
        with pytest.raises(Unreachable):
            administration.at_time([ORDERS], 0)
        server.tell(signal.SIGCONT)
        administration.close()


def test_partitions_that_somebody_else_added_are_known() -> None:
    with serving(None) as address, mainstem.connect(address) as other:
        other.topics.create("orders", partitions=1)
        administration = Admin(Cluster(address, timeout_s=30, settings={}))
        administration.bounds([ORDERS])

        other.topics.alter("orders", partitions=2)
        other.publish("orders", 1, partition=1)

        bounds = administration.bounds([ORDERS, ("orders", 1), ("orders", 2), ("payments", 0)])
        assert {place: each.tail for place, each in bounds.items()} == {ORDERS: 0, ("orders", 1): 1}
        administration.close()
