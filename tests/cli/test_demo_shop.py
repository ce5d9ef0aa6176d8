"""The shop of ``./run``: a real PostgreSQL that ends with the demo, and what follows it."""

import shutil
from pathlib import Path

import psycopg
import pytest
from redis import Redis
from tests.in_process_server import server
from tests.processes import wait_until

from mainstem.cli.admin_port import ServerAdmin
from mainstem.cli.demo.companions import companion
from mainstem.cli.demo.shop import NAME, Shop
from mainstem.node.connector_operations import LIST, ConnectorInfo


def directory_of(address: str) -> Path:
    return Path("/tmp") / address.partition("/tmp/")[2].split("/")[0]


def test_a_database_and_its_files_end_when_nobody_needs_them() -> None:
    with companion("postgres") as found:
        assert found.reason == ""
        with psycopg.connect(found.address) as base:
            assert base.execute("SHOW wal_level").fetchone() == ("logical",)
        directory = directory_of(found.address)
        assert directory.is_dir()

    assert not directory.exists()


def test_a_cache_is_there_or_the_reason_why_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if shutil.which("redis-server"):
        with companion("redis") as found, Redis.from_url(found.address, protocol=2) as base:
            assert base.ping()

    monkeypatch.setenv("PATH", str(tmp_path))
    with companion("redis") as found:
        assert (found.address, found.reason[:27]) == ("", "there is no redis-server (o")


def test_the_shop_knows_the_newest_row_of_each_table_and_its_event() -> None:
    with companion("postgres") as found, server(None) as running:
        address = str(running.kafka)
        # The second shop is that of a later run, with another database.
        for _ in range(2):
            with psycopg.connect(found.address, autocommit=True) as base:
                base.execute("DROP TABLE IF EXISTS products, orders")
            shop = Shop(address, found.address)
            try:
                wait_until(
                    lambda shop=shop: shop.failure or shop.events.keys() > {("products", 1)},  # type: ignore[misc]
                    "no events",
                )
                wait_until(lambda shop=shop: "orders" in shop.newest, "no orders")  # type: ignore[misc]
                shop.stop()
                number, row = shop.newest["products"]
                with psycopg.connect(found.address) as base:
                    price = base.execute("SELECT price FROM products WHERE id = %s", (number,))
                    assert row is not None
                    assert price.fetchone() == (row["price"],)
                assert shop.failure is None
            finally:
                shop.close()
        connectors = ServerAdmin(address).read(LIST, {}, list[ConnectorInfo])

    assert NAME not in [each.name for each in connectors]
