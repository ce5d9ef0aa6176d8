"""Malformed and hostile arguments are refused in one line that is safe for a terminal."""

from pathlib import Path

import pytest
from tests.cli.conftest import Run

from mainstem.cli.exit_codes import Exit

HUGE = "9" * 5000

PYTHONS_WORDS = ("set_int_max_str_digits", "C int", "OverflowError", "unexpected", "Python")


@pytest.mark.parametrize(
    "command",
    [
        ("sub", "t", "-e", "-o", HUGE),
        ("sub", "t", "-e", "-o", f"-{HUGE}"),
        ("sub", "t", "-e", "-o", f"@{HUGE}"),
        ("sub", "t", "-e", "-o", f"@-{HUGE}d"),
        ("sub", "t", "-e", "-o", "@-99999999999d"),
        ("sub", "t", "-e", "-p", HUGE),
        ("sub", "t", "-e", "-p", "99999999999999999999"),
        ("sub", "t", "--timeout", "1e400"),
        ("sub", "t", "--timeout", "nan"),
        ("sub", "t", "-e", "-c", HUGE),
        ("pub", "t", "1", "-p", "99999999999999999999"),
        ("pub", "t", "1", "-c", HUGE),
        ("topic", "create", "u", "--partitions", HUGE),
        ("topic", "create", "u", "--retention", f"{HUGE}d"),
        ("topic", "create", "u", "--segment-bytes", f"{HUGE}GiB"),
        ("topic", "create", "u", "--set", f"segment_bytes={HUGE}"),
        ("topic", "trim", "t", "--before", HUGE, "--yes"),
        ("group", "seek", "g", "t", "--to", HUGE, "--yes"),
        ("queue", "peek", "t", "q", "-n", HUGE),
        ("serve", "--kafka", f"127.0.0.1:{HUGE}"),
        ("serve", "--kafka", f"127.0.0.1:00000{HUGE}"),
        ("serve", "--kafka", ":0", "--admin", ":0", "--set", f"upkeep_ms={HUGE}"),
        ("topic", "ls", "--at", f"127.0.0.1:{HUGE}"),
    ],
    ids=lambda command: " ".join(command)[:50],
)
def test_a_number_that_is_too_large_is_refused_in_our_words(
    run: Run, command: tuple[str, ...]
) -> None:
    run("pub", "t", "1")

    code, _, err = run(*command)

    assert code in (Exit.ERROR, Exit.USAGE, Exit.REFUSED, Exit.NOT_FOUND)
    assert not any(words in err for words in PYTHONS_WORDS), err
    assert len(err.splitlines()) == 1
    assert len(err) < 2100


@pytest.mark.parametrize("target", ["127.0.0.1", "localhost", "9092", ":9092"])
def test_a_host_or_a_port_alone_is_taken_neither_for_a_server_nor_for_a_directory(
    run: Run, own_directory: Path, target: str
) -> None:
    code, _, err = run("pub", "t", "1", "--at", target)

    assert code == Exit.REFUSED
    assert "write the address of a server as 127.0.0.1:9092" in err
    assert not (own_directory / target).exists()
    (own_directory / target).mkdir()
    assert run("pub", "t", "1", "--at", target).code == Exit.OK


@pytest.mark.parametrize(
    "command",
    [
        ("sub", "\x1b]0;owned\x07", "-e"),
        ("pub", "\x1b[31mred", "1"),
        ("topic", "ls", "--at", "\x1b[2Jnowhere"),
        ("sub", "t", "-o", "\x1b[2J"),
        ("group", "show", "\x9b31m"),
        ("\x1b[2J",),
        ("sub", "t", "--\x1b[2J"),
    ],
    ids=repr,
)
def test_an_error_commands_no_terminal(run: Run, command: tuple[str, ...]) -> None:
    run("pub", "t", "1")

    code, _, err = run(*command)

    assert code != 0
    assert not any(ord(each) < 32 or 127 <= ord(each) < 160 for each in err.rstrip("\n"))


@pytest.mark.parametrize("escape", [r"\xZZ", r"\x", r"\q", r"\9", r"\400"])
def test_an_escape_that_means_nothing_is_refused(run: Run, escape: str) -> None:
    run("pub", "t", "1")

    for command in (
        ("sub", "t", "-e", "-f", f"%s{escape}"),
        ("sub", "t", "-e", "-D", escape),
        ("sub", "t", "-e", "-K", escape),
        ("pub", "t", "2", "-D", escape),
        ("pub", "t", "2", "-K", escape),
    ):
        code, out, err = run(*command)
        assert (code, out) == (Exit.USAGE, b""), command
        assert "no escape" in err
    assert run("sub", "t", "-e").out == b"1\n"


def test_escapes_of_punctuation_stay_what_they_were(run: Run) -> None:
    run("pub", "t", "1", "-k", "k")

    assert run("sub", "t", "-e", "-f", r"%k\:%s\\\x0a").out == b"k:1\\\n"


def test_a_pattern_that_matches_nothing_says_so(run: Run) -> None:
    run("pub", "t", "1")

    code, out, err = run("sub", "orders.*", "-e")
    assert (code, out) == (Exit.NOT_FOUND, b"")
    assert "no topic matches orders.*" in err

    code, out, err = run("sub", "orders.*", "--timeout", "0.01")
    assert code == Exit.TIMEOUT
    assert "no topic matches orders.* yet; waiting for one" in err

    code, out, err = run("sub", "orders.*", "t", "-e")
    assert (code, out) == (0, b"1\n")
    assert "no topic matches orders.* yet" in err
    assert run("sub", "orders.*", "t", "-e", "-q").err == ""
