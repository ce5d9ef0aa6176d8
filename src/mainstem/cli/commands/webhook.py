"""``mainstem webhook``: deliver events to URLs; ``webhook_source.py`` receives webhooks."""

from collections.abc import Mapping
from typing import TextIO

import click
import msgspec

from mainstem.cli.admin_port import WEBHOOKS, ServerAdmin
from mainstem.cli.arguments.options import (
    choice_option,
    duration_option,
    limit_option,
    number_option,
)
from mainstem.cli.arguments.units import human_ms, parse_ms
from mainstem.cli.commands.webhook_source import source
from mainstem.cli.confirmation import confirm, yes_option
from mainstem.cli.connection import at_option
from mainstem.cli.help import Group
from mainstem.cli.output.tables import Format, cell, format_option, print_as_json, print_rows
from mainstem.heads.webhooks import operations
from mainstem.heads.webhooks.adapter.attempts import Attempt
from mainstem.heads.webhooks.endpoints import RETRIES_MS, Order, Payload

_TEST_S = 620.0
"""A receiver may take as long as its endpoint's time-out, ten minutes at most."""
_RETRIES = ",".join(map(human_ms, RETRIES_MS))


@click.group(
    cls=Group,
    epilog="""
    mainstem webhook add shop orders https://shop.example/hooks
    mainstem webhook test shop
    mainstem webhook attempts shop
    mainstem webhook source add github builds --scheme github
    """,
)
def webhook() -> None:
    """Deliver events to URLs (endpoints), and receive webhooks (sources).

    Endpoints and sources belong to a server that runs with --webhooks; the command calls its admin
    port. docs/guides/webhooks.md explains both.
    """


webhook.add_command(source)


@webhook.command(
    epilog="""
    mainstem webhook add shop orders https://shop.example/hooks
    mainstem webhook add eu 'eu.*' https://eu.example/ --order key --payload envelope
    mainstem webhook add paid orders https://a.example/ --filter 'value.type=order.paid'
    mainstem webhook add chat orders https://c.example/ --payload template --template chat.json
    mainstem webhook add shop orders https://new.example/hooks --replace
    """,
)
@click.argument("name")
@click.argument("topics")
@click.argument("url")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="CONDITION",
    help="key=PATTERN, header.NAME=PATTERN or value.PATH=PATTERN; != negates. All must hold.",
)
@choice_option("--order", default=Order.PARALLEL, meaning="In order per key, or all in order.")
@choice_option("--payload", default=Payload.VALUE, meaning="What the body of a request contains.")
@click.option(
    "--template",
    type=click.File("r", encoding="utf-8"),
    help="File with the template of --payload template: JSON with {{FIELD}}; - reads stdin.",
)
@click.option(
    "--secret",
    default="",
    metavar="REF",
    help="file:NAME or env:NAME; without it, a secret is generated and shown once.",
)
@click.option("--ed25519", is_flag=True, help="Generate an ed25519 key instead of an HMAC secret.")
@click.option(
    "--retries",
    default=_RETRIES,
    metavar="DELAYS",
    show_default=True,
    help="Delay before each retry, separated by commas; none: no retry.",
)
@click.option(
    "--jitter",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="Random share by which delays are longer.",
)
@duration_option("--timeout", "timeout_ms", default="15s", meaning="How long a request may take.")
@number_option("--max-in-flight", default=8, meaning="Requests at a time.")
@click.option("--rate", "max_per_s", type=float, metavar="N", help="Requests per second.")
@number_option("--batch", default=1, meaning="Events per request, at most.")
@duration_option(
    "--pause-after",
    "pause_after_ms",
    default="5d",
    meaning="Pause when every attempt has failed for this long.",
)
@click.option(
    "--from-start", is_flag=True, help="Also deliver the events that the topics have already."
)
@click.option(
    "--replace",
    is_flag=True,
    help="Replace the definition of this endpoint; it keeps its secret and its events.",
)
@format_option
@at_option
def add(
    retries: str,
    order: str,
    payload: str,
    template: TextIO | None,
    form: Format | None,
    at: str | None,
    **given: object,
) -> None:
    """Deliver the events of a topic, or of topics by a pattern, to a URL."""
    given["template"] = "" if template is None else template.read()
    given["algorithm"] = "ed25519" if given.pop("ed25519") else "hmac"
    given |= {"order": order, "payload": payload, "retries_ms": _delays(retries)}
    asked = msgspec.convert(given, operations.AddEndpoint)
    done = ServerAdmin(at, needs=WEBHOOKS).change(operations.ADD, asked, operations.Secured)
    if print_as_json(done, form):
        return
    it = done.endpoint
    click.echo(f"events of {cell('topics', it.topics)} go to {cell('url', it.url)}")
    _show_secret(done)


