"""What cannot be captured is refused, with the reason."""

from typing import Any

import pytest
from tests.connectors.postgres.desk import PostgresDesk
from tests.connectors.workload import create

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.errors import InvalidSetting
from mainstem.core.topic_settings import Durability, TopicSettings


def test_what_cannot_be_captured_is_refused_when_it_is_added(desk: PostgresDesk) -> None:
    desk.db.execute(
        "CREATE TABLE nokey (a int)",
        "CREATE UNLOGGED TABLE fast (id int PRIMARY KEY)",
        'CREATE TABLE "a b" (id int PRIMARY KEY)',
        'CREATE TABLE "a?b" (id int PRIMARY KEY)',
        "CREATE TABLE good (id int PRIMARY KEY)",
        "DROP ROLE IF EXISTS ann",
        "CREATE ROLE ann LOGIN",
        "DROP ROLE IF EXISTS bob",
        "CREATE ROLE bob LOGIN REPLICATION",
    )
    by = {name: desk.db.url.replace("postgres@", f"{name}@", 1) for name in ("ann", "bob", "eve")}
    refused: dict[str, dict[str, Any]] = {
        "no primary key": {"tables": ("public.nokey",)},
        "is unlogged": {"tables": ("public.fast",)},
        "there is no table public.other": {"tables": ("public.other",)},
        "no table is captured": {"tables": ("other.*",)},
        "may not replicate": {"tables": ("public.good",), "url": by["ann"]},
        "may not read table public.good": {"tables": ("public.good",), "url": by["bob"]},
        "eve": {"tables": ("public.good",), "url": by["eve"]},
    }
    for why, settings in refused.items():
        with pytest.raises(SourceRefused, match=why):
            desk.connectors.add(
                ConnectorSettings(**({"name": "shop", "url": desk.db.url} | settings))
            )
    desk.db.execute("GRANT SELECT ON good TO bob")
    with pytest.raises(SourceRefused, match=r"let the owner of the tables run: CREATE PUBLICATION"):
        desk.add("public.good", url=by["bob"])
    with pytest.raises(SourceRefused, match="would share topic"):
        desk.add("public.a?b")
    desk.db.execute("DROP OWNED BY bob")


def test_a_server_without_logical_wal_is_refused(desk: PostgresDesk) -> None:
    create(desk.db, "t")
    desk.db.stop()
    desk.db.start("-c wal_level=replica")
    try:
        with pytest.raises(SourceRefused, match="wal_level is replica"):
            desk.add("public.t")
    finally:
        desk.db.stop()
        desk.db.start()


def test_passwords_are_references_and_urls_hold_none(desk: PostgresDesk) -> None:
    create(desk.db, "t")
    at = "postgres://a:secret@localhost/x"
    cases: dict[str, dict[str, Any]] = {
        "holds a password": {"url": at},
        "'passfile' is not supported": {"url": "postgres://localhost/x?passfile=/etc/passwd"},
        "must begin with MAINSTEM_SECRET_": {"password_env": "HOME"},
        "connectors.secrets_dir": {"password_file": "../../etc/passwd"},
        "no connector for URLs of 'mongodb'": {"url": "mongodb://localhost"},
        "not both": {"password_env": "MAINSTEM_SECRET_A", "password_file": "a"},
        "write schema.table": {"tables": ("t",)},
        "41 letters": {"name": "../x"},
    }
    for why, settings in cases.items():
        given: dict[str, Any] = {"name": "shop", "url": desk.db.url} | settings
        with pytest.raises(InvalidSetting, match=why) as refused:
            desk.connectors.add(ConnectorSettings(**given))
        assert "secret@" not in str(refused.value)

    desk.add("public.t", password_env="MAINSTEM_SECRET_A")
    desk.catch_up()

    everything = desk.broker.definitions.open("connectors").items("config")
    assert b"hidden" not in everything["shop"]
    assert b"MAINSTEM_SECRET_A" in everything["shop"]


def test_a_topic_that_may_lose_events_is_refused(desk: PostgresDesk) -> None:
    create(desk.db, "t")
    desk.broker.create_topic("shop.public.t", TopicSettings(durability=Durability.DISK))
    desk.add("public.t")
    desk.db.execute("INSERT INTO t VALUES (1, 1)")

    assert "does not survive a power cut" in desk.wait_for("failed").report.trouble
