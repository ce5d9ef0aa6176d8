"""How long acknowledged messages stay in the log, by the settings of the server."""

import msgspec
import pytest
from tests.heads.amqp091.amqp_client import SETTINGS, World

from mainstem.heads.amqp091 import methods

DAY_MS, GIB = 86_400_000, 1024**3


async def kept(durable: bool = True, /, **settings: object) -> tuple[bool, int | None, int | None]:
    """Return whether acked messages of a new queue are deleted, and its limits of time and size."""
    world = World(msgspec.structs.replace(SETTINGS, **settings))
    client = await world.client()
    await client.asks(methods.QueueDeclare(queue="q", durable=durable))
    found = world.broker.topic("q").settings
    return found.delete_acked, found.retention_ms, found.retention_bytes


async def test_what_is_acknowledged_is_deleted_and_nothing_else() -> None:
    assert await kept() == (True, None, None)
    assert await kept(retention_ms=DAY_MS, retention_bytes=GIB) == (True, None, None)


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({}, (None, None)),
        ({"retention_ms": DAY_MS}, (DAY_MS, None)),
        ({"retention_bytes": GIB}, (None, GIB)),
    ],
)
async def test_or_it_is_kept_for_replay_within_limits(
    limits: dict[str, object], found: tuple[int | None, int | None]
) -> None:
    assert await kept(delete_acked=False, **limits) == (False, *found)


async def test_queues_that_do_not_survive_a_restart_keep_nothing() -> None:
    assert await kept(False, delete_acked=False, retention_ms=DAY_MS) == (True, None, None)
