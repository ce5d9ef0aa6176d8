"""A server as a whole: its two ports, what it says of itself, and how it stops."""

import asyncio
import contextlib
import json
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from tests.heads.admin.web import Page, get
from tests.heads.kafka.raw_peers import Peer, fetching, produce, request

from mainstem.core.errors import InvalidSetting
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.messages.fetch import FETCH
from mainstem.node.config import Config
from mainstem.node.data_directory import Holder, holder_of
from mainstem.node.server import AddressTaken, Running, running

ANY = "127.0.0.1:0"
FREE = Config().listening(kafka=ANY, admin=ANY)


async def ask(server: Running, path: str) -> tuple[int, str]:
    page = await asyncio.to_thread(get, str(server.admin), path)
    return page.status, page.text


async def test_the_lock_file_says_where_both_ports_are(tmp_path: Path) -> None:
    async with running(tmp_path, FREE) as server:
        holder = holder_of(tmp_path)

    assert isinstance(holder, Holder)
    assert (holder.listens, holder.admin) == (str(server.kafka), str(server.admin))
    assert server.admin != server.kafka


async def test_a_server_that_runs_is_alive_and_ready(tmp_path: Path) -> None:
    async with running(tmp_path, FREE) as server:
        assert await ask(server, "/livez") == (200, "ok\n")
        assert await ask(server, "/readyz") == (200, "ok\n")


async def test_a_head_that_is_off_can_be_started_later_and_stops_with_the_others() -> None:
    async with running(None, FREE) as server:
        address = await server.start_head("stomp", ANY)
        reader, writer = await asyncio.open_connection(*address.pair)
        writer.write(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
        assert await reader.readline() == b"CONNECTED\n"
        assert server.addresses["stomp"] == address
        with pytest.raises(InvalidSetting):
            await server.start_head("amqp", "off")
    said = await reader.read()
    writer.close()

    assert b"Server is stopping" in said
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address.pair)


async def test_a_server_that_is_still_recovering_says_so(tmp_path: Path) -> None:
    answers: list[Page] = []

    def now_ms() -> int:
        # First asked for while the log is opened, when the admin port is in the lock file.
        holder = holder_of(tmp_path)
        if not answers and holder and holder.admin:
            answers.append(get(holder.admin, "/readyz"))
            answers.append(get(holder.admin, "/livez"))
            answers.append(get(holder.admin, "/metrics"))
        return 0

    async with running(tmp_path, FREE, now_ms=now_ms) as server:
        after = await ask(server, "/readyz")

    assert [answer.status for answer in answers] == [503, 200, 200]
    assert answers[0].text.startswith("recovering: ")
    assert "mainstem_ready 0\n" in answers[2].text
    assert after == (200, "ok\n")


async def test_a_server_whose_log_has_stopped_is_alive_but_not_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path / "data", FREE) as server:
        for each in (tmp_path / "data").rglob("*"):
            if each.is_file():
                each.unlink()
        # Upkeep looks whether the directory is still there, and stops the log if it is not.
        with pytest.raises(Exception, match="deleted"):
            server.node.keep_up()

        status, why = await ask(server, "/readyz")
        alive = await ask(server, "/livez")

    assert status == 503
    assert why.startswith("stopped: the disk failed while checking the data directory")
    assert (
        sum("the log has stopped: the disk failed" in each.message for each in caplog.records) == 1
    )
    assert alive == (200, "ok\n")


async def test_a_server_that_drains_says_so_until_it_is_done() -> None:
    hurry = asyncio.Event()
    server = await (stack := AsyncExitStack()).enter_async_context(
        running(None, msgspec.structs.replace(FREE, drain_ms=60_000), hurry=hurry)
    )
    deaf = await asyncio.to_thread(ask_for_much_and_read_nothing, str(server.kafka))

    stopping = asyncio.create_task(stack.aclose())
    ready, metrics = await ask(server, "/readyz"), await ask(server, "/metrics")
    hurry.set()
    await stopping
    deaf.socket.close()

    assert ready[0] == 503
    assert ready[1].startswith("draining: ")
    assert "mainstem_ready 0\n" in metrics[1]


def ask_for_much_and_read_nothing(address: str) -> Peer:
    """Return a peer whom a server that stops in order waits for."""
    deaf = Peer(address, receive_buffer=4096)
    produce(deaf, "t", bytes(build([Event(bytes(900_000))], now_ms=1)))
    deaf.send(request(FETCH, 12, fetching("t")) * 50)
    deaf.socket.recv(1)
    return deaf


async def test_a_port_that_is_taken_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"

        with pytest.raises(AddressTaken, match=rf"at {taken}: .* --kafka 127.0.0.1:PORT"):
            async with running(None, FREE.listening(kafka=taken)):
                pass
        with pytest.raises(AddressTaken, match="--admin"):
            async with running(None, FREE.listening(admin=taken)):
                pass


async def test_an_admin_port_that_is_taken_is_replaced_by_a_free_one() -> None:
    with contextlib.ExitStack() as stack:
        # If somebody else has it already, just as well.
        with contextlib.suppress(OSError):
            stack.enter_context(socket.create_server(("127.0.0.1", 9644)))

        async with running(None, FREE.listening(admin="auto")) as it:
            assert it.admin is not None
            assert it.admin.port != 9644
            assert await ask(it, "/readyz") == (200, "ok\n")


async def test_a_head_that_is_off_does_not_listen() -> None:
    async with running(None, FREE.listening(admin="off")) as it:
        assert set(it.addresses) == {"kafka"}


async def test_an_address_that_others_can_reach_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="no authentication"):
        async with running(None, FREE.listening(kafka="0.0.0.0:0")):
            pass


async def test_who_is_connected_is_listed_with_the_head(tmp_path: Path) -> None:
    async with running(tmp_path, FREE) as server:
        _, writer = await asyncio.open_connection(server.kafka.host, server.kafka.port)
        host, port = writer.get_extra_info("sockname")[:2]

        def is_listed(text: str) -> bool:
            found = json.loads(text)
            return {"kafka"} == {it["head"] for it in found if it["peer"] == f"{host}:{port}"}

        while not is_listed((await ask(server, "/connections"))[1]):  # noqa: ASYNC110 - as soon as it is accepted
            await asyncio.sleep(0)
        writer.close()


async def test_a_server_that_cannot_open_its_directory_lets_go_of_its_ports(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")

    for _ in range(2):
        with pytest.raises(OSError, match="file"):
            async with running(tmp_path / "file", FREE):
                pass
