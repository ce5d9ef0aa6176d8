"""Exchanges of AMQP clients from the command line; pika sees the changes at once."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest
from pika.adapters.blocking_connection import BlockingChannel  # type: ignore[import-untyped]
from tests.cli.conftest import Run
from tests.foreign_clients.amqp.pika_client import CONFIG, channel_of, drained, waiting
from tests.in_process_server import server, serving

import mainstem
from mainstem.cli.exit_codes import Exit
from mainstem.node.server import Running


@pytest.fixture
def running(own_directory: Path) -> Iterator[Running]:
    """A server of the default directory, so that commands need no ``--at``."""
    with server(own_directory / "mainstem-data", config=CONFIG) as found:
        yield found


@pytest.fixture
def channel(running: Running) -> Iterator[BlockingChannel]:
    """A channel of pika's, with an exchange of each kind and a queue."""
    with channel_of(running) as found:
        found.confirm_delivery()
        for kind in ("topic", "headers", "fanout"):
            found.exchange_declare(f"by-{kind}", kind, durable=True)
        found.queue_declare("orders", durable=True)
        yield found


def bindings(run: Run, exchange: str) -> list[tuple[str, str, object]]:
    found = json.loads(run("exchange", "show", exchange).out)
    return [(it["destination"], it["routing_key"], it["arguments"]) for it in found["bindings"]]


def test_an_operator_follows_messages_from_an_exchange_to_the_end_of_a_queue(
    run: Run, channel: BlockingChannel
) -> None:
    channel.queue_declare("failed", durable=True)
    channel.basic_publish("", "orders", b"first")
    assert json.loads(run("queue", "show", "orders").out)["ready"] == 1

    bound = run("exchange", "bind", "by-topic", "orders", "--key", "eu.#")
    channel.basic_publish("by-topic", "eu.books", b"second", mandatory=True)
    moved = run("queue", "move", "orders", "failed", "--yes")

    assert json.loads(bound.out) == {"changed": True}
    assert json.loads(moved.out)["moved"] == 2
    assert (waiting(channel, "orders"), waiting(channel, "failed")) == (0, 2)
    channel.basic_publish("by-topic", "eu.books", b"third", mandatory=True)
    assert json.loads(run("queue", "purge", "orders", "--yes").out)["purged"] == 1
    assert waiting(channel, "orders") == 0
    assert drained(channel, "failed") == [b"first", b"second"]
    assert run("queue", "rm", "orders", "--yes").code == 0
    assert bindings(run, "by-topic") == []
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("by-topic", "eu.books", b"fourth", mandatory=True)


def test_bindings_are_those_of_clients(run: Run, channel: BlockingChannel) -> None:
    wanted = {"x-match": "any", "n": 7, "paid": True}
    channel.queue_bind("orders", "by-headers", "", wanted)
    given = ("by-headers", "orders", "-a", "x-match=any", "-a", "n=7", "-a", "paid=true")

    again = run("exchange", "bind", *given)
    shown = bindings(run, "by-headers")
    gone = run("exchange", "unbind", *given)

    assert json.loads(again.out) == {"changed": False}
    assert shown == [("orders", "", wanted)]
    assert json.loads(gone.out) == {"changed": True}
    assert json.loads(run("exchange", "unbind", *given).out) == {"changed": False}
    assert bindings(run, "by-headers") == []


def test_arguments_of_every_type_are_shown(run: Run, channel: BlockingChannel) -> None:
    sent = {
        "text": "é",
        "bytes": b"raw",
        "long": 1 << 40,
        "decimal": Decimal("1.5"),
        "time": datetime(2026, 1, 2, tzinfo=UTC),
        "none": None,
        "array": [1, "a", False],
        "table": {"a": {"b": 1}},
    }
    channel.queue_bind("orders", "by-topic", "k", sent)

    run("exchange", "bind", "by-topic", "orders", "-a", "float=0.5", "-a", 'text="1"')

    (_, _, shown), (_, _, ours) = bindings(run, "by-topic")
    assert ours == {"float": 0.5, "text": "1"}
    changed = {"bytes": "raw", "decimal": "1.5", "time": 1_767_312_000}
    assert shown == sent | changed


