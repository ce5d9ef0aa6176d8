"""Asks for confirmation before something is deleted or moved."""

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from mainstem.cli.exit_codes import Refused
from mainstem.cli.output.terminal_escapes import shown

Decorated = TypeVar("Decorated", bound=Callable[..., object])


def yes_option(command: Decorated) -> Decorated:
    """Add ``--yes`` to a command that deletes or moves something."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(command)


def confirm(what: str, *, yes: bool) -> None:
    """Ask on a terminal before doing ``what``; elsewhere require ``--yes``; raises if refused."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused(f"this would {what}; there is no terminal to ask on, so add --yes to confirm")
    if not click.confirm(f"This will {shown(what)}. Go on?", err=True):
        raise click.ClickException("stopped; nothing was changed")
