"""Command-line options for topic settings, derived from ``TopicSettings``."""

import ast
import inspect
from collections.abc import Callable
from enum import StrEnum
from types import UnionType
from typing import TypeVar, get_args

import click
import msgspec

from mainstem.cli.arguments.units import parse_bytes, parse_ms, whole
from mainstem.cli.output.tables import cell
from mainstem.core.errors import InvalidSetting
from mainstem.core.topic_settings import TopicSettings

Decorated = TypeVar("Decorated", bound=Callable[..., object])

FIELDS = {
    field.name: field for field in msgspec.structs.fields(TopicSettings) if field.name != "kept"
}
"""All settings, except those that are only stored for Kafka's tools."""


def _docstrings() -> dict[str, str]:
    (definition,) = ast.parse(inspect.getsource(TopicSettings)).body
    assert isinstance(definition, ast.ClassDef)
    texts: dict[str, str] = {}
    name = ""
    for statement in definition.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)):
                pass
            case ast.Expr(value=ast.Constant(value=str() as text)) if name:
                texts[name] = " ".join(text.split())
    return texts


def short(name: str) -> str:
    """Return the name of a setting's option: without the unit, which the values have here."""
    return name.removesuffix("_ms").replace("_", "-")


def _plain(kind: object) -> object:
    members = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    return next(member for member in members if member is not type(None))


def _optional(name: str) -> bool:
    return type(None) in get_args(FIELDS[name].type)


def read(name: str, text: str, *, bare_ms: bool = False) -> object:
    """Parse the value of one setting from text; raises ValueError."""
    if text.lower() == "none" and _optional(name):
        return None
    if name.endswith("_ms"):
        return parse_ms(text, bare=bare_ms)
    if name.endswith("_bytes"):
        return parse_bytes(text)
    kind = _plain(FIELDS[name].type)
    return _READERS[kind](text) if kind in _READERS else text


def _whole(text: str) -> int:
    if not text.replace("_", "").removeprefix("-").isdecimal():
        raise ValueError(f"{text!r:.100} is not a whole number")
    digits = text.replace("_", "")
    return -whole(digits[1:]) if digits.startswith("-") else whole(digits)


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number such as 0.5") from None


def _yes(text: str) -> bool:
    words = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
    if text.lower() not in words:
        raise ValueError(f"{text!r} is neither yes nor no")
    return words[text.lower()]


_READERS: dict[object, Callable[[str], object]] = {int: _whole, float: _share, bool: _yes}


def _words(kind: type[StrEnum]) -> list[str]:
    return [each.value for each in kind]


def _metavar(name: str) -> str:
    unit = {"ms": "DURATION", "bytes": "SIZE"}.get(name.rpartition("_")[2], "N")
    return f"{unit}|none" if _optional(name) else unit


def _reader(
    name: str,
) -> Callable[[click.Context, click.Parameter, str | None], tuple[object] | None]:
    def reader(
        ctx: click.Context, param: click.Parameter, text: str | None
    ) -> tuple[object] | None:
        try:
            # In a tuple, so that the value None differs from an option that was not given.
            return None if text is None else (read(name, text),)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return reader


def settings_options(command: Decorated, *, defaults: bool = True) -> Decorated:
    """Add an option to a command for every setting, and ``--set``, which sets any of them."""
    texts = _docstrings()
    command = click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="NAME=VALUE",
        help="Any setting by its name, such as retention=7d or segment_bytes=64MiB.",
    )(command)
    for name, field in reversed(FIELDS.items()):
        usual = "none" if field.default is None else cell(name, field.default)
        default = f"  [default: {usual}]" if defaults else ""
        help_text = texts.get(name, "").replace("none keeps", "'none' keeps") + default
        kind = _plain(field.type)
        option = f"--{short(name)}"
        if kind is bool:
            add = click.option(f"{option}/--no-{short(name)}", name, default=None, help=help_text)
        elif isinstance(kind, type) and issubclass(kind, StrEnum):
            words = _words(kind) + ["none"] * _optional(name)
            add = click.option(option, name, type=click.Choice(words), help=help_text)
        else:
            add = click.option(
                option, name, metavar=_metavar(name), callback=_reader(name), help=help_text
            )
        command = add(command)
    return command


def given(assignments: tuple[str, ...], options: dict[str, object]) -> dict[str, object]:
    """Return the topic settings that ``--set`` and the other options give, by name."""
    settings: dict[str, object] = {}
    for name, value in options.items():
        if value is not None:
            settings[name] = value[0] if isinstance(value, tuple) else value
            if value == "none":
                settings[name] = None
    for assignment in assignments:
        written, equals, text = assignment.partition("=")
        name = _full_name(written.strip().replace("-", "_"))
        if not equals:
            raise click.UsageError(f"--set {assignment!r} lacks '='; write --set NAME=VALUE")
        try:
            settings[name] = read(name, text.strip(), bare_ms=written.strip() == name)
        except ValueError as error:
            raise InvalidSetting(f"{name}: {error}") from None
    return settings


def _full_name(name: str) -> str:
    for known in FIELDS:
        if name in (known, known.removesuffix("_ms")):
            return known
    raise InvalidSetting(f"no setting {name!r}; there are {', '.join(FIELDS)}")