def test_an_exchange_is_bound_to_another_and_this_survives_a_restart(
    own_directory: Path, run: Run
) -> None:
    path = own_directory / "mainstem-data"
    with server(path, config=CONFIG) as running, channel_of(running) as channel:
        channel.exchange_declare("prices", "topic", durable=True)
        channel.exchange_declare("eu-prices", "fanout", durable=True)
        done = run("exchange", "bind", "prices", "eu-prices", "--to", "exchange", "--key", "eu.*")
        assert json.loads(done.out) == {"changed": True}

    with server(path, config=CONFIG):
        assert bindings(run, "prices") == [("eu-prices", "eu.*", {})]
        shown = json.loads(run("exchange", "show", "eu-prices").out)
        lines = run("exchange", "show", "eu-prices", terminal=True).lines

    assert [it["source"] for it in shown["bound_to"]] == ["prices"]
    assert lines[0] == "eu-prices of virtual host /: fanout, durable"
    assert lines[-1].split() == ["prices", "exchange", "eu-prices", "eu.*", "yes"]


def test_exchanges_are_listed_by_virtual_host(
    run: Run, running: Running, channel: BlockingChannel
) -> None:
    with channel_of(running, virtual_host="shop") as shop:
        shop.exchange_declare("own", arguments={"alternate-exchange": "amq.fanout"})
        every = [json.loads(line) for line in run("exchange", "ls").lines]
        of_shop = json.loads(run("exchange", "ls", "--vhost", "shop", "--format", "json").out)
        table = run("exchange", "ls", terminal=True).lines
        shown = json.loads(run("exchange", "show", "own", "--vhost", "shop").out)["exchange"]

    assert {(it["vhost"], it["name"]) for it in every} > {("/", "by-topic"), ("shop", "own")}
    assert {it["vhost"] for it in of_shop} == {"shop"}
    assert shown in of_shop
    assert shown["arguments"] == {"alternate-exchange": "amq.fanout"}
    assert (shown["type"], shown["durable"], shown["bindings"]) == ("direct", False, 0)
    assert table[0].split()[:3] == ["VHOST", "NAME", "TYPE"]
    assert table[1].split()[:4] == ["/", "(default)", "direct", "yes"]


def test_what_cannot_be_bound_is_refused_in_words_of_amqp(
    run: Run, channel: BlockingChannel
) -> None:
    refused = {
        ("nothing", "orders"): (Exit.NOT_FOUND, "no exchange 'nothing' in vhost '/'"),
        ("by-topic", "nobody"): (Exit.NOT_FOUND, "no queue 'nobody' in vhost '/'"),
        ("", "orders"): (Exit.REFUSED, "operation not permitted on the default exchange"),
        ("by-headers", "orders", "-a", "x-match=most"): (Exit.REFUSED, "x-match"),
        ("by-topic", "orders", "--key", "k" * 256): (Exit.REFUSED, "255 bytes"),
        ("by-topic", "orders", "-a", f"n={1 << 70}"): (Exit.REFUSED, "64 bits"),
        ("by-topic", "orders", "-a", "n=" + "[" * 70 + "]" * 70): (Exit.REFUSED, "64 deep"),
        ("by-topic", "orders", "-a", "x"): (Exit.USAGE, "NAME=VALUE"),
    }
    for given, (code, words) in refused.items():
        done = run("exchange", "bind", *given)
        assert (done.code, words in done.err) == (code, True), (given, done.err)
    assert run("exchange", "show", "nothing").code == Exit.NOT_FOUND
    assert run("exchange", "unbind", "nothing", "orders").code == Exit.NOT_FOUND
    assert bindings(run, "by-topic") == []


def test_without_a_server_or_its_amqp_it_says_what_to_start(own_directory: Path, run: Run) -> None:
    path = own_directory / "mainstem-data"
    assert run("exchange", "ls").code == Exit.NOT_FOUND
    mainstem.open(path).close()

    offline = run("exchange", "ls")
    with serving(path):
        no_amqp = run("exchange", "bind", "a", "b")

    assert (offline.code, "serve --amqp" in offline.err) == (Exit.REFUSED, True)
    assert (no_amqp.code, "--amqp 127.0.0.1:5672" in no_amqp.err) == (Exit.REFUSED, True)
