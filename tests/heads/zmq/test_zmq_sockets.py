"""PULL and SUB that collect, PUSH that hands out a queue, logins, and permissions."""

import asyncio
import sys
from pathlib import Path

import pytest
import zmq
import zmq.auth
import zmq.utils.z85
from tests.broker.brokers import read_all, values
from tests.faults.killable_server import free_port
from tests.heads.transport.echo import until
from tests.heads.zmq.zmq_head import (
    TOPIC,
    answer,
    broker_with_topic,
    received,
    serving,
)

from mainstem.auth import Action, Auth, Credentials, Peer, Principal, Resource
from mainstem.core.errors import Denied, InvalidSetting, Unauthenticated, UnknownQueue
from mainstem.core.event import Event
from mainstem.core.topic_settings import Overload
from mainstem.heads.brokerless.codec import Refusal, TopicBounds
from mainstem.heads.zmq.login import z85
from mainstem.heads.zmq.metrics import COMMON, LOGINS, REFUSED


async def test_what_programs_push_is_appended() -> None:
    at = f"127.0.0.1:{free_port()}"
    async with serving(pull=f"{TOPIC}={at}") as served:
        pusher = served.socket(zmq.PUSH, f"tcp://{at}")

        pusher.send(b"value only")
        pusher.send_multipart([b"key", b"value"])
        pusher.send_multipart([b"key", b"more", b"", b"value"])

        await until(lambda: served.metric(COMMON.collected) == 3)
        found = read_all(served.broker, TOPIC)
        assert [(it.key, it.value) for it in found] == [
            (None, b"value only"),
            (b"key", b"value"),
            (b"key", b"value"),
        ]
        assert found[2].headers == (("frame-1", b"more"), ("frame-2", b""))


async def test_other_publishers_are_subscribed_to() -> None:
    publisher_context = zmq.Context[zmq.Socket[bytes]]()
    with publisher_context, publisher_context.socket(zmq.XPUB) as publisher:
        port = publisher.bind_to_random_port("tcp://127.0.0.1")
        async with serving(collect=f"{TOPIC}=tcp://127.0.0.1:{port}#EUR") as served:
            assert await received(publisher) == [b"\x01EUR"]

            publisher.send_multipart([b"USD", b"1"])
            publisher.send_multipart([b"EUR", b"2"])

            await until(lambda: served.metric(COMMON.collected) == 1)
            assert [(it.key, it.value) for it in read_all(served.broker, TOPIC)] == [(b"EUR", b"2")]


async def test_a_full_topic_with_backpressure_makes_pushers_wait_and_loses_nothing() -> None:
    at = f"127.0.0.1:{free_port()}"
    broker = broker_with_topic(overload=Overload.BACKPRESSURE, max_backlog=10, hold_ms=60_000)
    broker.queues.create(TOPIC, "slow")
    async with serving(broker, pull=f"{TOPIC}={at}", high_water_mark=1) as served:
        pusher = served.socket(zmq.PUSH, f"tcp://{at}")
        for number in range(30):
            pusher.send(b"%d" % number)
        await until(lambda: len(values(read_all(broker, TOPIC))) >= 1)

        while len(read_all(broker, TOPIC)) < 30:
            broker.queues.purge(TOPIC, "slow")
            held = len(read_all(broker, TOPIC))
            await until(lambda held=held: len(read_all(broker, TOPIC)) > held)  # type: ignore[misc]

        assert values(read_all(broker, TOPIC)) == [b"%d" % number for number in range(30)]
        assert served.metric(COMMON.lost) == 0


async def test_what_a_topic_refuses_is_counted_as_lost() -> None:
    at = f"127.0.0.1:{free_port()}"
    broker = broker_with_topic(overload=Overload.DROP_NEWEST, max_backlog=1)
    broker.queues.create(TOPIC, "slow")
    broker.publish(TOPIC, [Event(b"first")])
    async with serving(broker, pull=f"{TOPIC}={at}") as served:
        pusher = served.socket(zmq.PUSH, f"tcp://{at}")

        pusher.send(b"second")

        await until(lambda: served.metric(COMMON.lost) == 1)
        assert values(read_all(broker, TOPIC)) == [b"first"]


