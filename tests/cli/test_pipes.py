"""The command line as a process among others: pipes, signals, exit codes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

MAINSTEM = (sys.executable, "-c", "from mainstem.cli import main; main()")


def start(*args: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*MAINSTEM, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
    )


def finish(process: subprocess.Popen[bytes], data: bytes = b"") -> tuple[int, bytes, str]:
    with process:
        out, err = process.communicate(data, timeout=60)
    return process.returncode, out, (err or b"").decode()


def leave(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Stop reading what it prints; return its exit code and what it says."""
    with process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        return process.wait(60), process.stderr.read()


def test_a_hundred_thousand_lines_go_through_a_pipe_in_order() -> None:
    numbers = b"".join(b"%d\n" % number for number in range(100_000))

    assert finish(start("pub", "numbers", "-q"), numbers) == (0, b"", "")
    assert finish(start("sub", "numbers", "-e")) == (0, numbers, "")


def test_a_reader_that_leaves_ends_us_quietly_and_the_log_is_closed() -> None:
    numbers = b"".join(b"%d\n" % number for number in range(100_000))
    finish(start("pub", "numbers", "-q"), numbers)

    process = start("sub", "numbers", "-e")
    assert process.stdout
    assert process.stdout.read(2) == b"0\n"

    assert leave(process) == (-signal.SIGPIPE, b"")
    assert finish(start("sub", "numbers", "-c", "1")) == (0, b"0\n", "")


def test_a_reader_that_leaves_is_noticed_while_waiting_for_more() -> None:
    finish(start("pub", "t", "-q", "only"))

    process = start("sub", "t")
    assert process.stdout
    # It follows, so the line comes although nothing comes after it.
    assert process.stdout.readline() == b"only\n"

    assert leave(process) == (-signal.SIGPIPE, b"")


def test_ctrl_c_ends_a_waiting_reader_quietly_with_the_groups_cursor_stored() -> None:
    finish(start("pub", "t", "-q", "1", "2"))
    screen, terminal = os.openpty()
    process = start("sub", "t", "-g", "g", stderr=terminal)
    assert process.stdout
    assert process.stdout.readline() == b"1\n"
    assert process.stdout.readline() == b"2\n"
    assert os.read(screen, 1000).startswith(b"mainstem: at the end; waiting for more")

    process.send_signal(signal.SIGINT)

    assert finish(process)[:2] == (-signal.SIGINT, b"")
    assert finish(start("sub", "t", "-g", "g", "-e")) == (0, b"", "")
    os.close(terminal)
    os.close(screen)


def test_a_directory_in_use_is_refused_and_its_holder_named() -> None:
    finish(start("pub", "t", "-q", "1"))
    holder = start("sub", "t")
    assert holder.stdout
    assert holder.stdout.readline() == b"1\n"

    code, out, err = finish(start("pub", "t", "2"))

    assert (code, out) == (6, b"")
    assert str(holder.pid) in err
    assert len(err.splitlines()) == 1
    holder.send_signal(signal.SIGTERM)
    assert finish(holder)[0] == -signal.SIGTERM


def test_a_closed_stream_is_an_empty_one_and_never_a_file_of_the_log(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'from mainstem.cli import main; main()'"

    def shell(line: str) -> int:
        return subprocess.run(
            line.replace("mainstem", command, 1), shell=True, check=False
        ).returncode

    assert shell("mainstem pub t -q one two") == 0
    assert shell("mainstem pub t -q <&-") == 0
    assert shell("mainstem sub t -e <&- >&- 2>&-") == 0
    assert shell("mainstem topic ls --format table >&- 2>&-") == 0
    assert finish(start("sub", "t", "-e")) == (0, b"one\ntwo\n", "")
    assert finish(start("verify", "-q")) == (0, b"", "")


def test_what_nobody_foresaw_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    code = (
        "import mainstem; mainstem.open = lambda path: 1 // 0; import mainstem.cli as c; c.main()"
    )
    (tmp_path / "mainstem-data").mkdir()
    environment = {**os.environ, "MAINSTEM_DEBUG": ""}

    ran = subprocess.run(
        [sys.executable, "-c", code, "sub", "t"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )

    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert line.startswith("mainstem: unexpected ZeroDivisionError")
    assert "MAINSTEM_DEBUG=1" in line
