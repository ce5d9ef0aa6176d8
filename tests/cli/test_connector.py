"""Connectors from the command line: what a server refuses, and why."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.in_process_server import server

from mainstem.cli.exit_codes import Exit


@pytest.fixture(autouse=True)
def running(own_directory: Path) -> Iterator[None]:
    """A server of the default directory, so that commands need no ``--at``."""
    with server(own_directory / "mainstem-data"):
        yield


@pytest.mark.parametrize(
    ("package", "url", "advice"),
    [
        ("psycopg", "postgres://u@127.0.0.1/x", "pip install 'mainstem[postgres]'"),
        ("pymysql", "mariadb://u@127.0.0.1/x", "pip install 'mainstem[mysql]'"),
    ],
)
def test_a_package_that_the_server_lacks_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, package: str, url: str, advice: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    result = run("connector", "add", "shop", url, "--tables", "public.orders")

    assert result.code == Exit.REFUSED
    assert advice in result.err
    assert "older" not in result.err


def test_what_needs_a_head_that_is_off_says_how_to_start_it(run: Run) -> None:
    result = run("webhook", "ls")

    assert result.code == Exit.REFUSED
    assert "mainstem serve --webhooks 127.0.0.1:8090" in result.err