@webhook.command("ls", epilog="\n    mainstem webhook ls\n    ")
@format_option
@at_option
def list_endpoints(form: Format | None, at: str | None) -> None:
    """List all endpoints; WAITING is the number of events to be delivered."""
    found = ServerAdmin(at, needs=WEBHOOKS).read(operations.LIST, {}, list[operations.EndpointInfo])
    print_rows([_row(each) for each in found], form, empty="no endpoints yet")


@webhook.command(epilog="\n    mainstem webhook show shop\n    ")
@click.argument("name")
@format_option
@at_option
def show(name: str, form: Format | None, at: str | None) -> None:
    """Show an endpoint with all its settings; of secrets only the references."""
    found = _show(at, name)
    if print_as_json(found, form):
        return
    told: Mapping[str, object] = msgspec.to_builtins(found)
    rows = [{"setting": key, "value": _text(value)} for key, value in told.items()]
    print_rows(rows, form)


@webhook.command(epilog="\n    mainstem webhook rm shop\n    ")
@click.argument("name")
@yes_option
@at_option
def rm(name: str, yes: bool, at: str | None) -> None:
    """Remove an endpoint; events that wait for it are not delivered."""
    found = _show(at, name)
    confirm(f"remove endpoint {name} and drop {found.waiting} deliveries that wait", yes=yes)
    _change(at, operations.REMOVE, name, "removed")


@webhook.command(epilog="\n    mainstem webhook pause shop\n    ")
@click.argument("name")
@at_option
def pause(name: str, at: str | None) -> None:
    """Stop delivering to an endpoint; its events wait."""
    _change(at, operations.PAUSE, name, "paused")


@webhook.command(epilog="\n    mainstem webhook resume shop\n    ")
@click.argument("name")
@at_option
def resume(name: str, at: str | None) -> None:
    """Deliver to a paused or disabled endpoint again."""
    _change(at, operations.RESUME, name, "resumed")


@webhook.command(
    epilog="""
    mainstem webhook rotate shop
    mainstem webhook rotate shop --secret env:WEBHOOK_SECRET_SHOP --overlap 2h
    """,
)
@click.argument("name")
@click.option("--secret", default="", metavar="REF", help="file:NAME or env:NAME.")
@click.option("--ed25519", is_flag=True, help="Generate an ed25519 key.")
@duration_option(
    "--overlap",
    "overlap_ms",
    default="24h",
    meaning="How long requests are also signed with the old secret.",
)
@format_option
@at_option
def rotate(
    name: str, secret: str, ed25519: bool, overlap_ms: int, form: Format | None, at: str | None
) -> None:
    """Replace the secret of an endpoint."""
    algorithm = "ed25519" if ed25519 else "hmac"
    asked = operations.RotateSecret(
        name=name, secret=secret, algorithm=algorithm, overlap_ms=overlap_ms
    )
    done = ServerAdmin(at, needs=WEBHOOKS).change(operations.ROTATE, asked, operations.Secured)
    if print_as_json(done, form):
        return
    click.echo(f"the old secret of {cell('name', name)} is used for {human_ms(overlap_ms)} more")
    _show_secret(done)


