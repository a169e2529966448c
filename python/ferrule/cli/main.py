"""Entry point: `ferrule SUBCOMMAND`."""

from __future__ import annotations

import sys
from importlib.metadata import version

import click

from ..errors import FerruleError
from .bench import bench
from .chat import chat
from .info import info
from .map import show_map
from .run import run
from .verify import verify


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("ferrule"), prog_name="ferrule")
def cli() -> None:
    """Runs language models on this machine, from GGUF files and Hugging Face checkpoints."""


for command in (run, chat, info, show_map, bench, verify):
    cli.add_command(command)


def main() -> None:
    """Runs the command line; ferrule's own errors and the system's are printed without a traceback.

    Exit status: 1 after an error, 2 after wrong arguments, 130 after Ctrl-C.
    """
    try:
        cli(standalone_mode=False)
    except FerruleError as error:
        click.secho("Error: ", fg="red", nl=False, err=True)
        click.echo(str(error), err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except OSError as error:  # standard output on a full disk, a file that may not be read
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        sys.exit(130)
