"""Laws that every head obeys, whatever its protocol; ``heads.py`` has the sample frames.

Heads are started as the node starts them, and spoken to over TCP or UDP. An exception that a head
logs and survives fails any of these tests (``started.py``).
"""

import asyncio
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.heads.answer_times import AnswerTimes
from tests.heads.started import TOPIC, Peer, Started, started
from tests.heads.stomp.frames import cut_at
from tests.heads.transport.echo import run, until
from tests.laws.heads import EXAMPLES, Examples, Law, examples_of

from mainstem.auth import Action, Auth, Credentials, Principal, Resource, deny_all
from mainstem.auth import Peer as AuthPeer
from mainstem.core.errors import Failure, MainstemError, Unauthenticated
from mainstem.core.event import Event
from mainstem.heads import HEADS
from mainstem.heads.head import Head

every_head = pytest.mark.parametrize("head", HEADS, ids=[head.name for head in HEADS])
MIB = 1024 * 1024
DRAIN_S = 0.3
SLACK_S = 5.0
"""What a busy machine may take on top; whoever waits for a peer's goodwill waits for ever."""


def under(law: Law, head: Head) -> Examples:
    """Return the examples of a head; skips if the law does not apply to it."""
    found = examples_of(head)
    if law in found.not_applicable:
        pytest.skip(f"{law}: {found.not_applicable[law]}")
    return found


# The entries


@every_head
def test_every_head_has_an_entry_that_leaves_no_law_out_without_a_reason(head: Head) -> None:
    entry = examples_of(head)

    assert set(entry.not_applicable) == entry.gaps()
    assert all(entry.not_applicable.values())


def test_a_head_without_an_entry_is_told_what_to_add() -> None:
    gopher = Head("gopher", "Gopher", HEADS[0].settings, serves="Nobody.")

    with pytest.raises(AssertionError, match=r"'gopher': add a file .* tests/laws/heads,"):
        examples_of(gopher)


def test_there_is_no_entry_for_a_head_that_is_gone() -> None:
    assert set(EXAMPLES) == {head.name for head in HEADS}


@every_head
def test_what_the_server_prints_about_a_head_names_its_address(head: Head) -> None:
    for text in (head.connect, *head.examples):
        assert "127.0.0.1:4711" in text.format(at="127.0.0.1:4711")


# Bytes


@every_head
def test_cutting_the_stream_at_any_place_changes_nothing(head: Head) -> None:
    entry = under(Law.CUTTING, head)
    stream = entry.stream or b""
    everywhere = [[stream[:at], stream[at:]] for at in range(1, len(stream))]

    whole = held(head, entry, [stream])
    for pieces in [*everywhere, list(cut_at(stream, range(1, len(stream))))]:
        assert held(head, entry, pieces) == whole, [*map(len, pieces)]
    assert whole[0]
    assert bool(whole[1]) == entry.publishes


@every_head
@settings(max_examples=30)
@given(data=st.data())
def test_cutting_the_stream_at_any_places_changes_nothing(head: Head, data: st.DataObject) -> None:
    entry = under(Law.CUTTING, head)
    stream = entry.stream or b""
    places = data.draw(st.lists(st.integers(1, len(stream) - 1), max_size=8))

    async def scenario() -> None:
        whole = await conversation(head, entry, [stream])
        assert await conversation(head, entry, list(cut_at(stream, places))) == whole

    run("uvloop", scenario)


def held(head: Head, entry: Examples, pieces: list[bytes]) -> tuple[object, object]:
    """Hold a conversation on a loop, and with a time limit, of its own."""
    found: list[tuple[object, object]] = []

    async def scenario() -> None:
        found.append(await conversation(head, entry, pieces))

    run("uvloop", scenario)
    return found[0]


async def conversation(head: Head, entry: Examples, pieces: list[bytes]) -> tuple[object, object]:
    """Return what is answered to a stream that comes in pieces, and what it published."""
    async with started(head, entry.settings, prepare=entry.prepare) as server:
        return entry.answers(await server.talk(*pieces)), server.published()


@every_head
@settings(max_examples=25)
@given(data=st.data())
def test_what_is_encoded_decodes_to_the_same(head: Head, data: st.DataObject) -> None:
    entry = examples_of(head)
    message = data.draw(entry.messages)

    assert entry.there_and_back(message) == message


def noise(entry: Examples) -> st.SearchStrategy[bytes]:
    """Draw any bytes, or a conversation in which some were changed, taken out or said twice."""
    said = entry.stream or entry.ask
    at, instead = st.integers(0, len(said)), st.binary(max_size=8)
    # Where a frame's length comes first, only what keeps it gets as far as what is in the frame.
    kept = st.tuples(at, instead).map(lambda change: (*change, len(change[1])))
    changes = st.lists(kept | st.tuples(at, instead, st.integers(0, 12)), min_size=1, max_size=4)

    def spoil(changes: list[tuple[int, bytes, int]]) -> bytes:
        spoilt = said
        for at, instead, length in changes:
            spoilt = spoilt[:at] + instead + spoilt[at + length :]
        return spoilt

    return changes.map(spoil) | st.binary(max_size=300)


