"""``sub -e -J | pub -J`` on one data directory: both ends of the pipe can open it."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from mainstem.cli.exit_codes import Exit

MAINSTEM = f"{sys.executable} -m mainstem"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line in which ``mainstem`` is the command; its code is that of whatever fails."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line.replace("mainstem", MAINSTEM)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_topic_is_copied_every_time(run: Run) -> None:
    run("pub", "orders", "1", "2", "3", "-k", "k", "-H", "a=b")

    for number in range(12):
        copied = shell(f"mainstem sub orders -e -J | mainstem pub copy-{number} -J")
        assert copied.returncode == 0, copied.stderr

    for number in range(12):
        assert run("sub", f"copy-{number}", "-e", "-f", "%k=%s ").out == b"k=1 k=2 k=3 "


def test_a_topic_larger_than_the_pipe_is_copied_also_onto_itself(run: Run) -> None:
    lines = b"".join(b"%06d %s\n" % (number, b"x" * 500) for number in range(4000))
    run("pub", "orders", stdin=lines)

    copied = shell("mainstem sub orders -e -J | mainstem pub orders -J")

    assert copied.returncode == 0, copied.stderr
    assert run("sub", "orders", "-e").out == lines * 2


def test_a_group_that_reads_to_the_end_is_waited_for(run: Run) -> None:
    run("pub", "orders", "1", "2", "3")

    copied = shell("mainstem sub orders -e -J -g copiers | mainstem pub copy -J")

    assert copied.returncode == 0, copied.stderr
    assert run("sub", "copy", "-e").out == b"1\n2\n3\n"


def test_who_follows_keeps_the_directory_and_the_other_end_says_so(run: Run) -> None:
    run("pub", "orders", "1", "2", "3")

    refused = shell("mainstem sub orders -J | mainstem pub copy -J")

    assert refused.returncode == Exit.REFUSED
    assert "mainstem sub orders -J" in refused.stderr
    assert "mainstem serve" in refused.stderr


def test_two_who_publish_at_once_take_turns(run: Run, tmp_path: Path) -> None:
    both = shell("mainstem pub a 1 & mainstem pub b 2 || exit 1; wait $!")

    assert both.returncode == 0, both.stderr
    assert run("sub", "a", "b", "-e").out in (b"1\n2\n", b"2\n1\n")


@pytest.mark.parametrize("reading", ["topic ls", "verify", "sub orders -e"])
def test_who_publishes_does_not_mind_those_who_read(run: Run, reading: str) -> None:
    run("pub", "orders", "1")

    both = shell(f"mainstem {reading} & mainstem pub orders 2 || exit 1; wait $!")

    assert both.returncode == 0, both.stderr
