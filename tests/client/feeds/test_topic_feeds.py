"""ZmqFeed and NngFeed: every event once and in order; the same programs without a broker lose."""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pynng
import pytest
import zmq
import zmq.auth
from tests.faults.killable_server import free_port
from tests.heads.server_process import Process
from tests.heads.zmq.zmq_head import serving
from tests.processes import wait_until

import mainstem
from mainstem.auth import Auth, Credentials, Peer, Principal
from mainstem.core.errors import InvalidSetting, MessagesLost, Unauthenticated, Unreachable
from mainstem.feeds import FeedPatience, FeedRefused, NngFeed, ZmqFeed, ZmqLogin
from mainstem.heads.zmq.metrics import LOGINS

COUNT = 20_000
QUICK = FeedPatience(answer_s=0.2, check_s=0.2)
PATIENCE_S = 120


def words(first: int, end: int) -> list[bytes]:
    return [b"message %07d" % each for each in range(first, end)]


FEEDS: dict[str, type[ZmqFeed] | type[NngFeed]] = {"zmq": ZmqFeed, "nng": NngFeed}
both = pytest.mark.parametrize("style", FEEDS)
ONE_FRAME: dict[str, object] = {"zmq__publish_frames": "one"}


def settings(style: str = "zmq", **more: object) -> dict[str, object]:
    found: dict[str, object] = {
        f"{style}__{name}": f"127.0.0.1:{free_port()}" for name in ("listen", "publish")
    }
    if style == "nng":
        found["nng__topics"] = "trades"
    return found | more


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with mainstem.open(tmp_path / "data") as stem:
        stem.topics.create("trades", partitions=1)
    return tmp_path / "data"


def publish(server: Process, first: int, end: int) -> None:
    with mainstem.connect(server.address) as stem:
        stem.publish_many("trades", words(first, end))


def take(feed: ZmqFeed | NngFeed, count: int) -> list[bytes | None]:
    """Return so many values; fails if the next event is late."""
    found = list[bytes | None]()
    while len(found) < count:
        event = feed.poll(PATIENCE_S)
        assert event is not None, f"nothing comes after {len(found)} of {count}"
        found.append(event.value)
    return found


