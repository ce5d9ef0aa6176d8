"""Options of a kind that several commands have; ``--help`` shows their defaults."""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol, TypeVar

import click

from mainstem.cli.arguments.units import parse_ms

Decorated = TypeVar("Decorated", bound=Callable[..., object])


class Option(Protocol):
    """Adds an option to a command."""

    def __call__(self, command: Decorated, /) -> Decorated:
        """Return the command with the option."""


class Duration(click.ParamType[int]):
    """The type of options that are a duration, such as 15s or 2h, in milliseconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Convert the text to milliseconds."""
        try:
            return value if isinstance(value, int) else parse_ms(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def choice_option(*names: str, default: StrEnum, meaning: str) -> Option:
    """Return an option whose values are those of the default's enumeration."""
    words = click.Choice([each.value for each in type(default)])
    return click.option(*names, type=words, default=default.value, show_default=True, help=meaning)


def number_option(*names: str, default: int, meaning: str, most: int | None = None) -> Option:
    """Return an option that takes a number from 1 on."""
    numbers = click.IntRange(1, most)
    return click.option(*names, type=numbers, default=default, show_default=True, help=meaning)


def limit_option(default: int, meaning: str) -> Option:
    """Return ``--limit``, the number of rows of an answer."""
    return number_option("--limit", "-n", default=default, meaning=meaning, most=10_000)


def duration_option(*names: str, default: str, meaning: str) -> Option:
    """Return an option that takes a duration, and gives milliseconds."""
    return click.option(*names, type=Duration(), default=default, show_default=True, help=meaning)


def delimiter_option(meaning: str) -> Option:
    """Return ``-D``, what separates events in a stream of bytes."""
    names = ("-D", "--delimiter")
    return click.option(*names, default="\\n", metavar="DELIM", show_default=True, help=meaning)


def number_or(word: str, text: str, hint: str) -> int | None:
    """Parse a number from 1 on; the word is None; raises UsageError, which says the hint."""
    if text == word:
        return None
    if not text.isascii() or not text.isdigit() or not int(text):
        raise click.UsageError(hint)
    return int(text)
