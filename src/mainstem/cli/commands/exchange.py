"""``mainstem exchange``: list and show AMQP exchanges, bind queues and exchanges to them."""

from collections.abc import Callable, Mapping
from functools import wraps

import click
import msgspec

from mainstem.cli.admin_port import ServerAdmin
from mainstem.cli.arguments.options import choice_option
from mainstem.cli.connection import at_option
from mainstem.cli.help import Group
from mainstem.cli.output.tables import (
    Format,
    cell,
    chosen,
    format_option,
    print_as_json,
    print_rows,
)
from mainstem.heads.amqp091.adapter.exchange_operations import (
    BIND,
    LIST,
    SHOW,
    UNBIND,
    BindingInfo,
    ChangeBinding,
    Changed,
    ExchangeDetails,
    ExchangeInfo,
)
from mainstem.heads.amqp091.adapter.topology.declared import DestinationKind

_DEFAULT_VHOST = "/"
_DEFAULT = "(default)"
"""The name displayed for the default exchange, whose real name is empty."""


@click.group(
    cls=Group,
    epilog="""
    mainstem exchange ls
    mainstem exchange show amq.topic
    mainstem exchange bind amq.topic orders --key 'eu.#'
    """,
)
def exchange() -> None:
    """List and show AMQP exchanges, bind queues and other exchanges to them.

    The exchanges are those of a server that runs with --amqp; the command calls its admin port.
    Clients declare exchanges; docs/guides/amqp.md says how they map to topics.
    """


@exchange.command(
    "ls",
    epilog="""
    mainstem exchange ls
    mainstem exchange ls --vhost shop
    """,
)
@click.option("--vhost", metavar="NAME", help="Only those of this virtual host.")
@format_option
@at_option
def list_exchanges(vhost: str | None, form: Format | None, at: str | None) -> None:
    """List all exchanges; BINDINGS is the number of bindings from each."""
    fields = {} if vhost is None else {"vhost": vhost}
    found = ServerAdmin(at).read(LIST, fields, list[ExchangeInfo])
    print_rows([_row(each, form) for each in found], form)


_vhost_option = click.option(
    "--vhost", metavar="NAME", default=_DEFAULT_VHOST, show_default=True, help="Virtual host."
)


@exchange.command(
    epilog="""
    mainstem exchange show amq.topic
    mainstem exchange show prices --vhost shop
    """,
)
@click.argument("name")
@_vhost_option
@format_option
@at_option
def show(name: str, vhost: str, form: Format | None, at: str | None) -> None:
    """Show an exchange with the bindings from it and to it."""
    fields = {"exchange": name, "vhost": vhost}
    found = ServerAdmin(at).read(SHOW, fields, ExchangeDetails)
    bindings = [*found.bindings, *found.bound_to]
    if print_as_json(found, form):
        return
    it = found.exchange
    traits = [
        "durable" if it.durable else "transient",
        *(["auto-delete"] if it.auto_delete else []),
        *(["internal"] if it.internal else []),
    ]
    arguments = f"; {cell('arguments', _text(it.arguments))}" if it.arguments else ""
    click.echo(
        f"{cell('exchange', it.name or _DEFAULT)} of virtual host {cell('vhost', it.vhost)}: "
        f"{cell('type', it.type)}, {', '.join(traits)}{arguments}"
    )
    if bindings:
        click.echo()
    print_rows([_binding_row(each) for each in bindings], form)


Bind = Callable[[ChangeBinding, Format | None, str | None], None]


def _binding_options(command: Bind) -> Callable[..., None]:
    """Add arguments and options to a command, which is called with the binding they describe."""

    @wraps(command)
    def decided(
        exchange: str,
        destination: str,
        key: str,
        kind: str,
        arguments: tuple[str, ...],
        vhost: str,
        form: Format | None,
        at: str | None,
    ) -> None:
        to, given = DestinationKind(kind), _arguments(arguments)
        command(ChangeBinding(exchange, destination, to, key, given, vhost), form, at)

    options = (
        click.argument("exchange"),
        click.argument("destination"),
        click.option("--key", metavar="KEY", default="", help="Routing key, or its pattern."),
        choice_option(
            "--to", "kind", default=DestinationKind.QUEUE, meaning="What the destination is."
        ),
        click.option(
            "--argument",
            "-a",
            "arguments",
            multiple=True,
            metavar="NAME=VALUE",
            help="An argument, such as x-match=any; numbers, true and false keep their type.",
        ),
        _vhost_option,
        format_option,
        at_option,
    )
    for add in reversed(options):
        decided = add(decided)
    return decided


@exchange.command(
    epilog="""
    mainstem exchange bind amq.topic orders --key 'eu.#'
    mainstem exchange bind amq.headers reports -a x-match=any -a format=pdf
    mainstem exchange bind prices eu-prices --to exchange
    """,
)
@_binding_options
def bind(asked: ChangeBinding, form: Format | None, at: str | None) -> None:
    """Bind a queue, or another exchange, to an exchange; no error if the binding exists."""
    _carry_out(BIND, asked, form, at, ("bound", "is bound already"))


@exchange.command(
    epilog="""
    mainstem exchange unbind amq.topic orders --key 'eu.#'
    """,
)
@_binding_options
def unbind(asked: ChangeBinding, form: Format | None, at: str | None) -> None:
    """Remove a binding; give the same arguments with which it was created."""
    _carry_out(UNBIND, asked, form, at, ("unbound", "is not bound"))


def _carry_out(
    operation: str,
    asked: ChangeBinding,
    form: Format | None,
    at: str | None,
    words: tuple[str, str],
) -> None:
    done = ServerAdmin(at).change(operation, asked, Changed)
    if print_as_json(done, form):
        return
    to = f"{asked.kind} {cell('destination', asked.destination)}"
    source = cell("exchange", asked.exchange)
    if done.changed:
        click.echo(f"{words[0]} {to}: {source}")
    else:
        click.echo(f"{to} {words[1]}: {source}")


def _arguments(given: tuple[str, ...]) -> dict[str, object]:
    """Convert the texts of binding arguments to what AMQP clients send: number, boolean or text."""
    found: dict[str, object] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals:
            raise click.UsageError(f"--argument {each}: say NAME=VALUE")
        try:
            found[name] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            found[name] = text
    return found


def _row(it: ExchangeInfo, form: Format | None) -> Mapping[str, object]:
    row: dict[str, object] = msgspec.to_builtins(it)
    if chosen(form) == "table":
        row |= {"name": it.name or _DEFAULT, "arguments": _text(it.arguments)}
    return row


def _binding_row(it: BindingInfo) -> Mapping[str, object]:
    row: dict[str, object] = msgspec.to_builtins(it)
    return row | {"source": it.source or _DEFAULT, "arguments": _text(it.arguments)}


def _text(arguments: object) -> str:
    return msgspec.json.encode(arguments).decode() if arguments else ""
