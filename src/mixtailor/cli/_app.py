"""The commands together, and what becomes of errors."""

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from mixtailor._checks import MissingPackageError
from mixtailor.cli import (
    aggregate,
    arena,
    attacks,
    audit,
    bench,
    certify,
    demo,
    report,
    reproduce,
    rules,
    version,
    warm,
    watch,
)
from mixtailor.cli import run as run_command
from mixtailor.cli._output import complain, escape

__all__ = ["COMMANDS", "app", "run"]

GROUPS = {
    "See it": {"demo": demo, "watch": watch, "report": report},
    "Train under attack": {"run": run_command, "arena": arena, "reproduce": reproduce, "certify": certify},
    "Aggregate": {"aggregate": aggregate, "audit": audit, "warm": warm, "bench": bench},
    "Look it up": {"rules": rules, "attacks": attacks, "version": version},
}
COMMANDS = {name: module for group in GROUPS.values() for name, module in group.items()}

app = typer.Typer(
    help="Protects distributed and federated training against Byzantine workers. Start with: mixtailor demo",
    epilog="In Python, start with: server = mixtailor.recommended(f=2, n=12); update = server(updates, workers=names)",
    rich_markup_mode="rich",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from mixtailor import __version__

        print(f"mixtailor {__version__}")
        raise typer.Exit


@app.callback()
def _whole(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


for group, members in GROUPS.items():
    for name, module in members.items():
        app.command(name, epilog=f"Example: {module.EXAMPLE}", rich_help_panel=group)(module.command)


def run(arguments: Sequence[str] | None) -> int:
    """Run the program; every error of the library is one line on stderr."""
    program = _program()
    with warnings.catch_warnings():
        warnings.showwarning = _note
        try:
            code = program.main(args=arguments, prog_name="mixtailor", standalone_mode=False)
            sys.stdout.flush()
        except KeyboardInterrupt:
            return 130
        except BrokenPipeError:
            # Whoever read our output has seen enough; what is left in the buffer goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except Exception as error:
            return _failed(error)
    return code if isinstance(code, int) else 0


def _program() -> Any:
    """The commands, with texts in which brackets are brackets: rich would take `[trackers]` for markup."""
    program: Any = typer.main.get_command(app)
    whole: Any = typer.Context(program, **program.context_settings)
    for command in (program, *program.commands.values()):
        context = whole if command is program else typer.Context(command, parent=whole, **command.context_settings)
        for parameter in (*command.params, command.get_help_option(context)):
            if getattr(parameter, "help", None):
                parameter.help = escape(parameter.help)
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""  # a flag takes no value; typer 0.29 would print <bool> beside it
    return program


def _failed(error: Exception) -> int:
    usage = getattr(error, "format_message", None)
    if usage is not None:  # typer's own errors: a wrong option, a missing argument
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else "mixtailor"
        if usage():  # without a command, help was printed in place of a message
            complain(f"{usage()} See: {where} --help")
        return int(getattr(error, "exit_code", 2))
    if os.environ.get("MIXTAILOR_TRACEBACK") or not isinstance(
        error, (ValueError, TypeError, OSError, MissingPackageError)
    ):
        raise error
    if isinstance(error, OSError) and error.strerror:
        complain(f"{error.strerror}: {error.filename}." if error.filename else f"{error.strerror}.")
    else:
        complain(str(error))
    return 1


def _note(message: Any, *_where: Any, **_more: Any) -> None:
    complain(f"Note: {message}")
