"""Webhooks over HTTP: verified, each appended once, answered when durable, counted if refused."""

import asyncio
import gzip
from datetime import UTC, datetime

import aiohttp
import pytest
from standardwebhooks import Webhook
from tests.broker.brokers import read_all, values
from tests.heads.webhooks.served import SETTINGS, Served, secret_in, serving

from mainstem.auth import Action, Auth, Principal, Resource, ResourceKind
from mainstem.core.errors import Denied, MainstemError
from mainstem.heads.webhooks.settings import WebhooksSettings
from mainstem.log.memory import MemoryLog

BODY = b'{"n": 1}'


async def post(
    served: Served, headers: dict[str, str], body: bytes = BODY, source: str = "shop"
) -> int:
    url = f"http://{served.running.address}/hooks/{source}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, headers=headers) as response,
    ):
        await response.read()
        return response.status


def signed(secret: str, message_id: str = "msg_1", body: bytes = BODY) -> dict[str, str]:
    at = datetime.now(UTC)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, at, body.decode()),
    }


async def add(served: Served, **given: object) -> str:
    asked: dict[str, object] = {"name": "shop", "topic": "builds"}
    added = await served.call("sources/add", **(asked | given))
    secret = added["secret"]
    assert isinstance(secret, str)
    return secret


def counts(served: Served) -> dict[str, float]:
    return {
        labels[0]: value
        for name, labels, value in served.samples()
        if name == "mainstem_webhooks_received_total" and value
    }


async def test_a_verified_webhook_becomes_an_event() -> None:
    async with serving() as served:
        secret = await add(served)
        headers = signed(secret) | {"Content-Type": "application/json", "ce-type": "built"}

        assert await post(served, headers) == 204

        (event,) = read_all(served.broker, "builds")
        assert event.value == BODY
        assert dict(event.headers) == {
            "webhook-source": b"shop",
            "webhook-id": b"msg_1",
            "webhook-timestamp": headers["webhook-timestamp"].encode(),
            "content-type": b"application/json",
            "ce_type": b"built",
        }


async def test_a_message_that_comes_again_is_answered_and_not_appended() -> None:
    async with serving() as served:
        secret = await add(served)
        many = [post(served, signed(secret, f"m{number % 5}")) for number in range(50)]

        assert set(await asyncio.gather(*many)) == {204}

        ids = [dict(each.headers)["webhook-id"] for each in read_all(served.broker, "builds")]
        assert sorted(ids, key=bytes) == [b"m0", b"m1", b"m2", b"m3", b"m4"]  # type: ignore[arg-type]
        assert counts(served) == {"appended": 5, "duplicate": 45}


async def test_duplicates_are_found_after_a_restart_and_only_within_the_window() -> None:
    log = MemoryLog()
    given = {"secrets": ["file:signing"]}
    secret = secret_in("signing")
    async with serving(SETTINGS, log) as served:
        await add(served, **given)
        await add(served, name="other", topic="builds", window_ms=0, **given)
        assert await post(served, signed(secret)) == 204
        assert await post(served, signed(secret), source="other") == 204
    async with serving(SETTINGS, log) as served:
        assert await post(served, signed(secret)) == 204
        assert await post(served, signed(secret), source="other") == 204
        assert counts(served) == {"appended": 1, "duplicate": 1}
        assert len(read_all(served.broker, "builds")) == 3


async def test_ids_beyond_the_limit_are_forgotten_the_oldest_first() -> None:
    settings = WebhooksSettings(max_ids=2)
    async with serving(settings) as served:
        secret = await add(served)
        for message_id in ("1", "2", "3", "1", "3"):
            await post(served, signed(secret, message_id))

        assert counts(served) == {"appended": 4, "duplicate": 1}


async def test_what_is_refused_is_answered_with_its_reason_and_counted() -> None:
    async with serving() as served:
        secret = await add(served)
        right = signed(secret)
        old = signed(secret)
        old["webhook-timestamp"] = str(int(old["webhook-timestamp"]) - 301)
        without = {name: it for name, it in right.items() if name != "webhook-signature"}

        statuses = [
            await post(served, without),
            await post(served, right, BODY + b" "),
            await post(served, old),
            await post(served, right | {"webhook-timestamp": "x"}),
            await post(served, right, source="nobody"),
        ]

        assert statuses == [401, 401, 401, 400, 404]
        assert counts(served) == {
            "no signature": 1,
            "wrong signature": 1,
            "too old": 1,
            "malformed": 1,
            "unknown source": 1,
        }
        assert read_all(served.broker, "builds") == []


