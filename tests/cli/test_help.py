"""Help texts: examples first, checked into the docs, and quick to print."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.cli.conftest import Run

from mainstem.cli.root import COMMANDS, root

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
INTRODUCTION = """\
# The command line

Generated from the `--help` texts; `python -m tests.cli.test_help` writes it anew.
"""


def contexts(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from contexts(child, click.Context(child, info_name=name, parent=context))


def every_context() -> Iterator[click.Context]:
    settings = dict(root.context_settings)
    yield from contexts(
        root, click.Context(root, info_name="mainstem", terminal_width=98, **settings)
    )


def reference() -> str:
    sections = [
        f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n"
        for context in every_context()
    ]
    return "\n".join((INTRODUCTION, *sections))


def test_the_reference_page_has_the_help_texts_of_today() -> None:
    assert REFERENCE.read_text() == reference(), "run: python -m tests.cli.test_help"


def test_every_command_shows_examples_before_its_options() -> None:
    for context in every_context():
        text = context.get_help()
        assert 0 < text.find("Examples:") < text.find("Usage:"), context.command_path
        assert f"  {context.command_path.split()[0]} " in text


def test_the_list_of_commands_says_what_the_commands_are(run: Run) -> None:
    listed = run("--help").out.decode()

    for name, line in COMMANDS.items():
        assert f"{name}" in listed
        assert line in listed


def test_no_arguments_mean_help(run: Run) -> None:
    assert run() == run("--help") == run("-h")
    assert run("topic") == run("topic", "--help")
    assert run("webhook", "source") == run("webhook", "source", "--help")


def test_help_imports_no_command_and_nothing_of_the_log() -> None:
    code = """
import sys
from mainstem.cli.root import run
run(["--help"])
loaded = [name for name in sys.modules if name.startswith(("mainstem.", "msgspec", "asyncio"))]
import json
print(json.dumps(loaded))
"""

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()[-1]

    allowed = {
        "cli",
        "cli.exit_codes",
        "cli.help",
        "cli.root",
        "cli.signals",
        "cli.output",
        "cli.output.terminal_escapes",
    }
    allowed |= {"core", "core.errors"}
    assert set(json.loads(loaded)) == {f"mainstem.{name}" for name in allowed}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_each_shell(run: Run, shell: str) -> None:
    code, out, _ = run("completion", shell)

    assert code == 0
    assert b"_MAINSTEM_COMPLETE" in out


def test_completion_completes_commands_and_options(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_MAINSTEM_COMPLETE", "bash_complete")

    monkeypatch.setenv("COMP_WORDS", "mainstem do")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert run().lines == ["plain,doctor"]

    monkeypatch.setenv("COMP_WORDS", "mainstem topic create --dur")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert run().lines == ["plain,--durability"]


if __name__ == "__main__":
    REFERENCE.write_text(reference())