@pytest.mark.parametrize(
    ("style", "more"),
    [("zmq", {}), ("zmq", ONE_FRAME), ("nng", {})],
    ids=["zmq", "zmq, one frame", "nng"],
)
def test_a_subscriber_that_was_away_catches_up_though_the_server_is_killed(
    data: Path, style: str, more: dict[str, object]
) -> None:
    asked, feed_to = settings(style, **more), FEEDS[style]
    third = COUNT // 3
    url = f"tcp://{asked[style + '__listen']}"
    with (
        Process(data, **asked) as server,
        feed_to(url, "trades", patience=QUICK) as feed,
        feed_to(url, "trades", patience=QUICK) as steady,
    ):
        publisher = threading.Thread(target=publish, args=(server, 0, third))
        publisher.start()
        received = take(feed, third // 2)
        position = feed.positions
        publisher.join()
        followed = take(steady, third)

        # It is away, and the server is killed -9 twice.
        feed.close()
        server.__exit__()
        with Process(data, **asked) as again:
            publish(again, third, 2 * third)
            followed += take(steady, third // 2)
        with Process(data, **asked) as last:
            with feed_to(url, "trades", start=position, patience=QUICK) as back:
                received += take(back, third)
                publish(last, 2 * third, COUNT)
                received += take(back, COUNT - len(received))
                report = back.report()
            followed += take(steady, COUNT - len(followed))
            steady_report = steady.report()

    print(report, steady_report)  # noqa: T201 - figures for whoever asks with -s
    assert received == words(0, COUNT)
    assert followed == words(0, COUNT)
    assert report.recovered > third
    assert report.lost == steady_report.lost == 0


ALONE = {
    "zmq": """
import sys, zmq
publisher = zmq.Context().socket(zmq.XPUB)
publisher.setsockopt(zmq.SNDHWM, 0)
publisher.bind(sys.argv[1])
send, wait = publisher.send, publisher.recv
""",
    "nng": """
import sys, pynng, threading
publisher = pynng.Pub0(send_buffer_size=8192)
there = threading.Event()
publisher.add_post_pipe_connect_cb(lambda pipe: there.set())
publisher.listen(sys.argv[1])
send, wait = publisher.send, there.wait
""",
}
SENDS = """
print("bound", flush=True)
if sys.argv[4] == "waits":
    wait()
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    send(b"message %07d" % number)
print("sent", flush=True)
sys.stdin.read()
"""


class Alone:
    """A publisher without a broker, in a process of its own."""

    def __init__(self, style: str, url: str, first: int, end: int, *, waits: bool) -> None:
        code = ALONE[style] + SENDS
        command = [sys.executable, "-c", code, url, str(first), str(end)]
        self._process = subprocess.Popen(
            [*command, "waits" if waits else "at once"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.says("bound")

    def says(self, word: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"{word}\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def subscribed(style: str, url: str) -> Iterator[Callable[[], bytes]]:
    """Subscribe to everything; yield what receives the next message."""
    if style == "nng":
        with pynng.Sub0(topics=[b""], recv_buffer_size=8192) as heard:
            heard.dial(url, block=False)
            yield heard.recv
        return
    with zmq.Context[zmq.Socket[bytes]]() as context, context.socket(zmq.SUB) as found:
        found.setsockopt(zmq.RCVHWM, 0)
        found.setsockopt(zmq.LINGER, 0)
        found.subscribe(b"")
        found.connect(url)
        yield found.recv


@both
def test_without_the_log_the_same_programs_lose_what_was_sent_meanwhile(style: str) -> None:
    url = f"tcp://127.0.0.1:{free_port()}"
    # nng drops what is beyond its buffers; here nothing else is to be lost.
    count = 6_000
    third = count // 3
    received = list[bytes]()

    with Alone(style, url, 0, third, waits=True) as first, subscribed(style, url) as receive:
        first.says("sent")
        received += [receive() for _ in range(third // 2)]
    # The subscriber is away, and the publisher was killed -9 with what it had queued.
    with Alone(style, url, third, 2 * third, waits=False) as second:
        second.says("sent")
    with Alone(style, url, 2 * third, count, waits=True) as last, subscribed(style, url) as receive:
        last.says("sent")
        received += [receive() for _ in range(third)]

    lost = sorted(set(words(0, count)) - set(received))
    print(f"{style} lost without the log: {len(lost)} of {count}")  # noqa: T201 - for -s
    assert lost == words(third // 2, 2 * third)


@pytest.fixture
def url(data: Path) -> Iterator[tuple[Process, str]]:
    asked = settings()
    with Process(data, **asked) as server:
        yield server, f"tcp://{asked['zmq__listen']}"


def test_a_feed_begins_where_it_is_told_to(url: tuple[Process, str]) -> None:
    server, address = url
    publish(server, 0, 10)

    with ZmqFeed(address, "trades", start="latest", patience=QUICK) as latest:
        publish(server, 10, 12)
        with ZmqFeed(address, "trades", start={0: 8}, patience=QUICK) as middle:
            assert take(latest, 2) == words(10, 12)
            assert take(middle, 4) == words(8, 12)
            assert middle.positions == {0: 12}
            assert middle.poll(0) is None


def test_what_retention_has_deleted_is_told_and_can_be_skipped(url: tuple[Process, str]) -> None:
    server, address = url
    publish(server, 0, 10)
    with mainstem.connect(server.address) as stem:
        stem.topics.trim("trades", 6, partition=0)

    with ZmqFeed(address, "trades", start={0: 2}, patience=QUICK) as feed:
        with pytest.raises(MessagesLost, match="2 to 5"):
            feed.poll(PATIENCE_S)
        assert feed.skip() == (0, 2, 5)
        assert take(feed, 4) == words(6, 10)
        assert feed.report().lost == 4


def test_a_stopped_subscriber_gets_what_pub_dropped_for_it(data: Path) -> None:
    asked = settings(zmq__high_water_mark=10)
    with (
        Process(data, **asked) as server,
        ZmqFeed(
            f"tcp://{asked['zmq__listen']}",
            "trades",
            patience=FeedPatience(answer_s=0.2, check_s=0.2, max_held=10),
        ) as feed,
        # One that reads nothing holds up nobody.
        zmq.Context[zmq.Socket[bytes]]() as peers,
        peers.socket(zmq.SUB) as stopped,
    ):
        stopped.set(zmq.RCVBUF, 4096)
        stopped.set(zmq.RCVHWM, 1)
        stopped.subscribe(b"")
        stopped.connect(f"tcp://{asked['zmq__publish']}")
        publish(server, 0, 10)
        assert take(feed, 10) == words(0, 10)

        publish(server, 10, COUNT)
        wait_until(lambda: server.metric("mainstem_zmq_dropped_total") > 0, "nothing is dropped")

        assert take(feed, COUNT - 10) == words(10, COUNT)
        assert feed.report().recovered > 10


def test_refusals_say_what_to_do(url: tuple[Process, str]) -> None:
    _, address = url

    with pytest.raises(FeedRefused, match="nobody"):
        ZmqFeed(address, "nobody")
    with pytest.raises(Unreachable, match="mainstem serve"):
        ZmqFeed(f"tcp://127.0.0.1:{free_port()}", "trades", timeout_s=0.2)
    with pytest.raises(InvalidSetting, match="MulticastFeed"):
        ZmqFeed("epgm://eth0;239.1.1.1:5555", "trades")


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("zmq.pull", "orders=epgm://239.1.1.1:5555", "epgm:// is not supported"),
        ("zmq.collect", "orders=pgm://239.1.1.1:5555", "multicast feed"),
        ("zmq.collect", "orders=ipc:///tmp/x", "only tcp://"),
        ("zmq.push", "orders=127.0.0.1:0", "TOPIC/NAME=HOST:PORT"),
        ("zmq.push", "nobody/queue=127.0.0.1:0", "nobody"),
        ("zmq.security", "curve", "curve_key"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    tmp_path: Path, setting: str, value: str, words: str
) -> None:
    command = [sys.executable, "-m", "mainstem", "serve", str(tmp_path), "--kafka", "off"]
    command += ["--admin", "off", "--zmq", "127.0.0.1:0", "--set", f"{setting}={value}"]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, env=os.environ, check=False
    )

    assert ran.returncode != 0
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr


def logins(security: str, keys: Path) -> tuple[dict[str, Any], ZmqLogin]:
    """Return settings of a server, and a login that it knows."""
    if security == "plain":
        return {}, ZmqLogin(user="ann", password="secret")
    zmq.auth.create_certificates(keys, "server")
    server_key, _ = zmq.auth.load_certificate(keys / "server.key")
    public, secret = zmq.curve_keypair()
    login = ZmqLogin(server_key=server_key, public_key=public, secret_key=secret)
    return {"zmq__curve_key": str(keys / "server.key_secret")}, login


@pytest.mark.parametrize("security", ["plain", "curve"])
def test_a_feed_that_logs_in_catches_up_and_follows(
    data: Path, tmp_path: Path, security: str
) -> None:
    more, login = logins(security, tmp_path)
    asked = settings("zmq", zmq__security=security, **more)
    address = f"tcp://{asked['zmq__listen']}"
    with Process(data, **asked) as server:
        publish(server, 0, 10)
        with (
            ZmqFeed(address, "trades", login=login) as feed,
            mainstem.connect(server.address) as stem,
        ):
            assert take(feed, 10) == words(0, 10)
            # Live ones come through PUB, which asks for the login, too.
            while not feed.report().delivered > feed.report().recovered:
                stem.publish("trades", b"live")
                assert take(feed, 1) == [b"live"]
        accepted = server.metric('mainstem_zmq_logins_total{outcome="accepted"}')
        with pytest.raises(Unreachable):
            ZmqFeed(address, "trades", timeout_s=0.5)

    assert accepted == 2
    assert "secret" not in repr(login)


@pytest.mark.parametrize("security", ["plain", "curve"])
async def test_a_login_that_is_refused_is_told(tmp_path: Path, security: str) -> None:
    more, login = logins(security, tmp_path)

    def nobody(_mechanism: str, _credentials: Credentials, peer: Peer) -> Principal:
        raise Unauthenticated(peer.address, "nobody is known")

    auth = Auth(authenticate=nobody)
    async with serving(None, auth, security=security, **unprefixed(more)) as it:
        with pytest.raises(Unauthenticated, match="refuses the login"):
            await asyncio.to_thread(ZmqFeed, it.replay_url, "orders", login=login)
        assert it.metric(LOGINS, "refused") >= 1


def unprefixed(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("zmq__"): value for name, value in settings.items()}
