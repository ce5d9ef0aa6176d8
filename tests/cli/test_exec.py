"""``mainstem sub --exec`` and ``--exec-each``: events for processes, through real ones."""

import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import termios
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.in_process_server import serving
from tests.processes import OnTerminal, wait_until

from mainstem.cli.exit_codes import Exit

MAINSTEM = (sys.executable, "-c", "from mainstem.cli import main; main()")
PATIENCE_S = 60
PIPE_BYTES = 65536
WAIT_FOR_GO = "while [ ! -e go ]; do sleep 0.05; done"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("served")) as address:
        yield address


def mainstem(kafka: str, *args: str, stdin: bytes = b"", code: int = 0) -> str:
    done = subprocess.run(
        [*MAINSTEM, "--at", kafka, *args],
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout.decode() + done.stderr.decode()


@contextmanager
def started(kafka: str, *args: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [*MAINSTEM, "--at", kafka, "sub", *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def publish(kafka: str, topic: str, count: int, size: int = 0) -> list[str]:
    values = [f"{number:0{size}d}" for number in range(count)]
    mainstem(kafka, "topic", "create", topic, "--partitions", "1")
    mainstem(kafka, "pub", topic, "-q", stdin="".join(f"{each}\n" for each in values).encode())
    return values


def lag(kafka: str, group: str) -> int:
    found = mainstem(kafka, "group", "lag", group).splitlines()
    assert found
    return sum(json.loads(each)["lag"] for each in found)


def lines(file: str) -> list[str]:
    return Path(file).read_text().splitlines() if Path(file).exists() else []


# --exec: one process


def test_a_process_gets_all_events_in_order_and_its_exit_code_counts(kafka: str) -> None:
    values = publish(kafka, "fed", 50_000)

    mainstem(kafka, "sub", "fed", "-e", "--exec", "cat > got")
    assert lines("got") == values

    mainstem(kafka, "sub", "fed", "--exec", "head -1 > first")
    assert lines("first") == values[:1]

    said = mainstem(kafka, "sub", "fed", "-e", "--exec", "cat > /dev/null; exit 3", code=1)
    assert "ended with exit code 3" in said


def test_a_process_that_does_not_read_stops_the_reading(kafka: str) -> None:
    publish(kafka, "slow", 60_000, 1000)

    command = f"echo $$ > pid; {WAIT_FOR_GO}; exec wc -l"
    with started(kafka, "slow", "-g", "slow", "--exec", command) as sub:
        wait_until(lambda: lines("pid"), "the process did not start")
        stdin = Path("/proc", *lines("pid"), "fd", "0")
        wait_until(lambda: unread(stdin) > PIPE_BYTES - 4096, "the pipe was not filled")
        resident = resident_bytes(sub.pid)
        Path("go").touch()
        wait_until(lambda: lag(kafka, "slow") == 0, "the rest was not read")
        sub.send_signal(signal.SIGTERM)
        out, _ = sub.communicate(timeout=PATIENCE_S)

    assert out == b"60000\n"
    assert resident < 256 << 20


def test_the_cursor_of_a_group_waits_for_the_process(kafka: str) -> None:
    values = publish(kafka, "cursor", 100)

    with started(kafka, "cursor", "-g", "g", "--exec", f"{WAIT_FOR_GO}; kill -9 $$") as sub:
        Path("go").touch()
        _, said = sub.communicate(timeout=PATIENCE_S)
    assert (sub.returncode, b"signal 9" in said) == (1, True)
    mainstem(kafka, "sub", "cursor", "-e", "-g", "g", "--exec", "cat > one; exit 1", code=1)
    mainstem(kafka, "sub", "cursor", "-e", "-g", "g", "--exec", "cat > two")
    mainstem(kafka, "sub", "cursor", "-e", "-g", "g", "--exec", "cat > three")

    assert (lines("one"), lines("two"), lines("three")) == (values, values, [])


def test_a_sub_that_is_killed_loses_nothing_of_what_it_fed() -> None:
    # Not at a server, where the group would wait for the one that was killed.
    kafka = str(Path("data").absolute())
    values = publish(kafka, "killed", 3000, 100)

    slow = "while read -r line; do echo $line >> got; done; touch done"
    with started(kafka, "killed", "-g", "g", "--exec", slow) as sub:
        wait_until(lambda: len(lines("got")) > 300, "nothing was fed")
        sub.kill()
    wait_until(lambda: Path("done").exists(), "the process did not read the rest of its pipe")
    mainstem(kafka, "sub", "killed", "-e", "-g", "g", "--exec", "cat >> got")

    assert set(lines("got")) == set(values)


# --exec-each: one process for each event


def each(
    kafka: str, topic: str, command: str, *options: str, queue: str = "q", code: int = 0
) -> str:
    return mainstem(
        kafka, "sub", topic, "--queue", queue, "--exec-each", command, *options, code=code
    )


def test_a_process_gets_an_event_on_its_stdin_and_in_its_environment(kafka: str) -> None:
    envelope = {"payload": "one\ntwo", "key": "k e y", "headers": ["Content-Type", "a b;$(c)"]}
    mainstem(kafka, "pub", "told", "-J", "-q", stdin=json.dumps(envelope).encode())

    show = 'cat; printf "|%s" "$EVENT_TOPIC" $EVENT_PARTITION $EVENT_OFFSET "$EVENT_KEY" '
    show += '"$EVENT_HEADER_CONTENT_TYPE" $EVENT_DELIVERY; exit 0'
    out = each(kafka, "told", show, "-e")

    assert out.startswith("one\ntwo|told|")
    assert out.endswith("|0|k e y|a b;$(c)|1")
    assert json.loads(each(kafka, "told", "cat", "-e", "-J", queue="other"))["key"] == "k e y"


def test_exit_0_acks_and_other_ends_are_retried_until_the_event_is_a_dead_letter(
    kafka: str,
) -> None:
    values = publish(kafka, "mixed", 30)

    command = (
        'read -r n; echo "$n $EVENT_DELIVERY" >> got; [ "$n" != 7 ] || exit 1; '
        '[ "$n" != 8 ] || kill -9 $$; [ "$n$EVENT_DELIVERY" != 91 ]'
    )
    said = each(kafka, "mixed", command, "-e", "--parallel", "4")

    runs = Counter(line.split()[0] for line in lines("got"))
    assert runs == Counter(values) + Counter({"7": 4, "8": 4, "9": 1})
    assert "exit code 1 (delivery 5)" in said
    assert "signal 9 (delivery 1)" in said
    dead = mainstem(kafka, "sub", "mixed.dead", "-e").splitlines()
    assert sorted(dead) == ["7", "8"]
    assert each(kafka, "mixed", "cat", "-e") == ""


def test_as_many_processes_run_at_a_time_as_allowed(kafka: str) -> None:
    publish(kafka, "parallel", 12)

    # Each waits for two others, so that it would wait for ever if there were fewer than three.
    command = (
        "touch run$EVENT_OFFSET; ls -d run* | wc -l >> counts; "
        "while [ ! -e go$((EVENT_OFFSET / 3)) ]; do "
        "[ $(cat started | wc -l) -lt $((EVENT_OFFSET / 3 * 3 + 3)) ] || touch "
        "go$((EVENT_OFFSET / 3)); sleep 0.02; done; rm run$EVENT_OFFSET"
    )
    each(kafka, "parallel", f"echo $EVENT_OFFSET >> started; {command}", "-e", "--parallel", "3")

    assert max(map(int, lines("counts"))) == 3
    assert sorted(map(int, lines("started"))) == list(range(12))


def test_a_sub_that_is_killed_loses_no_event(kafka: str) -> None:
    values = publish(kafka, "murder", 60, 2)

    options = ("murder", "--queue", "q", "--parallel", "3", "--time", "1")
    for round_ in range(1, 4):
        with started(kafka, *options, "--exec-each", "n=$(cat); echo $n >> got") as sub:
            wait_until(lambda: len(lines("got")) > 10 * round_, "nothing came")  # noqa: B023
            sub.kill()
    each(kafka, "murder", "n=$(cat); echo $n >> got", "--time", "1", "-e")

    counts = Counter(lines("got"))
    assert set(counts) == set(values)
    assert sum(counts.values()) <= len(values) + 3 * 3


def test_a_process_that_takes_too_long_is_killed_with_its_children(kafka: str) -> None:
    publish(kafka, "long", 1)

    command = "[ $EVENT_DELIVERY = 2 ] || { sleep 1000 & echo $! > child; wait; }"
    said = each(kafka, "long", command, "-e", "--time", "1")

    assert "took longer than 1 s (delivery 1)" in said
    (child,) = lines("child")
    wait_until(lambda: not Path("/proc", child).exists(), "the child is left")


def test_a_signal_waits_for_the_processes_and_a_second_one_kills_them(kafka: str) -> None:
    publish(kafka, "signalled", 3)
    options = ("signalled", "--queue", "q", "--exec-each", f"echo x >> began; {WAIT_FOR_GO}")

    with started(kafka, *options) as sub:
        wait_until(lambda: len(lines("began")) == 1, "it did not begin")
        sub.send_signal(signal.SIGTERM)
        assert sub.stderr
        assert b"waiting for 1 process" in sub.stderr.readline()
        sub.send_signal(signal.SIGTERM)
        assert sub.wait(PATIENCE_S) == -signal.SIGTERM
    with started(kafka, *options) as sub:
        wait_until(lambda: len(lines("began")) == 2, "it did not begin again")
        sub.send_signal(signal.SIGINT)
        assert sub.stderr
        assert b"waiting for 1 process" in sub.stderr.readline()
        Path("go").touch()
        assert sub.wait(PATIENCE_S) == -signal.SIGINT

    left = each(kafka, "signalled", "cat", "-e")
    assert sorted(left.replace("\n", "")) == ["1", "2"]


def test_a_closed_terminal_waits_for_the_processes_too(kafka: str, own_directory: Path) -> None:
    publish(kafka, "closed", 1)
    run_each = ("--queue", "q", "--exec-each", f"touch began; {WAIT_FOR_GO}")
    command = [*MAINSTEM, "--at", kafka, "sub", "closed", *run_each]
    with OnTerminal(command, own_directory, os.environ) as sub:
        wait_until(Path("began").exists, sub.told)
        sub.close()
        Path("go").touch()

        assert sub.wait() == -signal.SIGHUP

    # Its event was acknowledged.
    assert each(kafka, "closed", "cat", "-e") == ""


def test_a_command_that_cannot_run_costs_no_event(kafka: str) -> None:
    values = publish(kafka, "absent", 2)

    said = each(kafka, "absent", "./no-such-program", "-e", code=1)

    assert "exit code 127" in said
    assert each(kafka, "absent", "cat; echo", "-e").split() == values


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("t", "--exec-each", "cat"), "needs --queue"),
        (("t", "--queue", "q"), "--exec-each"),
        (("t", "u", "--queue", "q", "--exec-each", "cat"), "one topic"),
        (("t*", "--queue", "q", "--exec-each", "cat"), "one topic"),
        (("t", "--queue", "q", "--exec-each", "cat", "-g", "g"), "without -g"),
        (("t", "--queue", "q", "--exec-each", "cat", "--exec", "cat"), "without -g"),
        (("t", "--queue", "q", "--exec-each", "cat", "-o", "-5"), "a queue begins at"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    run: Run, options: tuple[str, ...], why: str
) -> None:
    run("pub", "t", "1", "-q")

    ran = run("sub", *options)

    assert (ran.code, why in ran.err) == (Exit.USAGE, True), ran.err


def unread(pipe: Path) -> int:
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))
    finally:
        os.close(descriptor)
    return int(count)


def resident_bytes(pid: int) -> int:
    return int(Path("/proc", str(pid), "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
