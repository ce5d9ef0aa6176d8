"""Chromium: EventSource, WebSocket and fetch, of pages that may use the server and of others."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL
from typing import Any, NamedTuple

import httpx
import pytest
from tests.foreign_clients.compatibility import HTTP
from tests.foreign_clients.http import chromium
from tests.foreign_clients.http.chromium import Browser, Page
from tests.foreign_clients.http.http_server import EVENTS
from tests.heads.server_process import Process
from tests.in_process_server import server
from tests.processes import wait_until

from mainstem.node.config import load_config

pytestmark = [*chromium.marks, pytest.mark.client("Chromium", "156", HTTP)]

FREE = "127.0.0.1:0"
FOLLOW = """
window.found = []; window.failed = 0;
window.source = new EventSource("%s");
window.source.onmessage = (message) =>
    window.found.push([JSON.parse(message.data).value, message.lastEventId]);
window.source.onerror = () => window.failed++;
"""
TALK = """
new Promise((resolve) => {
    const socket = new WebSocket("%s"), found = [];
    const say = (message) => socket.send(JSON.stringify(message));
    socket.onerror = () => resolve("refused");
    socket.onopen = () => {
        say({do: "publish", topic: "%s", events: [{value: {n: 1}, key: "ann"}], ref: 1});
        say({do: "subscribe", id: "s", topic: "%s", queue: "q"});
    };
    socket.onmessage = (message) => {
        const said = JSON.parse(message.data);
        if (said.type == "delivery") {
            found.push(said.event.key, said.event.value.n);
            say({do: "settle", id: "s", deliveries: [said.delivery], ref: 2});
        } else if (said.ref == 2) {
            found.push(said.type);
            resolve(found);
        }
    };
})
"""
PUBLISH = """
fetch("%s", {method: "POST", mode: "%s", headers: {"content-type": "%s"}, body: '{"n": 2}'})
    .then(async (answer) => answer.type == "opaque" ? "opaque" : await answer.json())
    .catch(() => "refused")
"""
READ = 'fetch("%s").then((answer) => answer.json()).catch(() => "refused")'


class Pages(NamedTuple):
    """One server, and pages of three origins."""

    url: str
    own: Page
    """Of the server itself."""
    allowed: Page
    foreign: Page

    def follow(self, page: Page, topic: str) -> None:
        page.run(FOLLOW % f"{self.url}{EVENTS.format(topic)}?from=earliest")

    def talk(self, page: Page, topic: str) -> Any:
        return page.run(TALK % (f"{self.url.replace('http', 'ws')}/ws", topic, topic))

    def publish(
        self, page: Page, topic: str, mode: str = "cors", kind: str = "application/json"
    ) -> Any:
        return page.run(PUBLISH % (self.url + EVENTS.format(topic), mode, kind))


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium.browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="module")
def pages(chrome: Browser) -> Iterator[Pages]:
    with ExitStack() as stack:
        allowed, foreign = (stack.enter_context(chromium.site()) for _ in range(2))
        config = load_config(None, {}, {"http.origins": allowed}).listening(http=FREE)
        running = stack.enter_context(server(None, config=config))
        url = f"http://{running.addresses['http']}"
        own = chrome.page(f"{url}/openapi.json")
        yield Pages(url, own, chrome.page(allowed), chrome.page(foreign))


def _has(page: Page, count: int) -> Callable[[], bool]:
    return lambda: page.run("found.length") >= count


def post(url: str, topic: str, *values: object) -> None:
    lines = "".join(json.dumps(each) + "\n" for each in values)
    kind = {"content-type": "application/x-ndjson"}
    to = url + EVENTS.format(topic)
    httpx.post(to, content=lines, headers=kind, trust_env=False).raise_for_status()


def events(url: str, topic: str) -> list[Any]:
    answer = httpx.get(url + EVENTS.format(topic), trust_env=False)
    return [each["value"] for each in answer.json()["events"]] if answer.is_success else []


@pytest.mark.shows("publish", "fetch")
@pytest.mark.shows("read", "fetch")
@pytest.mark.shows("follow", "EventSource")
@pytest.mark.parametrize("whose", ["own", "allowed"])
def test_a_page_follows_a_topic_publishes_and_reads(pages: Pages, name: str, whose: str) -> None:
    page: Page = getattr(pages, whose)
    post(pages.url, name, {"n": 0}, {"n": 1})

    pages.follow(page, name)
    wait_until(lambda: page.run("found.length") == 2, "no events came")
    assert pages.publish(page, name) == {"positions": [{"partition": 0, "offset": 2}]}
    wait_until(lambda: page.run("found.length") == 3, "the next event did not come")

    assert page.run("found") == [[{"n": n}, f"0:{n + 1}"] for n in range(3)]
    assert page.run("failed") == 0
    assert page.run(READ % (pages.url + EVENTS.format(name)))["next"] == "0:3"
    page.run("source.close()")


@pytest.mark.shows("WebSocket", "publish, consume")
@pytest.mark.shows("queues", "over a WebSocket: ack")
@pytest.mark.parametrize("whose", ["own", "allowed"])
def test_a_page_consumes_and_publishes_by_websocket(pages: Pages, name: str, whose: str) -> None:
    assert pages.talk(getattr(pages, whose), name) == ["ann", 1, "done"]


@pytest.mark.refused(
    "web pages of origins that `http.origins` does not name",
    "otherwise any web page could use a server on its visitor's machine",
)
def test_a_page_of_another_origin_neither_reads_nor_publishes(pages: Pages, name: str) -> None:
    post(pages.url, name, {"n": 0})
    page = pages.foreign

    pages.follow(page, name)
    wait_until(lambda: page.run("failed") > 0, "the stream was not refused")
    assert page.run("[found.length, source.readyState]") == [0, 2]
    assert page.run(READ % (pages.url + EVENTS.format(name))) == "refused"
    assert pages.talk(page, name) == "refused"
    assert pages.publish(page, name) == "refused"
    # This is sent without asking the server first, and the page cannot see the answer.
    assert pages.publish(page, name, "no-cors", "text/plain") == "opaque"

    assert events(pages.url, name) == [{"n": 0}]


@pytest.mark.shows("follow", "EventSource resumes after the server was killed")
def test_a_page_reconnects_after_kills_of_the_server_without_loss_or_duplicate(
    chrome: Browser, tmp_path: Path
) -> None:
    sent = 0
    address, page = FREE, None
    with chromium.site() as origin:
        for _ in range(3):
            settings = {"http__listen": address, "http__origins": origin}
            with Process(tmp_path, **settings) as process:
                address = process.addresses["http"]
                url = f"http://{address}"
                post(url, "orders", *range(sent, sent + 20))
                if page is None:
                    page = chrome.page(origin)
                    page.run(FOLLOW % f"{url}{EVENTS.format('orders')}?from=earliest")
                # The last are killed before the page has them, or not.
                enough, sent = sent + 20, sent + 30
                wait_until(_has(page, enough), "no events came")
                post(url, "orders", *range(enough, sent))
                process.tell(SIGKILL)
                process.wait()
        with Process(tmp_path, **settings):
            assert page is not None
            wait_until(lambda: page.run("found.length") == sent, "not all events came")

            assert [value for value, _ in page.run("found")] == list(range(sent))
            assert page.run("failed") >= 3
