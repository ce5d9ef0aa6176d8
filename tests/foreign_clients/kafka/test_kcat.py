"""kcat (Debian's package), unmodified."""

import json
import shutil
import subprocess

import pytest

KCAT = shutil.which("kcat")
pytestmark = [
    pytest.mark.client("kcat", "1.7"),
    pytest.mark.lacks("transactions", "kcat has none"),
    pytest.mark.lacks("share groups", "kcat has no share consumer"),
    pytest.mark.skipif(KCAT is None, reason="kcat is missing: apt-get install kcat"),
]

PATIENCE_S = 60


def kcat(address: str, *arguments: str, given: str = "") -> str:
    """Run it to its end, and return what it printed."""
    done = subprocess.run(
        [str(KCAT), "-b", address, "-m", "30", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def produce(address: str, topic: str, lines: list[str], *arguments: str) -> None:
    kcat(address, "-P", "-t", topic, *arguments, given="".join(f"{line}\n" for line in lines))


def consume(address: str, topic: str, *arguments: str) -> list[str]:
    return kcat(address, "-C", "-t", topic, "-e", "-q", *arguments).splitlines()


LINES = [f"line {number}" for number in range(100)]


@pytest.mark.shows("produce")
@pytest.mark.shows("consume")
@pytest.mark.shows("compression", "gzip", "snappy", "lz4", "zstd")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed_in_every_compression(kafka: str, codec: str) -> None:
    topic = f"kcat.{codec}"

    produce(kafka, topic, LINES, "-p", "0", "-z", codec)

    assert consume(kafka, topic, "-p", "0") == LINES


@pytest.mark.shows("produce", "acks 0, 1 and all")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_way_of_acknowledging(kafka: str, acks: str) -> None:
    topic = f"kcat.acks.{acks}"

    produce(kafka, topic, LINES, "-p", "0", "-X", f"acks={acks}")

    assert consume(kafka, topic, "-p", "0", "-o", "beginning", "-c", "100") == LINES


@pytest.mark.shows("produce", "headers")
def test_keys_headers_and_format(kafka: str) -> None:
    produce(kafka, "kcat.format", ["k1:v1", "k2:v2"], "-p", "0", "-K", ":", "-H", "h=1")

    found = consume(kafka, "kcat.format", "-f", "%p %o %k %s %h\\n")

    assert found == ["0 0 k1 v1 h=1", "0 1 k2 v2 h=1"]


def test_json(kafka: str) -> None:
    produce(kafka, "kcat.json", ["a"], "-p", "2")

    (line,) = consume(kafka, "kcat.json", "-J")

    found = json.loads(line)
    assert (found["topic"], found["partition"], found["offset"]) == ("kcat.json", 2, 0)
    assert found["payload"] == "a"


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("beginning", LINES),
        ("10", LINES[10:]),
        ("-5", LINES[-5:]),
        ("end", []),
    ],
)
@pytest.mark.shows("consume", "from an offset, from a time")
def test_reading_from_anywhere(kafka: str, start: str, expected: list[str]) -> None:
    topic = f"kcat.from.{start.strip('-')}"
    produce(kafka, topic, LINES, "-p", "0")

    assert consume(kafka, topic, "-p", "0", "-o", start) == expected


def test_reading_stops_after_a_count(kafka: str) -> None:
    produce(kafka, "kcat.count", LINES, "-p", "0")

    assert consume(kafka, "kcat.count", "-p", "0", "-o", "20", "-c", "3") == LINES[20:23]


@pytest.mark.shows("administration", "offsets by time")
def test_events_by_time(kafka: str) -> None:
    produce(kafka, "kcat.time", LINES, "-p", "0")
    stamps = consume(kafka, "kcat.time", "-p", "0", "-f", "%T\\n")
    first, last = int(stamps[0]), int(stamps[-1])

    assert kcat(kafka, "-Q", "-t", f"kcat.time:0:{first}").split()[-1] == "0"
    assert kcat(kafka, "-Q", "-t", f"kcat.time:0:{last + 1}").split()[-1] in ("-1", "100")
    assert kcat(kafka, "-Q", "-t", "kcat.time:0:-1").split()[-1] == "100"
    assert kcat(kafka, "-Q", "-t", "kcat.time:0:-2").split()[-1] == "0"
    assert consume(kafka, "kcat.time", "-p", "0", "-o", f"s@{first}") == LINES
    assert (
        consume(kafka, "kcat.time", "-p", "0", "-o", f"s@{first}", "-o", f"e@{last + 1}") == LINES
    )


@pytest.mark.shows("administration", "topics")
def test_metadata(kafka: str) -> None:
    produce(kafka, "kcat.listed", ["a"], "-p", "0")

    found = json.loads(kcat(kafka, "-L", "-J", "-t", "kcat.listed"))

    assert [each["name"] for each in found["brokers"]] == [kafka]
    (topic,) = found["topics"]
    assert [each["partition"] for each in topic["partitions"]] == [0, 1, 2, 3]
    assert "kcat.listed" in kcat(kafka, "-L")


@pytest.mark.shows("groups", "committed offsets")
def test_a_group_goes_on_where_it_stopped(kafka: str) -> None:
    topic = "kcat.group"
    produce(kafka, topic, LINES[:50], "-p", "0")

    settings = ("-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000")
    first = kcat(kafka, "-G", "kcats", "-e", "-q", *settings, topic).splitlines()
    produce(kafka, topic, LINES[50:], "-p", "0")
    second = kcat(kafka, "-G", "kcats", "-e", "-q", *settings, topic).splitlines()

    assert first == LINES[:50]
    assert second == LINES[50:]


@pytest.mark.shows("groups", "rebalance")
def test_two_members_share_a_topic_and_one_takes_over(kafka: str) -> None:
    topic = "kcat.shared"
    produce(kafka, topic, LINES)
    command = [str(KCAT), "-b", kafka, "-G", "kcat.sharing", topic]
    quick = ["-X", "heartbeat.interval.ms=200", "-X", "session.timeout.ms=6000"]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, *quick],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    with start() as one:
        alone = assigned(one)
        with start() as two:
            shares = [assigned(one), assigned(two)]
            two.terminate()
        again = assigned(one)
        one.terminate()

    assert [len(alone), *map(len, shares), len(again)] == [4, 2, 2, 4]
    assert alone == again == shares[0] | shares[1]


def assigned(member: subprocess.Popen[str]) -> set[str]:
    """Wait for the next assignment that a member reports, and return its partitions."""
    assert member.stderr is not None
    for line in member.stderr:
        if "rebalanced" in line and ": assigned: " in line:
            return set(line.partition(": assigned: ")[2].strip().split(", "))
    raise AssertionError("it ended")


@pytest.mark.shows("produce", "idempotent")
def test_an_idempotent_producer_is_served(kafka: str) -> None:
    produce(kafka, "kcat.idempotent", LINES, "-p", "0", "-X", "enable.idempotence=true")

    assert consume(kafka, "kcat.idempotent", "-p", "0") == LINES
