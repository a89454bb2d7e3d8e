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
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free one.")] = 8765,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Any other than 127.0.0.1 shows the page to the network.")
    ] = "127.0.0.1",
    interval: Annotated[float, typer.Option(min=0.1, help="How often to look for new records, in seconds.")] = 1.0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = False,
) -> None:
    """Serve the report of a folder on this machine, and update the page while runs train. Ctrl-C ends it."""
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
