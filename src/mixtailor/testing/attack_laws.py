"""The laws that every attack promises, as checks that name the law they find broken."""

import copy
import pickle
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from mixtailor._types import Floats
from mixtailor.intake import receive
from mixtailor.testing.laws import LawError
from mixtailor.updates import Point, Updates

__all__ = ["ATTACK_LAWS", "Attacking", "Battle"]


class Attacking(Protocol):
    """An attack, as `mixtailor.attacks.Attack` has it."""

    @property
    def alone(self) -> bool: ...
    @property
    def on_labels(self) -> bool: ...
    def begin(self) -> Any: ...
    def least_f(self) -> int: ...
    def least_rows(self) -> int: ...
    def __call__(self, honest: Any, f: int, *, own: Any = None, state: Any = None, rng: Any = None) -> Any: ...
    def decide(
        self, honest: Updates, f: int, *, own: Updates | None = None, state: Any = None, rng: Any = None
    ) -> Sequence[Point]: ...


class Battle:
    """Honest updates, and the correct updates of f Byzantine workers, to try an attack on."""

    def __init__(self, attack: Attacking, *, seed: int = 0, d: int = 37) -> None:
        self.attack = attack
        self.f = max(2, attack.least_f())
        m = max(2 * self.f + 3, attack.least_rows(), 8)
        random = np.random.default_rng([seed, m, d])
        self.honest: Any = (0.5 + random.normal(size=(m, d))).astype(np.float32)
        self.own: Any = (0.5 + random.normal(size=(self.f, d))).astype(np.float32)
        self.seed = seed

    def sent(self, honest: Any, own: Any, attack: Attacking | None = None) -> Any:
        """The rows, from an attack without memories, with the randomness of this battle."""
        used = attack or self.attack
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a search that stops early is a fair one
            return used(honest, self.f, own=own, state=used.begin(), rng=self.seed)

    def broken(self, law: str, why: str) -> LawError:
        """The error for a broken law."""
        return LawError(f"{self.attack!r} breaks the law {law!r}: {why}")


Check = Callable[[Battle], None]


def form(battle: Battle) -> None:
    """f rows come back, in the form, shape and type in which the honest updates came."""
    f, d = battle.f, battle.honest.shape[1]
    matrix = battle.sent(battle.honest, battle.own)
    if not isinstance(matrix, np.ndarray) or matrix.shape != (f, d) or matrix.dtype != np.float32:
        raise battle.broken(
            "form", f"from float32 updates of {d} coordinates it made {_described(matrix)} for f = {f}."
        )
    layers = battle.sent(_layers(battle.honest), _layers(battle.own))
    if len(layers) != f or layers[0]["weight"].shape != (5, 6):
        raise battle.broken("form", f"from updates of two layers it made {_described(layers)}.")
    flat = np.stack([np.concatenate([row["weight"].reshape(-1), row["bias"]]) for row in layers])
    finite = np.isfinite(matrix)
    if not np.allclose(flat[finite], matrix[finite], rtol=2e-3, atol=2e-4):
        raise battle.broken("form", "the same updates give other rows as layers than as a matrix.")


def purity(battle: Battle) -> None:
    """What came in is not written to, and no row is a view of it or of another row."""
    honest, own = list(battle.honest.copy()), list(battle.own.copy())
    made = battle.sent(honest, own)
    if not (np.array_equal(np.stack(honest), battle.honest) and np.array_equal(np.stack(own), battle.own)):
        raise battle.broken("purity", "it writes to the updates that it is given.")
    others = [*honest, *own]
    for place, row in enumerate(made):
        if any(np.shares_memory(row, other) for other in (*others, *made[:place])):
            raise battle.broken("purity", f"row {place} shares its memory with another update.")


def points(battle: Battle) -> None:
    """What `decide` describes is what a call computes, so that targets can be tried on it."""
    if battle.attack.on_labels:
        return  # it sends what it is given
    honest = Updates.arrived(receive(battle.honest))
    described = battle.attack.decide(honest, battle.f, state=battle.attack.begin(), rng=battle.seed)
    rows = np.stack([honest.at(point) for point in described])
    if not np.array_equal(rows, battle.sent(battle.honest, None), equal_nan=True):
        raise battle.broken("points", "`decide` describes other rows than a call computes.")


def repeats(battle: Battle) -> None:
    """The same generator gives the same rows: all its randomness is the scene's, and what it remembers, its state's."""
    first, again = (battle.sent(battle.honest, battle.own) for _ in range(2))
    if not np.array_equal(first, again, equal_nan=True):
        raise battle.broken("repeats", "asked twice with one generator and new memories, it sends other rows.")


def copies(battle: Battle) -> None:
    """It pickles, copies and compares as a value, as a frozen dataclass does."""
    attack = battle.attack
    twin = pickle.loads(pickle.dumps(attack))  # noqa: S301  # our own bytes
    if twin != attack or copy.deepcopy(attack) != attack or repr(twin) != repr(attack):
        raise battle.broken("copies", "its pickle is another attack. Make it a frozen dataclass.")
    if not np.array_equal(
        battle.sent(battle.honest, battle.own, twin), battle.sent(battle.honest, battle.own), equal_nan=True
    ):
        raise battle.broken("copies", "its pickle sends other rows.")


def refusals(battle: Battle) -> None:
    """No Byzantine worker, too few honest updates and a wrong number of own updates get a sentence."""
    wrong: list[tuple[str, Any, int, Any]] = [
        ("f = 0", battle.honest, 0, None),
        ("one own update too few", battle.honest, battle.f, battle.own[:-1]),
    ]
    if not battle.attack.alone:
        wrong.append(("as many honest updates as Byzantine ones", battle.own, battle.f, None))
    for what, honest, f, own in wrong:
        try:
            battle.attack(honest, f, own=own, state=battle.attack.begin(), rng=battle.seed)
        except ValueError:
            continue
        raise battle.broken("refusals", f"it takes {what}.")


def faults(battle: Battle) -> None:
    """An honest update that is not finite is named, and never passes into the rows."""
    if battle.attack.alone:
        return
    honest: Floats = battle.honest.copy()
    honest[3, 5] = np.nan
    try:
        battle.attack(honest, battle.f, state=battle.attack.begin(), rng=battle.seed)
    except ValueError as refusal:
        if "3" not in str(refusal):
            raise battle.broken("faults", f"update 3 is NaN, and it says: {refusal}") from None
        return
    raise battle.broken("faults", "it computes with an honest update that is NaN.")


ATTACK_LAWS: dict[str, Check] = {
    "form": form,
    "purity": purity,
    "points": points,
    "repeats": repeats,
    "copies": copies,
    "refusals": refusals,
    "faults": faults,
}


def _layers(rows: Any) -> list[dict[str, Any]]:
    return [{"weight": row[:30].reshape(5, 6).copy(), "bias": row[30:].copy()} for row in rows]


def _described(made: Any) -> str:
    if isinstance(made, np.ndarray):
        return f"an array of {made.dtype} and shape {made.shape}"
    return f"{len(made)} rows" if isinstance(made, list) else type(made).__name__
