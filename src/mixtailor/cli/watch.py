"""``mixtailor watch``."""

from pathlib import Path
from typing import Annotated

import typer

from mixtailor.cli import _training
from mixtailor.cli._output import complain, say

EXAMPLE = "mixtailor watch results/demo"


def command(
    folder: Annotated[
        Path, typer.Argument(help="The folder of an experiment, of a single simulation, or of a server's journal.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes a free port.")] = 8765,
    host: Annotated[
        str, typer.Option(help="The address to listen at. Others than this machine's show the page to the network.")
    ] = "127.0.0.1",
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks at the files.")] = 1.0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = False,
) -> None:
    """Serve the report of runs that are still going on; the page follows them. Ctrl-C ends it."""
    with _training.needed():
        from mixtailor.report.live import Server, is_local

        server = Server(folder, host=host, port=port, interval=interval)
        if not is_local(host):
            complain(f"Note: everybody who reaches {host} can read this page. There is no password.")
        say(f"Watching {folder}: {server.address} (Ctrl-C ends it)")
        if browser:
            import webbrowser

            webbrowser.open(server.address)
        try:
            server.run()
        except KeyboardInterrupt:
            say("Stopped.")
