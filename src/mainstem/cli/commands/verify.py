"""``mainstem verify`` and ``mainstem repair``: check and repair a data directory offline."""

from pathlib import Path

import click
import msgspec

from mainstem.cli.confirmation import confirm, yes_option
from mainstem.cli.connection import at_option, directory_of
from mainstem.cli.exit_codes import Exit, NotFound, say
from mainstem.cli.help import Command
from mainstem.cli.output.progress import Progress
from mainstem.cli.output.tables import Format, cell, chosen, format_option, print_json, print_rows
from mainstem.node import offline
from mainstem.node.data_directory import is_log


@click.command(
    cls=Command,
    epilog="""
    mainstem verify
    mainstem verify --at /var/lib/mainstem && echo sound
    mainstem verify --format json | jq '.findings[]'
    """,
)
@format_option
@click.option("-q", "--quiet", is_flag=True, help="No progress, no summary.")
@at_option
@click.pass_context
def verify(ctx: click.Context, form: Format | None, quiet: bool, at: str | None) -> None:
    """Check every byte of a data directory that is not in use; changes nothing.

    Exit code 1 if events are lost or cannot be read; then run mainstem repair, which moves damaged
    parts to quarantine. Problems that are repaired whenever the log is opened are shown too, but
    are no errors.
    """
    progress = Progress("checked", quiet=quiet)
    path = _log_directory(at)
    checked = offline.verify(path, lambda seen: progress.add(seen.events - progress.count))
    progress.add(checked.events - progress.count)
    progress.done()
    findings = [
        {"serious": each.serious, "place": each.place, "problem": each.problem}
        for each in checked.findings
    ]
    if chosen(form) == "json":
        print_json(msgspec.to_builtins(checked))
    else:
        print_rows(findings, form)
    serious = sum(each.serious for each in checked.findings)
    if not quiet:
        state = f"{serious} damaged places" if serious else "sound"
        say(f"{_seen(checked)}: {state}{_unclean(checked)}")
    if serious:
        ctx.exit(Exit.ERROR)


@click.command(
    cls=Command,
    epilog="""
    mainstem repair
    mainstem repair --at /var/lib/mainstem --yes
    """,
)
@yes_option
@format_option
@at_option
@click.pass_context
def repair(ctx: click.Context, yes: bool, form: Format | None, at: str | None) -> None:
    """Repair a data directory that is not in use: keep what is readable, quarantine the rest.

    Damaged segments are copied to quarantine/ first and rewritten without the damage; offsets never
    change. Exit code 1 if events were lost; each lost range is printed. If there is no other copy
    of the directory, make a copy first.
    """
    path = _log_directory(at)
    confirm(f"rewrite the damaged parts of {path} (the originals stay in quarantine/)", yes=yes)
    repaired = offline.repair(path)
    if chosen(form) == "json":
        print_json(msgspec.to_builtins(repaired))
    else:
        rows = [{"outcome": "lost", "what": text} for text in repaired.lost]
        rows += [{"outcome": "found", "what": text} for text in repaired.findings]
        print_rows(rows, form)
    if repaired.manifest_rebuilt or repaired.segments or repaired.lost:
        rebuilt = "the manifest was rebuilt, " if repaired.manifest_rebuilt else ""
        say(
            f"{rebuilt}{repaired.segments} segments written anew, {repaired.restored} batches "
            f"restored, {len(repaired.lost)} stretches lost"
        )
    else:
        say("nothing had to be mended")
    if repaired.lost:
        ctx.exit(Exit.ERROR)


def _log_directory(at: str | None) -> Path:
    path = directory_of(at)
    if not is_log(path):
        raise NotFound(str(offline.NoLog(path)))
    return path


def _seen(checked: offline.Checked) -> str:
    return (
        f"{checked.partitions} partitions, {checked.segments} segments, {checked.events:,} events, "
        f"{cell('size_bytes', checked.bytes)}"
    )


def _unclean(checked: offline.Checked) -> str:
    if checked.clean:
        return ""
    return " (it was not closed in order; opening it will recover what came last)"
