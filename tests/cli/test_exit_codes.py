"""Exit codes, and errors of one line."""

import pytest
from tests.cli.conftest import Run

from mainstem.cli.exit_codes import Exit, code_of
from mainstem.core import errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UnknownGroup("g"), Exit.NOT_FOUND),
        (errors.OffsetOutOfRange("here", 9, 0, 1), Exit.NOT_FOUND),
        (errors.DirectoryInUse("held"), Exit.REFUSED),
        (errors.InvalidSetting("no"), Exit.REFUSED),
        (errors.Overloaded("full"), Exit.REFUSED),
        (errors.StorageFull("full"), Exit.REFUSED),
        (errors.DamagedLog("bits"), Exit.ERROR),
        (errors.StorageFailed("disk"), Exit.ERROR),
        (ConnectionRefusedError("no"), Exit.UNREACHABLE),
        (PermissionError(13, "Permission denied", "data"), Exit.ERROR),
        (BrokenPipeError(), 141),
        (KeyboardInterrupt(), 130),
    ],
)
def test_what_happened_decides_the_exit_code(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    assert code_of(error) == code


def test_an_error_is_one_line_that_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    code = code_of(errors.UnknownTopic("orders\nx"))

    assert code == Exit.NOT_FOUND
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mainstem: there is no topic")
    assert "mainstem topic ls" in line


def test_an_error_that_is_more_special_has_the_code_of_what_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Busy(errors.Overloaded): ...

    assert code_of(Busy("full")) == Exit.REFUSED


def test_debug_shows_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTEM_DEBUG", "1")

    code_of(errors.Closed("the stem is closed"))

    assert "mainstem.core.errors.Closed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ("fly",),
        ("pub",),
        ("pub", "t", "--colour"),
        ("pub", "t", "-J", "-k", "x"),
        ("pub", "t", "-k", "x", "-K", ":"),
        ("sub", "t", "-f", "%x"),
        ("sub", "t", "-J", "-K", ":"),
        ("sub", "t", "-o", "somewhere"),
        ("sub", "t", "-o", "stored"),
        ("sub", "t", "-o", "1", "-o", "2"),
        ("sub", "t", "-g", "g", "-p", "0"),
        ("topic", "create", "t", "--retention", "7"),
        ("topic", "create", "t", "--durability", "hope"),
        ("topic", "create", "t", "--set", "retention"),
        ("topic", "alter", "t"),
        ("topic", "trim", "t", "--before", "stored"),
        ("completion", "tcsh"),
    ],
)
def test_bad_usage_is_exit_2_and_names_the_help(run: Run, args: tuple[str, ...]) -> None:
    code, out, err = run(*args)

    assert (code, out) == (Exit.USAGE, b"")
    (line,) = err.splitlines()
    assert line.startswith("mainstem: ")
    assert line.endswith("--help")


def test_nothing_is_made_where_there_is_no_directory(run: Run) -> None:
    code, _, err = run("topic", "ls")

    assert code == Exit.NOT_FOUND
    assert "there is no data directory mainstem-data" in err
