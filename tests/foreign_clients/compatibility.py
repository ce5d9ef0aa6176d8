"""What works with which client: declared by the tests of this folder, written by their runs.

A module says which client it is about (``pytest.mark.client(name, version)``), and what that client
does not offer (``pytest.mark.lacks(feature, reason)``). A test says what it shows
(``pytest.mark.shows(feature, *details)``) or what is refused, and why (``pytest.mark.refused``).
"""

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

AMQP = "AMQP 0-9-1"
"""The protocol of RabbitMQ's clients."""
HTTP = "HTTP"
MANAGEMENT = "RabbitMQ HTTP API"
"""That of RabbitMQ's management plugin, for its tools."""

FEATURES = {
    "Kafka": (
        "produce",
        "consume",
        "compression",
        "groups",
        "share groups",
        "transactions",
        "administration",
    ),
    AMQP: ("declare", "publish", "consume", "dead letters", "transactions"),
    HTTP: ("publish", "read", "follow", "WebSocket", "queues"),
    MANAGEMENT: ("lists", "declare", "messages", "definitions"),
}
"""Protocol → what its clients are shown to do."""
MARKERS = (
    "client(name, version, protocol=Kafka): the client that all tests of the module use",
    "lacks(feature, reason): what that client does not offer, whatever the server does",
    "shows(feature, *details): what passes if the test does",
    "refused(what, reason): what the test shows to be refused",
)

WRITES = bool(os.environ.get("MAINSTEM_WRITE_COMPATIBILITY"))
"""Whether this run is to write the tables."""

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BEGIN = "<!-- written by ./test --write-compatibility -->"
END = "<!-- end of what is written -->"


class Client(msgspec.Struct):
    """A client, and what its tests declare."""

    name: str
    version: str
    protocol: str
    lacks: dict[str, str]
    """Feature → why there is nothing to show."""
    shows: dict[str, list[str]]
    """Feature → details, in the order of the tests."""
    refused: list[tuple[str, str]]
    """What is refused, and why."""
    tests: set[str]
    """The tests that declare something, as file::function."""


def declared() -> list[Client]:
    """Return what the tests of this folder declare, by client."""
    found: dict[str, Client] = {}
    for path in sorted(HERE.rglob("test_*.py"), key=lambda each: each.name):
        place = ".".join(path.relative_to(HERE).with_suffix("").parts)
        module = importlib.import_module(f"tests.foreign_clients.{place}")
        marks = _marks(module)
        for name, version, *rest in (mark.args for mark in marks if mark.name == "client"):
            protocol = rest[0] if rest else "Kafka"
            client = found.setdefault(name, Client(name, version, protocol, {}, {}, [], set()))
            client.lacks |= dict(mark.args for mark in marks if mark.name == "lacks")
            _declare(client, module, path.name)
    return [each for protocol in FEATURES for each in found.values() if each.protocol == protocol]


def _declare(client: Client, module: ModuleType, file: str) -> None:
    for name, function in vars(module).items():
        if not name.startswith("test_"):
            continue
        for mark in _marks(function):
            if mark.name == "shows":
                feature, *details = mark.args
                assert feature in FEATURES[client.protocol], f"{file}::{name} shows {feature!r}"
                shown = client.shows.setdefault(feature, [])
                shown += (each for each in details if each not in shown)
            elif mark.name == "refused":
                what, reason = mark.args
                client.refused.append((what, reason))
            else:
                continue
            client.tests.add(f"{file}::{name}")


def _marks(marked: object) -> list[pytest.Mark]:
    marks = getattr(marked, "pytestmark", [])
    marks = marks if isinstance(marks, list) else [marks]
    return [each if isinstance(each, pytest.Mark) else each.mark for each in marks]


def cell(client: Client, feature: str) -> str:
    """Return what a short table says."""
    if feature in client.shows:
        return "yes"
    return "not in this client" if feature in client.lacks else "no"


def overview(clients: list[Client]) -> str:
    """Return the tables of the README, one for each protocol."""
    return "\n\n".join(
        _table(protocol, [each for each in clients if each.protocol == protocol])
        for protocol in FEATURES
    )


def _table(protocol: str, clients: list[Client]) -> str:
    features = FEATURES[protocol]
    rows = [f"| {protocol} client | {' | '.join(features)} |", "|---" * (len(features) + 1) + "|"]
    for client in clients:
        cells = " | ".join(cell(client, feature) for feature in features)
        rows.append(f"| {client.name} {client.version} | {cells} |")
    return "\n".join(rows)


def details(clients: list[Client]) -> str:
    """Return the page of what was shown with each client, and what is refused."""
    return "\n".join(_detail_lines(clients))


def _detail_lines(clients: list[Client]) -> Iterator[str]:
    for client in clients:
        yield f"## {client.name} {client.version}\n"
        yield "| feature | what the tests show |"
        yield "|---|---|"
        for feature in FEATURES[client.protocol]:
            shown = "; ".join(client.shows.get(feature, ())) or client.lacks.get(feature)
            yield f"| {feature} | {shown or cell(client, feature)} |"
        yield ""
    yield "## What is refused\n"
    yield "| what | why | shown with |"
    yield "|---|---|---|"
    reasons: dict[tuple[str, str], list[str]] = {
        refusal: [] for client in clients for refusal in client.refused
    }
    for client in clients:
        for refusal in dict.fromkeys(client.refused):
            reasons[refusal].append(client.name)
    for (what, reason), seen in reasons.items():
        yield f"| {what} | {reason} | {', '.join(seen)} |"


PAGES = {ROOT / "README.md": overview, ROOT / "docs" / "compatibility.md": details}


def written(page: Path) -> str:
    """Return what stands between the marks of a page."""
    return page.read_text().split(BEGIN, 1)[1].split(END, 1)[0].strip("\n")


def write(clients: list[Client]) -> None:
    """Put what was shown between the marks of every page."""
    for page, text in PAGES.items():
        before, rest = page.read_text().split(BEGIN, 1)
        _, after = rest.split(END, 1)
        page.write_text(f"{before}{BEGIN}\n{text(clients)}\n{END}{after}")
