"""A password is in no process list, log, event, definition or answer; file and environment."""

import base64
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from pymysql.err import OperationalError
from tests.connectors.killed_servers import events_of, has_reached
from tests.connectors.mariadb.databases import PASSWORD, MariaDb, mariadb
from tests.faults.killable_server import PATIENCE_S, Mortal
from tests.processes import wait_until

from mainstem.cli.admin_port import ServerAdmin
from mainstem.node.connector_operations import LIST, SHOW, ConnectorInfo

SECRET = "gK7x-w0nt-leak"
VARIABLE = "MAINSTEM_SECRET_SHOP"


def command_lines() -> str:
    """Return the command lines of all processes."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(each.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            # It has ended meanwhile.
            continue
    return "\n".join(found)


def encodings(text: str) -> list[bytes]:
    """Return a text as it is, and as it is somewhere in base64, as definitions are stored."""
    found = [text.encode()]
    for before in range(3):
        whole = (before + len(text)) // 3 * 4
        found.append(base64.b64encode(bytes(before) + text.encode())[(before * 8 + 5) // 6 : whole])
    return found


def start(server: Mortal, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "mainstem", "connector", *arguments, "--at", server.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.parametrize("by", ["file", "environment"])
def test_a_password_is_nowhere_to_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    assert PASSWORD != SECRET
    (tmp_path / "secrets").mkdir()
    monkeypatch.setenv("MAINSTEM_CONNECTORS_SECRETS_DIR", str(tmp_path / "secrets"))
    if by == "file":
        (tmp_path / "secrets" / "shop").write_text(SECRET + "\n")
        option = ("--password-file", "shop")
    else:
        monkeypatch.setenv(VARIABLE, SECRET)
        option = ("--password-env", VARIABLE)
    with mariadb() as db, Mortal(tmp_path / "data") as server:
        db.execute(f"ALTER USER app@127.0.0.1 IDENTIFIED BY '{SECRET}'")
        db.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        adds = start(server, "add", "shop", db.url, "--tables", "t", *option)
        seen = command_lines()
        said = adds.communicate(timeout=PATIENCE_S)[0]
        assert adds.returncode == 0, said
        runs = start(server, "run", "shop")
        try:
            admin = ServerAdmin(server.address)
            wait_until(
                lambda: "process" in admin.read(SHOW, {"name": "shop"}, ConnectorInfo).runs_in,
                lambda: str(admin.read(SHOW, {"name": "shop"}, ConnectorInfo)),
            )
            db.execute("INSERT INTO t VALUES (2)")
            wait_until(lambda: has_reached(server, db.last()), lambda: "the row is not there")
            seen += command_lines()
            # What fails may say more than what works.
            fail(db)
            wait_until(
                lambda: admin.read(SHOW, {"name": "shop"}, ConnectorInfo).error != "",
                lambda: str(admin.read(SHOW, {"name": "shop"}, ConnectorInfo)),
            )
            said += str(admin.read(LIST, {}, list[ConnectorInfo]))
            events = [
                event
                for topic in ("shop", "shop.shop.t")
                for event in events_of(server.address, topic)
            ]
        finally:
            runs.terminate()
            said += runs.communicate(timeout=PATIENCE_S)[0]
        server.kill()
        said += server.said

    assert "connector run shop" in seen
    assert "runs in this process" in said
    assert SECRET not in seen
    assert SECRET not in said
    assert len(events) == 3
    assert not any(SECRET.encode() in (it.value or b"") + (it.key or b"") for it in events)
    files = [each for each in (tmp_path / "data").rglob("*") if each.is_file()]
    stored = b"".join(each.read_bytes() for each in files)
    # The definition is there, and names where the password is.
    assert any(each in stored for each in encodings(f'"{option[0][2:].replace("-", "_")}"'))
    assert not any(each in stored for each in encodings(SECRET))


def fail(db: MariaDb) -> None:
    """Make the next connection of the connector be refused."""
    db.execute("ALTER USER app@127.0.0.1 IDENTIFIED BY 'another'")
    for (number,) in db.execute("SELECT id FROM information_schema.processlist WHERE user = 'app'"):
        # Its connection may end before.
        with suppress(OperationalError):
            db.execute(f"KILL {number}")
