"""The command line. Nothing is imported here that a command does not need when it runs."""

from __future__ import annotations

import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from exporters.terminal import printable
from inferwatch.console import CommandError

app = typer.Typer(
    help="Observability for LLM inference servers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Config = Annotated[
    Path | None, typer.Option(help="Configuration file; without it ./inferwatch.yml, if there is one.", metavar="FILE")
]
Listen = Annotated[
    str | None, typer.Option(help="Where to listen, instead of the configuration's `listen`.", metavar="HOST:PORT")
]
StateDir = Annotated[
    Path | None, typer.Option(help="Folder of the history (default: ~/.local/state/inferwatch).", metavar="FOLDER")
]
Ports = Annotated[
    list[int] | None,
    typer.Option("--port", help="Look for servers at this port of this host instead of the usual ones; repeatable."),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Log to standard error, with tracebacks.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"inferwatch {version('inferwatch')}")
        raise typer.Exit


@app.callback()
def common(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


@app.command()
def up(
    config: Config = None,
    demo: Annotated[bool, typer.Option("--demo", help="Show recorded servers, replayed.")] = False,
    listen: Listen = None,
    state_dir: StateDir = None,
    port: Ports = None,
) -> None:
    """Run everything in one process: sidecar, history and page.

    Without configured servers it looks for them on this host, and goes on looking.
    """
    from inferwatch.up import Options
    from inferwatch.up import up as run

    run(Options(config, demo, listen, state_dir, tuple(port or ())))


@app.command()
def exporter(config: Config = None, listen: Listen = None) -> None:
    """Run the sidecar alone: /metrics for Prometheus.

    It reads the servers when it is scraped, and keeps nothing.
    """
    from inferwatch.exporter import exporter as run

    run(config, listen)


@app.command()
def serve(config: Config = None, listen: Listen = None, state_dir: StateDir = None) -> None:
    """Run the monitor alone: history, API and page.

    It is fed by sidecars elsewhere, which the configuration names (sources).
    """
    from inferwatch.serve import serve as run

    run(config, listen, state_dir)


@app.command()
def check(
    subjects: Annotated[
        list[str],
        typer.Argument(metavar="URL|NAME|FILE", help="Servers by URL or configured name, saved metrics pages, or -."),
    ],
    config: Config = None,
    bearer_token_file: Annotated[
        Path | None, typer.Option(help="File of the token that the servers want, on one line.", metavar="FILE")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    destructive: Annotated[
        bool, typer.Option("--destructive", help="Also read what the server gives away only once.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Say what is behind a URL or in a saved page.

    Which fields are known and where they come from, which are not and what to do.
    """
    from inferwatch.check import Options
    from inferwatch.check import check as run

    run(subjects, Options(json, destructive, config, bearer_token_file, verbose))


@app.command()
def normalize(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Saved metrics pages in order of time, or -.")],
    interval: Annotated[float, typer.Option(help="Seconds between two files.", min=0.001)] = 60.0,
    frontend: Annotated[str | None, typer.Option(help="Which frontend wrote them (default: detected).")] = None,
    verbose: Verbose = False,
) -> None:
    """Print saved metrics pages in inferwatch's schema.

    The last one, with what those before it tell of the last 5 minutes.
    """
    from inferwatch.normalize import normalize as run

    run(files, interval=interval, frontend=frontend, verbose=verbose)


def main() -> None:
    try:
        app()
    except CommandError as error:
        for line in error.lines:
            print(f"inferwatch: {printable(line)}", file=sys.stderr)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