@webhook.command(epilog="\n    mainstem webhook test shop\n    ")
@click.argument("name")
@format_option
@at_option
def test(name: str, form: Format | None, at: str | None) -> None:
    """Send a test message to an endpoint, and print the answer."""
    server = ServerAdmin(at, needs=WEBHOOKS, timeout_s=_TEST_S)
    done = server.change(operations.TEST, operations.NameEndpoint(name=name), operations.Tested)
    if print_as_json(done, form):
        return
    answer = f"status {done.status}" if done.status is not None else cell("error", done.error)
    click.echo(f"{cell('name', name)}: {answer} after {done.took_ms} ms ({done.id})")


@webhook.command(
    epilog="""
    mainstem webhook replay shop --id msg_5f1c_0_17
    mainstem webhook replay shop --topic orders --first 100 --last 200
    """,
)
@click.argument("name")
@click.option("--id", "message_id", default="", metavar="ID", help="The event of this message.")
@click.option("--topic", default="", metavar="TOPIC", help="Events of this topic.")
@click.option(
    "--partition",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="The partition of the offsets.",
)
@click.option("--first", type=click.IntRange(0), help="First offset.  [default: the earliest]")
@click.option("--last", type=click.IntRange(0), help="Last offset.  [default: the latest]")
@format_option
@at_option
def replay(
    name: str,
    message_id: str,
    topic: str,
    partition: int,
    first: int | None,
    last: int | None,
    form: Format | None,
    at: str | None,
) -> None:
    """Deliver events to an endpoint again, with the same ids."""
    asked = operations.ReplayEvents(
        name=name, id=message_id, topic=topic, partition=partition, first=first, last=last
    )
    done = ServerAdmin(at, needs=WEBHOOKS).change(operations.REPLAY, asked, operations.Replayed)
    if print_as_json(done, form):
        return
    click.echo(f"replay {done.id} to {cell('name', name)} has begun: {done.offsets} offsets")


@webhook.command(
    epilog="""
    mainstem webhook attempts shop
    mainstem webhook attempts shop --id msg_5f1c_0_17
    """,
)
@click.argument("name")
@click.option("--id", "message_id", default="", metavar="ID", help="Only those of this message.")
@limit_option(50, "How many, at most.")
@format_option
@at_option
def attempts(name: str, message_id: str, limit: int, form: Format | None, at: str | None) -> None:
    """List the last delivery attempts of an endpoint, the newest last."""
    fields = {"name": name, "id": message_id, "limit": str(limit)}
    found = ServerAdmin(at, needs=WEBHOOKS).read(operations.ATTEMPTS, fields, list[Attempt])
    print_rows([_attempt_row(each) for each in found], form, empty="no attempts yet")


def _show(at: str | None, name: str) -> operations.EndpointInfo:
    fields = {"name": name}
    return ServerAdmin(at, needs=WEBHOOKS).read(operations.SHOW, fields, operations.EndpointInfo)


def _change(at: str | None, operation: str, name: str, done: str) -> None:
    asked = operations.NameEndpoint(name=name)
    ServerAdmin(at, needs=WEBHOOKS).change(operation, asked, object)
    click.echo(f"{done} {cell('endpoint', name)}")


def _delays(text: str) -> tuple[int, ...]:
    try:
        found = [it.strip() for it in text.split(",") if it.strip() not in ("", "none")]
        return tuple(parse_ms(each) for each in found)
    except ValueError as error:
        raise click.UsageError(f"--retries {text}: {error}") from None


def _show_secret(done: operations.Secured) -> None:
    if done.secret:
        if done.endpoint.public_keys:
            click.echo(f"public key, for the receiver:  {done.endpoint.public_keys[0]}")
            return
        click.echo(f"secret, shown only now:  {done.secret}")


def _row(it: operations.EndpointInfo) -> Mapping[str, object]:
    return {
        "name": it.name,
        "topics": it.topics,
        "url": it.url,
        "status": it.status,
        "waiting": it.waiting,
        "in_flight": it.in_flight,
        "failing": it.failing_since_ms is not None,
        "reason": it.reason,
    }


def _attempt_row(it: Attempt) -> Mapping[str, object]:
    return {
        "at_ms": it.at_ms,
        "id": it.id,
        "attempt": it.attempt,
        "verdict": str(it.verdict),
        "answer": it.error or str(it.status),
        "took_ms": it.took_ms,
        "retry_ms": it.retry_ms,
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