async def test_workers_share_the_events_of_a_queue() -> None:
    at = f"127.0.0.1:{free_port()}"
    broker = broker_with_topic()
    broker.queues.create(TOPIC, "workers")
    async with serving(broker, push=f"{TOPIC}/workers={at}") as served:
        await served.publish(*(Event(b"%d" % number, b"k") for number in range(100)))
        workers = [served.socket(zmq.PULL, f"tcp://{at}", RCVHWM=1) for _ in range(2)]

        found = list[bytes]()
        while len(found) < 100:
            for worker in workers:
                if worker.poll(0):
                    found.append(worker.recv_multipart()[-1])
            await asyncio.sleep(0)

        assert sorted(found, key=int) == [b"%d" % number for number in range(100)]
        assert served.metric(COMMON.pushed) == 100
        await until(lambda: not broker.queues.peek(TOPIC, "workers", 1))


async def test_without_a_worker_events_stay_in_the_queue() -> None:
    at = f"127.0.0.1:{free_port()}"
    broker = broker_with_topic()
    broker.queues.create(TOPIC, "workers")
    async with serving(broker, push=f"{TOPIC}/workers={at}") as served:
        await served.publish(*(Event(b"%d" % number) for number in range(10)))
        worker = served.socket(zmq.PULL, f"tcp://{at}")
        assert await received(worker) == [b"0"]
        await until(lambda: served.metric(COMMON.pushed) == 10)
        worker.close()
        await until(lambda: not served.head.connections())

        await served.publish(Event(b"later"))

        await until(lambda: len(broker.queues.peek(TOPIC, "workers", 10)) == 1)
        assert served.metric(COMMON.pushed) == 10
    assert len(broker.queues.peek(TOPIC, "workers", 10)) == 1


WORKER = """
import sys, zmq
worker = zmq.Context().socket(zmq.PULL)
worker.connect(sys.argv[1])
for _ in range(3):
    print(worker.recv().decode(), flush=True)
sys.stdin.read()
"""


async def test_what_a_worker_had_taken_is_lost_if_it_is_killed_and_is_handed_to_nobody_else() -> (
    None
):
    at = f"127.0.0.1:{free_port()}"
    broker = broker_with_topic()
    broker.queues.create(TOPIC, "workers")
    async with serving(broker, push=f"{TOPIC}/workers={at}") as served:
        await served.publish(*(Event(b"%d" % number) for number in range(100)))
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WORKER, f"tcp://{at}"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert worker.stdout is not None
            processed = [await worker.stdout.readline() for _ in range(3)]
            await until(lambda: served.metric(COMMON.pushed) == 100)
        finally:
            worker.kill()
            await worker.communicate()
        await until(lambda: not served.head.connections())

        # At most once: neither a redelivery, nor anything left in the queue.
        assert processed == [b"0\n", b"1\n", b"2\n"]
        assert broker.queues.peek(TOPIC, "workers", 10) == []
        other = served.socket(zmq.PULL, f"tcp://{at}")
        await served.publish(Event(b"later"))
        assert await received(other) == [b"later"]


async def test_a_queue_that_does_not_exist_and_a_taken_address_are_refused() -> None:
    with pytest.raises(UnknownQueue):
        async with serving(push=f"{TOPIC}/nobody=127.0.0.1:0"):
            pass
    async with serving() as served:
        with pytest.raises(InvalidSetting, match=r"zmq\.pull: cannot listen"):
            async with serving(pull=f"{TOPIC}={served.head.address}"):
                pass


def ann_only(mechanism: str, credentials: Credentials, peer: Peer) -> Principal:
    """Know one user."""
    if (mechanism, credentials.user, credentials.secret) != ("PLAIN", "ann", b"secret"):
        raise Unauthenticated(peer.address, "the password is wrong")
    return Principal("ann")


