"""``mainstem serve``: its output, the commands it suggests, and how it stops."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.heads.admin.web import connect, get
from tests.processes import MARK, OnTerminal, marked, wait_until

import mainstem
from mainstem.cli.exit_codes import Exit

PATIENCE_S = 60
KCAT = ("echo", "kcat")
"""How the lines about it begin."""


class Served:
    """A server in a process of its own, and what it has said so far."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        command = [sys.executable, "-c", "from mainstem.cli import main; main()", "serve"]
        self.process = subprocess.Popen(
            [*command, *arguments], cwd=cwd, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []

    def until(self, text: str) -> str:
        """Read what it says until a line that holds this."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            if text in line:
                return self.lines[-1]
        raise AssertionError(f"it ended without {text!r}: {self.lines}")

    def stop(self) -> tuple[int, list[str]]:
        """Stop it politely; return its exit code and what it said after."""
        self.process.send_signal(signal.SIGTERM)
        _, rest = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, rest.splitlines()


@contextmanager
def served(*arguments: str, cwd: Path) -> Iterator[Served]:
    found = Served(*arguments, cwd=cwd)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.process.kill()
        found.process.communicate(timeout=PATIENCE_S)


def place(line: str) -> str:
    found = re.search(r"127\.0\.0\.1:\d+", line)
    assert found
    return found[0]


def test_it_says_what_it_serves_what_it_promises_and_what_to_type(tmp_path: Path) -> None:
    with served("--kafka", ":0", "--admin", ":0", cwd=tmp_path) as it:
        it.until("stop")
        text = "\n".join(it.lines)
        program = next(line for line in it.lines if "python -c" in line)
        kafka = place(next(line for line in it.lines if "bootstrap" in line))

        assert "serves mainstem-data, ready after" in it.lines[0]
        assert "fsync, 1 copy: survives kill -9 and a power cut" in text
        # What it says can be typed.
        python, *rest = shlex.split(program)
        assert python == "python"
        subprocess.run([sys.executable, *rest], check=True, timeout=PATIENCE_S)
        assert f"kcat -C -b {kafka} -t greetings" in text

        code, after = it.stop()

    assert code == 0
    assert after[-1].endswith(" info stopped")
    with served("--kafka", ":0", "--admin", ":0", cwd=tmp_path) as again:
        again.until("stop")
    (topics,) = (line for line in again.lines if line.startswith("  topics"))
    assert topics.removeprefix("  topics").lstrip() == "1 fsync, 1 copy"


def test_what_it_says_of_each_protocol_begins_in_one_column(tmp_path: Path) -> None:
    heads = ("--kafka", "--connect", "--amqp", "--amqp-management", "--http")

    with served(":memory:", *(word for flag in heads for word in (flag, ":0")), cwd=tmp_path) as it:
        it.until("stop")
        labelled = [line for line in it.lines if re.match("  [A-Za-z]", line)]

    (column,) = {line.index(place(line)) for line in labelled if "Kafka  " in line}
    assert all(line[column - 1] == " " and line[column] != " " for line in labelled)


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is missing: apt-get install kcat")
def test_what_it_says_to_type_for_kcat_works(tmp_path: Path) -> None:
    with served(":memory:", "--kafka", ":0", "--admin", ":0", cwd=tmp_path) as it:
        it.until("stop")
        lines = [line for line in it.lines if "kcat" in line]
        produce, consume = (
            line[line.index(word) :] for line, word in zip(lines, KCAT, strict=True)
        )

        subprocess.run(produce, shell=True, check=True, timeout=PATIENCE_S)
        read = subprocess.run(
            consume, shell=True, check=True, timeout=PATIENCE_S, capture_output=True, text=True
        )

    assert read.stdout == "hello\n"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing: apt-get install curl")
def test_what_it_says_to_type_for_curl_works(tmp_path: Path) -> None:
    listen = ("--kafka", ":0", "--admin", ":0", "--http", "127.0.0.1:0")
    with served(":memory:", *listen, cwd=tmp_path) as it:
        it.until("stop")
        publish, read = (line[line.index("curl") :] for line in it.lines if "curl" in line)
        answers = [
            subprocess.run(
                line, shell=True, check=True, timeout=PATIENCE_S, capture_output=True, text=True
            ).stdout
            for line in (publish, read)
        ]

    assert json.loads(answers[0]) == {"positions": [{"partition": 0, "offset": 0}]}
    assert [event["value"] for event in json.loads(answers[1])["events"]] == [{"id": 1}]


def test_its_pages_are_where_it_says(tmp_path: Path) -> None:
    with served(":memory:", "--kafka", ":0", "--admin", ":0", cwd=tmp_path) as it:
        address = place(it.until("admin"))

        assert get(address, "/readyz").status == 200
        assert "mainstem_ready 1" in get(address, "/metrics").text


def test_a_server_that_has_nothing_to_do_takes_little_memory(tmp_path: Path) -> None:
    with served("--kafka", ":0", "--admin", ":0", cwd=tmp_path) as it:
        address = place(it.until("admin"))
        assert get(address, "/metrics").status == 200

        status = Path(f"/proc/{it.process.pid}/status").read_text()

    (resident_kb,) = re.findall(r"VmRSS:\s+(\d+) kB", status)
    assert int(resident_kb) < 60 * 1024


def test_every_line_can_be_json(tmp_path: Path) -> None:
    with served("d", "--kafka", ":0", "--admin", ":0", "--log-format", "json", cwd=tmp_path) as it:
        started = json.loads(it.until("serving"))
        with connect(started["kafka"]) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
            name = "{}:{}".format(*peer.getsockname())
            closed = json.loads(it.until("closing"))
        code, after = it.stop()

    assert (started["durability"], started["copies"], started["topics"]) == ("fsync", 1, 0)
    assert closed["level"] == "warning"
    assert closed["message"].startswith(f"closing {name}: ")
    assert "HTTP" in closed["message"]
    assert code == 0
    assert json.loads(after[-1])["message"] == "stopped"


def test_a_peer_that_is_cut_off_is_named_with_the_reason(tmp_path: Path) -> None:
    with served(":memory:", "--kafka", ":0", "--admin", ":0", cwd=tmp_path) as it:
        it.until("stop")
        kafka = place(next(line for line in it.lines if "bootstrap" in line))
        with connect(kafka) as peer:
            peer.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            name = "{}:{}".format(*peer.getsockname())

            line = it.until("closing")

    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning closing ", line)
    assert name in line
    assert "TLS handshake" in line


@pytest.mark.parametrize("option", ["--kafka", "--admin"])
def test_a_port_that_is_taken_is_named_with_what_to_do(tmp_path: Path, option: str) -> None:
    other = {"--kafka": "--admin", "--admin": "--kafka"}[option]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = f"127.0.0.1:{listener.getsockname()[1]}"
        with served(":memory:", option, taken, other, ":0", cwd=tmp_path) as it:
            line = it.until("listens")

            assert it.process.wait(PATIENCE_S) == 6

    assert line.startswith(f"mainstem: another program listens at {taken}: stop it, or choose")
    assert f"{option} 127.0.0.1:PORT" in line


@pytest.mark.parametrize("option", ["--kafka", "--admin"])
def test_an_address_that_others_can_reach_is_refused(tmp_path: Path, option: str) -> None:
    with served(":memory:", option, "0.0.0.0:0", cwd=tmp_path) as it:
        it.until("no authentication yet: listen on 127.0.0.1")

        assert it.process.wait(PATIENCE_S) == 6


def test_a_limit_can_be_set(tmp_path: Path) -> None:
    ports = ("--kafka", ":0", "--admin", ":0")
    with served(":memory:", *ports, "--set", "kafka.max_connections=1", cwd=tmp_path) as it:
        it.until("stop")
        kafka = place(next(line for line in it.lines if "bootstrap" in line))
        with connect(kafka), connect(kafka) as second:
            assert second.recv(1) == b""

            assert "1 connections are open already" in it.until("refusing")


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("kafka.max_connections=0", "kafka.max_connections = '0' in the arguments"),
        ("kafka.max_conections=1", "did you mean kafka.max_connections?"),
        ("kafka.max_connections", "lacks '='"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(run: Run, wish: str, words: str) -> None:
    ran = run("serve", ":memory:", "--kafka", ":0", "--admin", ":0", "--set", wish)

    assert ran.code in (Exit.USAGE, Exit.REFUSED)
    assert words in ran.err


def test_it_serves_the_directory_that_all_commands_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTEM_AT", "elsewhere")

    with served("--kafka", ":0", "--admin", ":0", cwd=tmp_path) as it:
        it.until("serves elsewhere, ready after")


def test_an_address_is_nothing_to_serve(run: Run) -> None:
    ran = run("--at", "127.0.0.1:9092", "serve", "--kafka", ":0", "--admin", ":0")

    assert ran.code == Exit.REFUSED
    assert "name the data directory to serve" in ran.err


SERVE = [sys.executable, "-m", "mainstem", "serve", "data", "--kafka", ":0", "--admin", ":0"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_that_asks_to_stop_stops_it_in_order(
    tmp_path: Path, number: signal.Signals
) -> None:
    with served("--kafka", ":0", "--admin", ":0", cwd=tmp_path) as it:
        it.until("stop")
        it.process.send_signal(number)
        _, rest = it.process.communicate(timeout=PATIENCE_S)

    assert it.process.returncode == 0
    assert rest.endswith(" info stopped\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_to_its_group_stops_it_in_order(
    tmp_path: Path, number: signal.Signals
) -> None:
    # A terminal or a supervisor sends it to the shell that started the server, too.
    shell = subprocess.Popen(
        ["/bin/sh", "-c", f"{shlex.join(SERVE)}; true"],
        cwd=tmp_path,
        env=os.environ | {MARK: str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert shell.stderr is not None
    try:
        while "  stop " not in (line := shell.stderr.readline()):
            assert line, "it does not serve"
        os.killpg(shell.pid, number)
        # Up to the end of whoever has the pipe: of the server, though the shell may end before.
        _, rest = shell.communicate(timeout=PATIENCE_S)
    finally:
        for each in marked(str(tmp_path)):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        shell.communicate()

    assert rest.endswith(" info stopped\n")
    with mainstem.open(tmp_path / "data") as stem:
        assert not stem.topics.list()


def test_a_closed_terminal_stops_it_in_order(tmp_path: Path) -> None:
    with OnTerminal(SERVE, tmp_path, os.environ) as it:
        wait_until(lambda: b"  stop " in it.shown, it.told)
        it.close()

        assert it.wait() == 0

    # What it holds is free: the log was closed.
    with mainstem.open(tmp_path / "data") as stem:
        assert not stem.topics.list()


def test_with_nohup_it_outlives_its_terminal(tmp_path: Path) -> None:
    environment = os.environ | {MARK: str(tmp_path)}
    log = tmp_path / "nohup.out"
    with OnTerminal(["/usr/bin/nohup", *SERVE], tmp_path, environment) as it:
        wait_until(lambda: log.exists() and "  stop " in log.read_text(), it.told)
        it.close()

        address = place(next(line for line in log.read_text().splitlines() if "admin" in line))
        assert get(address, "/readyz").status == 200
        assert signal.SIGHUP in ignored_by(it.pid)
        os.kill(it.pid, signal.SIGTERM)
        assert it.wait() == 0


def ignored_by(pid: int) -> set[int]:
    """Return the signals that the kernel does not deliver to a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (mask,) = (int(line.split()[1], 16) for line in lines if line.startswith("SigIgn:"))
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}
