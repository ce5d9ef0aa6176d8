"""The demo of ``./run --feed``: a market as a multicast feed, a receiver, and price bars by Spark.

The receiver joins late on purpose: it requests what it missed, and the server answers from the log.
Without Java, or without Spark, there are no bars.
"""

import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import ExitStack, suppress
from pathlib import Path

import click

import mainstem
from mainstem.cli.admin_port import ServerAdmin
from mainstem.cli.demo.market import Market, described
from mainstem.cli.demo.processes import TURN_S, Stop, pipeline_running, serving, serving_options
from mainstem.cli.exit_codes import Exit, NotFound, say
from mainstem.cli.output.tables import table
from mainstem.client.feeds.multicast import MulticastFeed
from mainstem.core.errors import MainstemError, UnknownTopic
from mainstem.heads.moldudp64.operations import REMOVE, SERVE, FeedInfo, NameFeed, ServeFeed
from mainstem.pipelines.definitions.load import load
from mainstem.pipelines.spark.requirements import MissingJava, MissingSpark, find_java, find_spark

TOPIC, SESSION = "sample.market", "MARKET"
_BARS = Path(__file__).with_name("pipeline") / "bars.py"
_NEEDS = "mainstem serve --moldudp64 127.0.0.1:30002"
_LATE_S = 3
_MESSAGES_AT_ONCE = 20
_SHOWN = 8
_CLEAR = "\x1b[2J\x1b[H"


@click.command()
@serving_options
@click.option("--requests", default="127.0.0.1:30002", help="Where receivers send requests.")
@click.option("--group", default="239.255.77.1:30001", help="The multicast group.")
def main(directory: str, seconds: float | None, kafka: str, requests: str, group: str) -> None:
    """Serve a made-up market as a multicast feed, receive it, compute price bars with Spark."""
    serve = ["serve", directory, "--kafka", kafka, "--moldudp64", requests]
    stop = Stop()
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mainstem-sample-")))
        address, lifeline = stack.enter_context(serving(serve, stop))
        feed = stack.enter_context(MarketFeed(address, group))
        runs = None
        try:
            find_spark()
            find_java()
        except (MissingJava, MissingSpark) as missing:
            say(f"no pipelines here: {missing}; there are no bars")
        else:
            runs = stack.enter_context(pipeline_running(_BARS, address, work, [lifeline], stop))
        os.chdir(work)
        ended = _show(feed, stop, seconds, runs)
    sys.exit(ended)


class MarketFeed:
    """Publishes the market in one thread, and receives its feed in another one."""

    def __init__(self, address: str, group: str) -> None:
        self.published = 0
        self.last = deque[str](maxlen=_SHOWN)
        """The last messages that were received."""
        self.failure: MainstemError | None = None
        self._address = address
        self._stop = threading.Event()
        with mainstem.connect(address) as stem:
            # Delete the events and the session of an earlier run.
            with suppress(NotFound):
                ServerAdmin(address, needs=_NEEDS).change(REMOVE, NameFeed(SESSION), object)
            with suppress(UnknownTopic):
                stem.topics.delete(TOPIC)
            stem.topics.create(TOPIC, partitions=1, durability="disk")
        asked = ServeFeed(SESSION, TOPIC, group)
        self.info = ServerAdmin(address, needs=_NEEDS).change(SERVE, asked, FeedInfo)
        self._feed: MulticastFeed | None = None
        self._threads = [threading.Thread(target=each) for each in (self._publish, self._receive)]

    def __enter__(self) -> "MarketFeed":
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop publishing and receiving."""
        self._stop.set()
        for each in self._threads:
            each.join()
        if self._feed is not None:
            self._feed.close()

    def received(self) -> str:
        """Return what was received, requested and lost, as text."""
        if self._feed is None:
            return "the receiver joins late"
        report = self._feed.report()
        return (
            f"{report.delivered:,} received in order, {report.recovered:,} of them by "
            f"{report.requests:,} requests; {report.lost:,} lost"
        )

    def _publish(self) -> None:
        market = Market(random.Random())
        try:
            with mainstem.connect(self._address) as stem:
                while not self._stop.wait(TURN_S):
                    now_us = time.time_ns() // 1000
                    found = list(market.messages(now_us, _MESSAGES_AT_ONCE))
                    self.published += stem.publish_many(TOPIC, found)
        except MainstemError as error:
            self.failure = error

    def _receive(self) -> None:
        self._stop.wait(_LATE_S)
        try:
            self._feed = MulticastFeed(
                self.info.group, requests=self.info.requests, session=SESSION
            )
            while not self._stop.is_set():
                message = self._feed.poll(TURN_S)
                if message is not None:
                    self.last.append(f"{message.sequence:>8}  {described(message.data)}")
        except MainstemError as error:
            self.failure = error


def _show(
    feed: MarketFeed,
    stop: Stop,
    seconds: float | None,
    runs: "subprocess.Popen[bytes] | None",
) -> int:
    """Show the feed and the bars until the demo ends; return the exit code."""
    until = time.monotonic() + seconds if seconds else float("inf")
    live = sys.stdout.isatty()
    ended = False
    if not live:
        say("the feed is shown live on a terminal only; a summary comes in the end")
    while not ended and not stop.asked.wait(1.0) and time.monotonic() < until:
        ended = feed.failure is not None or (runs is not None and runs.poll() is not None)
        if live:
            click.echo(f"{_CLEAR}{_picture(feed, runs is not None)}", nl=False)
    feed.close()
    click.echo(f"{_CLEAR * live}{_picture(feed, runs is not None)}")
    if feed.failure is not None:
        say(str(feed.failure))
    elif ended:
        said = Path("pipeline.log").read_text(errors="replace").strip().splitlines()
        say(f"the pipeline ended by itself: {said[-1] if said else 'without a word'}")
    return Exit.ERROR if ended else Exit.OK


def _picture(feed: MarketFeed, has_bars: bool) -> str:
    info = feed.info
    lines = [
        f"topic {TOPIC} as the feed {SESSION} at {info.group}, requests to {info.requests}",
        f"  listen  {Path(sys.executable).with_name('mainstem')} feed listen {info.group} "
        f"--requests {info.requests}",
        "  stop    Ctrl-C",
        "",
        f"{feed.published:,} published; {feed.received()}",
        *list(feed.last)[-_SHOWN:],
        "",
    ]
    if has_bars:
        lines.append(_bars())
    return "\n".join(lines)


def _bars() -> str:
    (bars,) = load(_BARS, "sample").tables
    found = bars.sink.read()
    if not found:
        return "  no bars yet: Spark is starting"
    newest = found.sort_by([("start", "descending"), ("stock", "ascending")]).slice(0, 9)
    return table(newest.to_pylist())


if __name__ == "__main__":
    main()
