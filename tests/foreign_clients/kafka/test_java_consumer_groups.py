"""kafka-clients 4.3.0 (Java), unmodified, with ``group.protocol=consumer`` [KIP-848]."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.foreign_clients.java_client import NEEDED, command
from tests.in_process_server import serving

pytestmark = [*NEEDED, pytest.mark.client("Java client", "4.3")]
PATIENCE_S = 120


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Compile the program; returns how it is run."""
    return command("Members", tmp_path_factory.mktemp("classes"))


@contextmanager
def started(members: list[str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the program beside the test; it is killed in the end, whatever happens."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*members, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(members: list[str], *arguments: str) -> list[str]:
    """Run the program to its end, and return what it said."""
    done = subprocess.run(
        [*members, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def made(address: str, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 4, 1)])[topic].result(PATIENCE_S)
    return topic


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    assert said, process.stderr.read() if process.stderr is not None else ""
    return said


@pytest.mark.shows("groups", "consumer protocol (KIP-848)", "offsets committed by two members")
def test_partitions_are_shared_and_go_on_where_they_were_committed(
    kafka: str, members: list[str]
) -> None:
    found = run(members, kafka, "share", made(kafka, "members.share"))

    assert found == ["shared", "read 40", "alone with 4"]


@pytest.mark.shows("administration", "group configs", "groups of both protocols")
@pytest.mark.shows("groups", "a killed member is removed")
def test_a_group_is_set_up_and_described_and_a_member_that_is_killed_is_taken_out(
    kafka: str, members: list[str]
) -> None:
    topic = made(kafka, "members.killed")
    assert run(members, kafka, "describe", topic) == [
        "Consumer Stable uniform 4 4",
        "listed Consumer",
        "session 5000",
    ]

    with started(members, kafka, "hold", topic) as held:
        assert line(held) == "held"

    assert run(members, kafka, "take", topic) == ["taken"]


@pytest.mark.shows("groups", "static members")
def test_a_static_member_finds_what_it_had(kafka: str, members: list[str]) -> None:
    assert run(members, kafka, "keep", made(kafka, "members.keep")) == ["kept true 2"]


@pytest.mark.shows("groups", "upgrade to the consumer protocol member by member")
@pytest.mark.parametrize("assignor", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_a_live_group_goes_from_one_protocol_to_the_other_and_back(
    kafka: str, members: list[str], assignor: str
) -> None:
    topic = made(kafka, f"members.mix.{assignor}")

    assert run(members, kafka, "mix", topic, assignor) == ["mixed"]


@pytest.mark.shows("groups", "regular expressions")
def test_topics_are_found_by_a_regular_expression(kafka: str, members: list[str]) -> None:
    found = run(members, kafka, "pattern", made(kafka, "members.pattern"))

    assert found == ["found 6", "refused"]


@pytest.mark.shows("groups", "regular expressions")
def test_a_pattern_of_the_client_waits_for_its_first_topic(kafka: str, members: list[str]) -> None:
    assert run(members, kafka, "await", "members.await") == ["found 0", "found 2"]


@pytest.mark.shows("groups", "members survive a restart of the server")
def test_a_member_stays_over_a_restart_of_the_server(tmp_path: Path, members: list[str]) -> None:
    with ExitStack() as stack:
        with serving(tmp_path) as address:
            made(address, "t")
            member = stack.enter_context(started(members, address, "stay", "t"))
            assert line(member) == "ready"

        with serving(tmp_path, int(address.rpartition(":")[2])):
            assert member.stdin is not None
            member.stdin.write("\n")
            member.stdin.flush()
            assert line(member) == "the same true"
            stack.close()
