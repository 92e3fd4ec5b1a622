"""The command line: `stretch demo`, `stretch simulate`, `stretch bench`, `stretch evaluation`, `stretch doctor`.

The top layer: it may use all others and none uses it. One module per command, each with `HELP`, `add_arguments`
and `run`; `text` formats what they print. It holds no logic that a program could want: that belongs to the library.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from stretch import __version__
from stretch.errors import StretchError

COMMANDS = {
    name: import_module(f"stretch.cli.{name}") for name in ("demo", "simulate", "bench", "evaluation", "doctor")
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status of the process."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        return int(COMMANDS[options.command].run(options))
    except StretchError as problem:
        print(f"stretch {options.command}: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # as shells report a process that Ctrl-C ended


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="stretch", description="Elastic stream processing in one process.")
    parser.add_argument("--version", action="version", version=f"stretch {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(command)
    return parser