@every_head
@settings(max_examples=100)
@given(data=st.data())
def test_random_bytes_give_a_protocol_error_or_nothing(head: Head, data: st.DataObject) -> None:
    entry = examples_of(head)
    sent = data.draw(noise(entry))

    async def scenario() -> None:
        async with started(head, entry.settings, prepare=entry.prepare) as server:
            with little_memory():
                await server.talk(sent)
            assert entry.told(await server.talk(entry.ask), server.running) == entry.outcomes.done

    run("uvloop", scenario)


@every_head
def test_a_frame_over_the_limit_is_refused_before_it_is_allocated(head: Head) -> None:
    entry = under(Law.FRAME_LIMIT, head)
    assert entry.claims is not None
    largest, over = entry.claims(entry.limit), entry.claims(entry.limit + 1)

    async def scenario() -> None:
        async with started(head, entry.settings, prepare=entry.prepare) as server:
            patient, greedy = await server.peer(), await server.peer()
            with little_memory():
                await patient.say(largest)
                await greedy.say(over)
                await until(lambda: greedy.is_over)
            assert not patient.is_over

    run("uvloop", scenario)


@contextmanager
def little_memory() -> Iterator[None]:
    """Fail if more than a few buffers are allocated at once."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * MIB


# Refusals


class Made(MainstemError):
    """An error of some class of failure."""


@every_head
@pytest.mark.parametrize("failure", Failure)
def test_every_class_of_failure_has_an_answer(head: Head, failure: Failure) -> None:
    entry = examples_of(head)
    error = type("Made", (Made,), {"failure": failure})("made by a test")

    def authorize(_principal: Principal, _action: Action, _resource: Resource) -> None:
        raise error

    told, published = asked(head, entry, entry.ask, Auth(authorize=authorize))

    assert told not in (None, entry.outcomes.done)
    assert published == []


@every_head
def test_who_may_do_everything_is_refused_nothing(head: Head) -> None:
    entry = examples_of(head)

    told, published = asked(head, entry, entry.ask, Auth(authorize=allow))

    assert told == entry.outcomes.done
    assert bool(published) == entry.publishes


@every_head
def test_who_may_do_nothing_gets_the_protocols_own_refusal(head: Head) -> None:
    entry = examples_of(head)

    told, published = asked(head, entry, entry.ask, Auth(authorize=deny_all))

    assert told == entry.outcomes.denied
    assert published == []


@every_head
def test_who_has_not_logged_in_gets_the_protocols_own_refusal(head: Head) -> None:
    entry = examples_of(head)

    def authorize(_principal: Principal, _action: Action, _resource: Resource) -> None:
        raise Unauthenticated("the peer", "it must")

    told, published = asked(head, entry, entry.ask, Auth(authorize=authorize))

    assert told == entry.outcomes.unauthenticated
    assert published == []


@every_head
def test_who_fails_to_log_in_gets_the_protocols_own_refusal(head: Head) -> None:
    entry = under(Law.LOGIN, head)
    assert entry.login is not None

    def authenticate(_mechanism: str, _credentials: Credentials, peer: AuthPeer) -> Principal:
        raise Unauthenticated(peer.address, "the password is wrong")

    auth = Auth(authorize=allow, authenticate=authenticate)
    told, published = asked(head, entry, entry.login, auth)

    assert told == entry.outcomes.unauthenticated
    assert published == []


def allow(_principal: Principal, _action: Action, _resource: Resource) -> None:
    """Allow everything, but have to be asked."""


def asked(
    head: Head, entry: Examples, said: bytes, auth: Auth
) -> tuple[object, list[bytes | None]]:
    """Return what a peer is told, and what was published."""
    found: list[tuple[object, list[bytes | None]]] = []

    async def scenario() -> None:
        async with started(head, entry.settings, auth, prepare=entry.prepare) as server:
            heard = await server.talk(said)
            # What came is carried out by now, or is when it drains.
            await server.running.drain(DRAIN_S, asyncio.Event())
            found.append((entry.told(heard, server.running), server.published()))

    run("uvloop", scenario)
    return found[0]


# Sessions


@every_head
def test_closing_a_connection_gives_unsettled_deliveries_back(head: Head) -> None:
    entry = under(Law.SETTLING, head)
    take = entry.take
    assert take is not None

    async def scenario() -> None:
        async with started(head, entry.settings, prepare=entry.prepare) as server:
            server.broker.publish(TOPIC, [Event(b"value")])
            for _ in range(2):
                peer = await server.peer()
                await peer.say(take(server.broker))
                await until(lambda: server.out() == 1)
                assert b"value" in await heard(peer, b"value")
                peer.transport.abort()
                await until(lambda: server.out() == 0)

    run("uvloop", scenario)


async def heard(peer: Peer, wanted: bytes) -> bytes:
    """Return what a peer has heard once this is in it."""
    await until(lambda: wanted in peer.heard or peer.is_over)
    return peer.heard


@every_head
def test_draining_ends_every_session_in_time(head: Head) -> None:
    entry = examples_of(head)

    async def scenario() -> None:
        async with started(head, entry.settings, prepare=entry.prepare) as server:
            silent = await server.peer(hangs_up=False)
            halfway = await server.peer(hangs_up=False)
            await halfway.say(entry.ask[: len(entry.ask) // 2])
            open_before = len(list(server.running.connections()))

            took_s = await stop(server)

            assert took_s < DRAIN_S + SLACK_S
            assert list(server.running.connections()) == []
            if open_before:
                await until(lambda: silent.is_over and halfway.is_over)
                with pytest.raises(ConnectionRefusedError):
                    await server.peer()

    run("uvloop", scenario)


@every_head
def test_who_waits_is_answered_when_the_server_drains(head: Head) -> None:
    entry = under(Law.WAITING, head)
    wait = entry.wait
    assert wait is not None

    async def scenario() -> None:
        async with started(head, entry.settings, prepare=entry.prepare) as server:
            peer = await server.peer(hangs_up=False)
            await peer.say(wait)
            await heard(peer, entry.wait_begins)
            before = len(peer.heard)

            took_s = await stop(server)

            await until(lambda: peer.is_over)
            assert len(peer.heard) > before
            assert took_s < DRAIN_S + SLACK_S

    run("uvloop", scenario)


@every_head
def test_draining_does_not_wait_for_who_does_not_read(head: Head) -> None:
    entry = under(Law.READING, head)
    unread = entry.unread
    assert unread is not None

    async def scenario() -> None:
        async with started(
            head, entry.settings, buffer_bytes=4096, prepare=entry.prepare
        ) as server:
            peer = await server.peer()
            peer.stop_reading()
            peer.write(unread)
            await until(lambda: server.running.traffic.bytes_out > 0)

            took_s = await stop(server)

            assert took_s < DRAIN_S + SLACK_S
            assert list(server.running.connections()) == []

    run("uvloop", scenario)


@every_head
def test_what_was_said_before_the_server_drains_is_done(head: Head) -> None:
    entry = examples_of(head)

    async def scenario() -> None:
        async with started(head, entry.settings, prepare=entry.prepare) as server:
            peer = await server.peer()
            await peer.say(entry.ask)

            await stop(server)

            assert entry.told(peer.heard, server.running) == entry.outcomes.done
            assert bool(server.published()) == entry.publishes

    run("uvloop", scenario)


async def stop(server: Started) -> float:
    """Stop a head as the node does; return how long it took."""
    began = time.monotonic()
    server.context.drain()
    await server.running.drain(DRAIN_S, asyncio.Event())
    await server.running.close()
    return time.monotonic() - began


@every_head
def test_a_healthy_peer_beside_misbehaving_ones_is_answered(head: Head) -> None:
    entry = examples_of(head)

    async def scenario() -> None:
        async with started(head, entry.settings, prepare=entry.prepare) as server:
            over = asyncio.Event()
            misbehaving = asyncio.create_task(misbehave(server, entry, over))
            try:
                times = AnswerTimes()
                for _ in range(20):
                    with times.measured():
                        told = await server.talk(entry.ask)
                    assert entry.told(told, server.running) == entry.outcomes.done
                times.check()
                if entry.publishes:
                    await until(lambda: len(server.published()) >= 20)
                assert not misbehaving.done()
            finally:
                # Not cancelled, so that no connection is left half-made.
                over.set()
                await misbehaving

    run("uvloop", scenario)


async def misbehave(server: Started, entry: Examples, over: asyncio.Event) -> None:
    """Say garbage, halves and too much, read nothing, and go without a word; again and again."""
    said = entry.stream or entry.ask
    begun = entry.claims(entry.limit) if entry.claims else said[:-1]
    connected: list[Peer] = []
    while not over.is_set():
        for wrong in (b"\xff" * 1000, bytes(1000), said[: len(said) // 2], begun, said):
            peer = await server.peer()
            connected.append(peer)
            peer.stop_reading()
            peer.write(wrong)
            await asyncio.sleep(0)
        while len(connected) > 50:
            connected.pop(0).transport.abort()
