"""Webhooks from the command line: endpoints that deliver, sources that receive."""

import hashlib
import hmac
import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.heads.webhooks.receiver import Receiver, receiving
from tests.in_process_server import server
from tests.loop_thread import entered
from tests.processes import wait_until

from mainstem.cli.exit_codes import Exit
from mainstem.heads.webhooks.settings import WebhooksSettings
from mainstem.node.config import Config
from mainstem.node.server import Running

CONFIG = Config(
    heads=Config().heads | {"webhooks": WebhooksSettings(listen="127.0.0.1:0", allow="127.0.0.0/8")}
)


@pytest.fixture
def running(own_directory: Path) -> Iterator[Running]:
    """A server of the default directory, so that commands need no ``--at``."""
    with server(own_directory / "mainstem-data", config=CONFIG) as found:
        yield found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver in a thread of its own."""
    with entered(receiving()) as found:
        yield found


def test_an_operator_adds_an_endpoint_and_follows_its_deliveries(
    run: Run, running: Running, receiver: Receiver
) -> None:
    run("topic", "create", "orders")
    added = json.loads(run("webhook", "add", "shop", "orders", receiver.url).out)
    assert added["secret"].startswith("whsec_")
    tested = json.loads(run("webhook", "test", "shop").out)
    assert (tested["status"], tested["error"]) == (204, "")

    run("pub", "orders", stdin=b"first\nsecond\n")
    wait_until(lambda: len(receiver.came) == 3, "the events do not come")

    attempts = [json.loads(line) for line in lines_once(run, 2, "webhook", "attempts", "shop")]
    assert [each["verdict"] for each in attempts] == ["delivered", "delivered"]
    replayed = json.loads(run("webhook", "replay", "shop", "--id", attempts[0]["id"]).out)
    assert replayed["offsets"] == 1
    wait_until(lambda: len(receiver.came) == 4, "the replay does not come")

    assert run("webhook", "pause", "shop").code == 0
    (listed,) = [json.loads(line) for line in run("webhook", "ls").out.splitlines()]
    assert (listed["status"], listed["reason"]) == ("paused", "by an operator")
    assert run("webhook", "resume", "shop").code == 0
    shown = run("webhook", "show", "shop").out
    rotated = json.loads(run("webhook", "rotate", "shop", "--overlap", "1h").out)
    assert rotated["secret"] not in (added["secret"], "")
    for said in (shown, run("webhook", "ls").out, run("webhook", "show", "shop").out):
        assert added["secret"].encode() not in said
        assert rotated["secret"].encode() not in said
    assert run("webhook", "rm", "shop", "--yes").code == 0
    assert run("webhook", "ls").out == b""


def lines_once(run: Run, count: int, *command: str) -> list[bytes]:
    """Return the lines of a command once there are so many."""
    found: list[bytes] = []

    def enough() -> bool:
        found[:] = run(*command).out.splitlines()
        return len(found) >= count

    wait_until(enough, "the lines do not come")
    return found


def test_requests_are_made_by_a_template(run: Run, running: Running, receiver: Receiver) -> None:
    run("topic", "create", "orders")
    template = b'{"text": "order {{value.id}}"}'
    added = run(
        *("webhook", "add", "chat", "orders", receiver.url),
        *("--payload", "template", "--template", "-"),
        stdin=template,
    )

    run("pub", "orders", stdin=b'{"id": 5}\n')
    wait_until(lambda: len(receiver.came) == 1, "the event does not come")

    assert added.code == 0
    assert json.loads(receiver.came[0][1]) == {"text": "order 5"}


def test_secrets_are_only_in_files_that_the_server_owns(
    run: Run, running: Running, own_directory: Path
) -> None:
    run("topic", "create", "orders")
    added = json.loads(run("webhook", "add", "shop", "orders", "https://shop.example/").out)
    signing = json.loads(
        run("webhook", "add", "sig", "orders", "https://shop.example/", "--ed25519").out
    )
    assert signing["secret"] == ""
    assert signing["endpoint"]["public_keys"][0].startswith("whpk_")

    secret = added["secret"].encode()
    files = [each for each in (own_directory / "mainstem-data").rglob("*") if each.is_file()]
    having = [each for each in files if secret in each.read_bytes()]

    assert [each.parent.name for each in having] == ["webhook-secrets"]


def test_a_source_receives_verified_webhooks(run: Run, running: Running) -> None:
    added = json.loads(run("webhook", "source", "add", "ci", "builds", "--scheme", "github").out)
    body = b'{"build": 1}'
    signature = hmac.new(added["secret"].encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Delivery": "d-1"}

    statuses = [sent(running, "ci", body, headers) for _ in range(2)]
    statuses.append(sent(running, "ci", b'{"build": 2}', headers))
    statuses.append(sent(running, "cd", body, headers))

    assert statuses == [204, 204, 401, 404]
    assert run("sub", "builds", "-c", "1").out.strip() == body
    (topic,) = [
        it for it in map(json.loads, run("topic", "ls").out.splitlines()) if it["topic"] == "builds"
    ]
    assert topic["events"] == 1
    (listed,) = map(json.loads, run("webhook", "source", "ls").out.splitlines())
    assert listed["url"] == f"http://{running.addresses['webhooks']}/hooks/ci"
    assert added["secret"] not in json.dumps(listed)
    assert run("webhook", "source", "rm", "ci", "--yes").code == 0
    assert sent(running, "ci", body, headers) == 404


def sent(running: Running, source: str, body: bytes, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(*running.addresses["webhooks"].pair, timeout=30)
    try:
        connection.request("POST", f"/hooks/{source}", body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["add", "shop", "orders", "http://user@shop.example/"], "credentials"),
        (["add", "shop", "orders", "file:///etc/passwd"], "scheme"),
        (["add", "shop", "nowhere", "http://shop.example/"], "no topic"),
        (["add", "shop", "orders", "http://a.example/", "--secret", "whsec_x"], "never as the"),
        (["add", "shop", "orders", "http://a.example/", "--batch", "5"], "payload"),
        (["add", "shop", "orders", "http://a.example/", "--retries", "5x"], "--retries 5x"),
        (["show", "shop"], "no endpoint 'shop'"),
        (["replay", "shop", "--id", "x"], "no endpoint"),
        (["source", "add", "a", "b", "--secret", "file:/etc/passwd"], "never as the secret"),
        (["source", "add", "a", "b", "--header", "X-Y"], "header"),
        (["source", "rm", "a", "--yes"], "no source 'a'"),
    ],
)
def test_what_cannot_be_is_refused_and_says_why(
    run: Run, running: Running, command: list[str], why: str
) -> None:
    run("topic", "create", "orders")

    done = run("webhook", *command)

    assert done.code != 0
    assert why in done.err


def test_a_server_without_webhooks_is_told_how_to_have_them(run: Run, own_directory: Path) -> None:
    with server(own_directory / "mainstem-data"):
        done = run("webhook", "ls")
    none = run("webhook", "ls")

    assert done.code == Exit.REFUSED
    assert "--webhooks 127.0.0.1:8090" in done.err
    assert "mainstem serve --webhooks" in none.err
