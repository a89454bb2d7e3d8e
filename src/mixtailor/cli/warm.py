"""``mixtailor warm``."""

import time
import warnings
from typing import Annotated, Any

import typer

from mixtailor._checks import plural, refuse
from mixtailor.cli._output import Json, console, say, show_json, status, table

EXAMPLE = 'mixtailor warm --n 20 --f 3 --rules "default_pool,krum"'

_D = 21_840  # coordinates: long enough for the kernels that are generated for a number of rows
_TYPES = ("float32", "float64")


def command(
    n: Annotated[int, typer.Option("--n", min=3, help="How many updates a round has: some code depends on it.")] = 12,
    f: Annotated[int, typer.Option("--f", min=0, help="The f of the rules.")] = 2,
    rules: Annotated[
        str, typer.Option(help='Rules and pools by name, separated by commas: "default_pool,nnm >> krum(p=3)".')
    ] = "recommended,default_pool,krum",
    types: Annotated[
        str, typer.Option(help="The types of the updates, separated by commas: float32, float64.")
    ] = "float32",
    as_json: Json = False,
) -> None:
    """Compile the rules ahead of time, so that the first call does not wait. The compiled code is kept on disk."""
    from mixtailor.cli._timing import chosen_rules, gradients, members  # numba loads here, and not for help
    from mixtailor.kernels.compiling import WATCH

    wanted = [name.strip() for name in types.split(",")]
    for name in wanted:
        if name not in _TYPES:
            refuse(
                f"--types takes {' and '.join(_TYPES)}, and got {name!r}. Updates of other types use those of float32."
            )
    rows = gradients(n, _D, f)
    found: list[dict[str, Any]] = []
    with status("Compiling ...") as told, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a rule that stops at its cap, on made-up updates: not what was asked
        started = time.perf_counter()
        with WATCH.listed() as made:  # a memory tries its rules when it is made, which is part of a first call
            chosen = list(members(chosen_rules(rules, n, f).values()))
        for rule in chosen:
            for name in wanted:
                told(f"{rule!r}, {name}")
                with WATCH.listed() as compiled:
                    rule(rows.astype(name))
                kernels = [{"kernel": each.kernel, "seconds": each.seconds} for each in [*made, *compiled]]
                seconds, started, made = time.perf_counter() - started, time.perf_counter(), []
                found.append({"rule": repr(rule), "type": name, "seconds": seconds, "compiled": kernels})
    count = sum(len(each["compiled"]) for each in found)
    taken = sum(each["seconds"] for each in found)
    if as_json:
        show_json({"n": n, "f": f, "seconds": taken, "rules": found})
        return
    columns = ["rule", "type", "s", "compiled"]
    shown = [
        [
            each["rule"],
            each["type"],
            f"{each['seconds']:.1f}",
            ", ".join(kernel["kernel"] for kernel in each["compiled"]) or "nothing: all was there",
        ]
        for each in found
    ]
    console().print(table(columns, shown, right=["s"], title=f"n = {n}, f = {f}"))
    say(
        f"{plural(count, 'kernel')} compiled in {taken:.1f} s. Other numbers of updates, norms and types may need "
        "more: give them with --n, --rules and --types."
    )