def ann_reads(principal: Principal, action: Action, resource: Resource) -> None:
    """Let one user read one topic."""
    if (principal.name, action, resource.name) != ("ann", Action.READ, TOPIC):
        raise Denied(principal.name, action, resource.kind, resource.name)


async def test_plain_logs_in_and_decides_what_is_received() -> None:
    broker = broker_with_topic()
    broker.create_topic("secrets")
    auth = Auth(authorize=ann_reads, authenticate=ann_only)
    ann: dict[str, int | bytes] = {"PLAIN_USERNAME": b"ann", "PLAIN_PASSWORD": b"secret"}
    async with serving(broker, auth, security="plain") as served:
        subscriber = await served.subscriber(b"orders/", **ann)
        for refused in (b"secrets/", b"", b"orders", b"__mainstem_cursors/", b"\xff/"):
            await served.subscriber(refused, **ann)
        assert served.metric(REFUSED) == 5

        broker.publish("secrets", [Event(b"secret")])
        broker.publish(TOPIC, [Event(b"public")])

        assert (await received(subscriber))[1] == b"public"
        asker = served.socket(zmq.DEALER, "", **ann)
        denied = await answer(asker, b"REPLAY", b"secrets", b"0", b"0")
        assert isinstance(denied, Refusal)
        assert denied.failure == "denied"
        assert "ann" in denied.text
        assert not any(each.poll(0) for each in served.opened)

        served.socket(zmq.DEALER, PLAIN_USERNAME=b"ann", PLAIN_PASSWORD=b"wrong")
        await until(lambda: served.metric(LOGINS, "refused") == 1)
        # Who does not log in at all does not get as far as the password.
        cut_off = served.head.traffic.cut_off
        served.socket(zmq.DEALER)
        await until(lambda: served.head.traffic.cut_off > cut_off)


async def test_curve_knows_a_client_by_its_key(tmp_path: Path) -> None:
    server_public, _ = zmq.auth.create_certificates(tmp_path, "server")
    server_key, _ = zmq.auth.load_certificate(server_public)
    public, secret = zmq.curve_keypair()
    seen = list[str]()

    def known(mechanism: str, credentials: Credentials, peer: Peer) -> Principal:
        seen.append(credentials.user)
        if mechanism != "EXTERNAL" or credentials.user != public.decode():
            raise Unauthenticated(peer.address, "its key is not known")
        return Principal("ann")

    auth = Auth(authorize=ann_reads, authenticate=known)
    keys = {"CURVE_SERVERKEY": server_key, "CURVE_PUBLICKEY": public, "CURVE_SECRETKEY": secret}
    async with serving(
        auth=auth, security="curve", curve_key=str(tmp_path / "server.key_secret")
    ) as served:
        subscriber = await served.subscriber(b"orders/", **keys)
        await served.publish(Event(b"value"))

        assert (await received(subscriber))[1] == b"value"
        other_public, other_secret = zmq.curve_keypair()
        served.socket(
            zmq.DEALER,
            "",
            **(keys | {"CURVE_PUBLICKEY": other_public, "CURVE_SECRETKEY": other_secret}),
        )
        await until(lambda: served.metric(LOGINS, "refused") == 1)
    assert set(seen) == {public.decode(), other_public.decode()}


def test_keys_are_written_as_zeromq_writes_them() -> None:
    data = bytes(range(32))

    assert z85(data).encode() == zmq.utils.z85.encode(data)


async def test_more_connections_than_allowed_are_put_off() -> None:
    async with serving(max_connections=2, handshake_ms=200) as served:
        first, second = (served.socket(zmq.DEALER) for _ in range(2))
        for each in (first, second):
            assert isinstance(await answer(each, b"BOUNDS", b"orders"), TopicBounds)

        third = served.socket(zmq.DEALER)
        await until(lambda: served.metric(LOGINS, "limited") > 0)
        first.close()

        # It tries again by itself.
        assert isinstance(await answer(third, b"BOUNDS", b"orders"), TopicBounds)
