"""``mixtailor bench``."""

from typing import Annotated

import typer

from mixtailor._checks import plural
from mixtailor.cli._output import Json, console, say, show_json, status, table

EXAMPLE = 'mixtailor bench --n 20 --d 100000 --f 3 --rules "krum,nnm >> trimmed_mean"'


def command(
    n: Annotated[int, typer.Option("--n", min=3, help="How many updates there are.")] = 12,
    d: Annotated[int, typer.Option("--d", min=1, help="How many coordinates each update has.")] = 1_000_000,
    f: Annotated[
        int, typer.Option("--f", min=0, help="How many of the updates are Byzantine, and the f of the rules.")
    ] = 2,
    rules: Annotated[
        str | None,
        typer.Option(help='Rules by name, separated by commas: "krum,nnm >> trimmed_mean". By default some.'),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="How long to measure each rule.")] = 0.5,
    as_json: Json = False,
) -> None:
    """Time the rules on this machine, on random updates, in milliseconds and in multiples of the fastest mean."""
    from mixtailor.cli._timing import chosen_rules, gradients, measured  # numba loads here, and not for help
    from mixtailor.kernels import threads

    chosen = chosen_rules(rules, n, f)
    rows = gradients(n, d, f)
    with status(f"Timing {plural(len(chosen), 'rule')} ...") as told:
        listed, yardstick, taken = measured(chosen, rows, seconds, told)
    about = {"n": n, "d": d, "f": f, "dtype": "float32", "threads": threads.count(), "yardstick": yardstick}
    if as_json:
        show_json({**about, "mean_milliseconds": 1e3 * taken, "rules": listed})
        return
    columns = ["rule", "ms", "quartiles", "x mean", "calls"]
    shown = [
        [
            each["rule"],
            f"{each['milliseconds']:.3g}",
            f"{each['quartiles'][0]:.3g}–{each['quartiles'][1]:.3g}",
            f"{each['multiple']:.1f}",
            str(each["calls"]),
        ]
        for each in listed
    ]
    title = f"n = {n}, d = {d:,}, f = {f}, float32, {plural(threads.count(), 'thread')}"
    console().print(table(columns, shown, right=columns[1:], title=title))
    say(
        f"The mean takes {1e3 * taken:.3g} ms ({yardstick}). Medians, of pools means over their draws; "
        "the first call of a rule, which may compile, is not counted. Other programs that run now slow all of them."
    )