async def test_a_body_may_be_compressed_and_not_too_large() -> None:
    async with serving(WebhooksSettings(max_body_bytes=2048)) as served:
        secret = await add(served)
        packed = {"Content-Encoding": "gzip"}

        assert await post(served, signed(secret, "1") | packed, gzip.compress(BODY)) == 204
        bomb = gzip.compress(bytes(2049))
        assert await post(served, signed(secret, "2") | packed, bomb) == 413
        assert await post(served, signed(secret, "3"), bytes(2049)) == 413
        assert values(read_all(served.broker, "builds")) == [BODY]


async def test_only_post_is_offered_and_foreign_hosts_are_refused() -> None:
    async with serving() as served, aiohttp.ClientSession() as session:
        url = f"http://{served.running.address}/hooks/shop"
        async with session.get(url) as response:
            assert response.status == 405
        async with session.post(url, headers={"Host": "evil.example"}) as response:
            assert response.status == 421
        async with session.post(url, headers={"Origin": "http://evil.example"}) as response:
            assert response.status == 403
        async with session.post(f"http://{served.running.address}/hooks/..%2f..") as response:
            assert response.status == 404


async def test_a_webhook_waits_for_room_in_its_topic_or_is_refused_for_now() -> None:
    async with serving() as served:
        settings = served.context.defaults.altered(
            overload="drop=newest", max_backlog=1, partitions=1
        )
        served.broker.create_topic("builds", settings)
        served.broker.queues.create("builds", "slow")
        secret = await add(served)

        statuses = [await post(served, signed(secret, str(number))) for number in range(3)]

        assert statuses == [204, 503, 503]
        # What was refused was not remembered, so it can be sent again.
        served.broker.queues.purge("builds", "slow")
        assert await post(served, signed(secret, "1")) == 204
        assert counts(served)["appended"] == 2


async def test_operations_on_sources_list_show_replace_and_remove() -> None:
    async with serving() as served:
        secret = await add(served)
        with pytest.raises(MainstemError, match="there is a source shop already"):
            await add(served)
        assert await add(served, topic="others", replace=True) == ""
        assert await post(served, signed(secret)) == 204
        assert len(read_all(served.broker, "others")) == 1

        (listed,) = await served.call("sources/ls")
        assert listed == await served.call("sources/show", name="shop")
        assert secret not in str(listed)
        assert listed["url"] == f"http://{served.running.address}/hooks/shop"
        await served.call("sources/rm", name="shop")
        assert await served.call("sources/ls") == []
        assert await post(served, signed(secret)) == 404


ENDPOINT: dict[str, object] = {"name": "a", "topics": "orders", "url": "http://a.example/"}
SOURCE: dict[str, object] = {"name": "a", "topic": "builds"}


@pytest.mark.parametrize(
    ("operation", "given", "needs"),
    [
        ("ls", {}, [(Action.DESCRIBE, "mainstem")]),
        ("show", {"name": "a"}, [(Action.DESCRIBE, "mainstem")]),
        ("attempts", {"name": "a"}, [(Action.DESCRIBE, "mainstem")]),
        ("add", ENDPOINT, [(Action.ALTER, "mainstem"), (Action.READ, "orders")]),
        ("pause", {"name": "a"}, [(Action.ALTER, "mainstem")]),
        ("resume", {"name": "a"}, [(Action.ALTER, "mainstem")]),
        ("rotate", {"name": "a"}, [(Action.ALTER, "mainstem")]),
        ("test", {"name": "a"}, [(Action.ALTER, "mainstem")]),
        ("replay", {"name": "a"}, [(Action.ALTER, "mainstem")]),
        ("rm", {"name": "a"}, [(Action.ALTER, "mainstem")]),
        ("sources/ls", {}, [(Action.DESCRIBE, "mainstem")]),
        ("sources/show", {"name": "a"}, [(Action.DESCRIBE, "mainstem")]),
        ("sources/add", SOURCE, [(Action.ALTER, "mainstem"), (Action.WRITE, "builds")]),
        ("sources/rm", {"name": "a"}, [(Action.ALTER, "mainstem")]),
    ],
)
async def test_an_operation_needs_its_permissions(
    operation: str, given: dict[str, object], needs: list[tuple[Action, str]]
) -> None:
    """Whatever is allowed but the last of them is not enough."""
    asked: list[tuple[Action, str]] = []

    def authorize(principal: Principal, action: Action, resource: Resource) -> None:
        asked.append((action, resource.name))
        if len(asked) == len(needs):
            raise Denied(principal.name, action, ResourceKind.CLUSTER, resource.name)

    async with serving(auth=Auth(authorize=authorize)) as served:
        with pytest.raises(Denied):
            await served.call(operation, **given)

        assert asked == needs
        assert served.broker.definitions.open("webhooks").items("endpoint") == {}
        assert served.broker.definitions.open("webhooks").items("source") == {}
