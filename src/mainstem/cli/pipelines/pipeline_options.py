"""Options shared by several ``mainstem pipeline`` commands."""

from pathlib import Path

import click

from mainstem.pipelines.state.table_state import DEFAULT_STATE

file_argument = click.argument("file", type=click.Path(path_type=Path))
name_option = click.option("--name", help="The pipeline's name.  [default: the file's]")
state_option = click.option(
    "--state",
    type=click.Path(path_type=Path),
    default=DEFAULT_STATE,
    envvar="MAINSTEM_PIPELINES",
    show_default=True,
    help="Directory of checkpoints and statistics.",
)
