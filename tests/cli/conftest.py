"""A command line that runs in this process, in a directory of its own."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from mainstem.cli.root import run as run_command


class Ran(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()


Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAINSTEM_AT", raising=False)
    monkeypatch.delenv("MAINSTEM_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def run(
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Run:
    """Run ``mainstem …`` and return exit code, stdout and stderr."""

    def invoke(*args: str, stdin: bytes | None = b"", terminal: bool = False) -> Ran:
        source = tmp_path / ".stdin"
        source.write_bytes(stdin or b"")
        capsysbinary.readouterr()
        with source.open() as file, monkeypatch.context() as patch:
            # A command that serves logs to the stderr of this test, which later ones do not have.
            patch.setattr(logging.getLogger(), "handlers", logging.getLogger().handlers.copy())
            if stdin is not None:
                patch.setattr(sys, "stdin", file)
            if terminal:
                patch.setattr(sys.stdout, "isatty", lambda: True)
                patch.setattr(sys.stderr, "isatty", lambda: True)
            code = run_command(args)
            sys.stdout.flush()
        out, err = capsysbinary.readouterr()
        return Ran(code, out, err.decode())

    return invoke


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """A person at a terminal, who types this."""
    with ExitStack() as terminals:

        def answer(text: str) -> None:
            keyboard, terminal = os.openpty()
            terminals.callback(os.close, keyboard)
            os.write(keyboard, text.encode())
            monkeypatch.setattr(sys, "stdin", terminals.enter_context(os.fdopen(terminal, "r")))

        yield answer
