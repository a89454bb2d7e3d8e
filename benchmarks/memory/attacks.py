"""The attacks of `benchmarks.memory`, each on the honest updates of several seeds at once.

An attack is called with the honest updates (S, h, d), the number of Byzantine workers, the round, the number of rounds,
a dict that it keeps between rounds, and the attacker's randomness; it returns (S, b, d). The dict has the server's last
results, (S, d), under "result".
"""

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["ATTACKS", "AVOIDING", "TRYING", "Array", "Attack", "running_mean"]

Array = np.ndarray[Any, Any]
Attack = Callable[[Array, int, int, int, dict[str, Any], np.random.Generator], Array]


def _equal(row: Array, b: int) -> Array:
    return np.repeat(row[:, None], b, 1)


def running_mean(honest: Array, state: dict[str, Any], decay: float = 0.99) -> Array:
    mean = honest.mean(1)
    state["mean"] = (1 - decay) * mean + decay * state.get("mean", mean)
    return np.asarray(state["mean"])


def honestly(honest: Array, b: int, *_rest: Any) -> Array:
    return honest[:, :b]


def tailored(epsilon: float) -> Attack:
    return lambda honest, b, *_: _equal(-epsilon * honest.mean(1), b)


def alie(z: float, flip: int = 10**9) -> Attack:
    def attack(honest: Array, b: int, round: int, *_: Any) -> Array:
        sign = 1.0 if (round // flip) % 2 == 0 else -1.0
        return _equal(honest.mean(1) - sign * z * honest.std(1), b)

    return attack


def drift(z: float) -> Attack:
    """Against the signs of the running mean."""

    def attack(honest: Array, b: int, _round: int, _rounds: int, state: dict[str, Any], _random: Any) -> Array:
        return _equal(honest.mean(1) - z * honest.std(1) * np.sign(running_mean(honest, state)), b)

    return attack


def signed(z: float) -> Attack:
    """Against the signs of the present mean."""
    return lambda honest, b, *_: _equal(honest.mean(1) - z * honest.std(1) * np.sign(honest.mean(1)), b)


def hidden(z: float, running: bool) -> Attack:
    """Copies of honest workers, each shifted: they spread as honest workers do."""

    def attack(honest: Array, b: int, _round: int, _rounds: int, state: dict[str, Any], _random: Any) -> Array:
        sign = np.sign(running_mean(honest, state)) if running else 1.0
        return honest[:, :b] - (z * honest.std(1) * sign)[:, None]

    return attack


def within(sums: bool) -> Attack:
    """Min-Max and Min-Sum: as far against the deviations as honest distances allow."""

    def attack(honest: Array, b: int, *_: Any) -> Array:
        mean, push = honest.mean(1), -honest.std(1)
        squares = (honest.astype(np.float64) ** 2).sum(-1)
        between = squares[:, :, None] + squares[:, None] - 2.0 * np.matmul(honest, honest.swapaxes(1, 2))
        limit = between.sum(2).max(1) if sums else between.max((1, 2))
        own = ((mean[:, None] - honest).astype(np.float64) ** 2).sum(-1)
        cross = 2.0 * np.einsum("sd,shd->sh", push, mean[:, None] - honest)
        length = (push.astype(np.float64) ** 2).sum(-1)
        low, high = np.zeros(len(honest)), np.full(len(honest), 50.0)
        for _step in range(25):
            size = (low + high) / 2
            reach = own + size[:, None] * cross + (size**2 * length)[:, None]
            inside = (reach.sum(1) if sums else reach.max(1)) <= limit
            low, high = np.where(inside, size, low), np.where(inside, high, size)
        return _equal(mean + low[:, None].astype(np.float32) * push, b)

    return attack


def mimic(honest: Array, b: int, *_: Any) -> Array:
    return _equal(honest[:, 0], b)


def beyond(honest: Array, b: int, *_: Any) -> Array:
    """Fang's attack on the trimmed mean: outside the honest range, against the mean."""
    low, high = honest.min(1), honest.max(1)
    below, above = np.where(low > 0, low / 2, low * 2), np.where(high > 0, high * 2, high / 2)
    return _equal(np.where(honest.mean(1) > 0, below, above), b)


def sleeper(length: int, inner: Attack) -> Attack:
    """The honest mean until so many rounds before the end."""

    def attack(honest: Array, b: int, round: int, rounds: int, state: dict[str, Any], random: Any) -> Array:
        found = inner(honest, b, round, rounds, state, random)
        return _equal(honest.mean(1), b) if round < rounds - length else found

    return attack


def strike(share: float, size: float) -> Attack:
    """One round of minus `size` means, and honest updates before and after."""

    def attack(honest: Array, b: int, round: int, rounds: int, *_: Any) -> Array:
        return _equal(-size * honest.mean(1), b) if round == int(share * rounds) else honest[:, :b]

    return attack


def blinding(inner: Attack) -> Attack:
    """One worker sends noise of 1e10, the others attack."""

    def attack(honest: Array, b: int, round: int, rounds: int, state: dict[str, Any], random: Any) -> Array:
        rows = inner(honest, b, round, rounds, state, random).copy()
        rows[:, 0] = 1e10 * random.normal(size=rows[:, 0].shape)
        return rows

    return attack


def split(z: float, *, redrawn: bool = False, disguised: bool = False) -> Attack:
    """Each worker shifts its own share of the coordinates."""

    def attack(honest: Array, b: int, _round: int, _rounds: int, state: dict[str, Any], random: Any) -> Array:
        if "owner" not in state or redrawn:
            state["owner"] = random.integers(b, size=honest.shape[-1])
        push = np.sqrt(b) * z * honest.std(1) * np.sign(running_mean(honest, state))
        rows = honest[:, :b].copy() if disguised else _equal(honest.mean(1), b)
        for worker in range(b):
            rows[:, worker] -= np.where(state["owner"] == worker, push, 0.0)
        return rows

    return attack


def half(inner: Attack) -> Attack:
    """Half of the Byzantine workers attack."""

    def attack(honest: Array, b: int, *rest: Any) -> Array:
        rows = inner(honest, b, *rest).copy()
        rows[:, b // 2 :] = honest[:, : b - b // 2]
        return rows

    return attack


def noise(size: float) -> Attack:
    def attack(honest: Array, b: int, _round: int, _rounds: int, _state: dict[str, Any], random: Any) -> Array:
        drawn = random.normal(size=(len(honest), b, honest.shape[-1]))
        return np.asarray(honest.mean(1)[:, None] + size * honest.std(1)[:, None] * drawn, np.float32)

    return attack


# Attacks by someone who has read how the memory works.


def along(size: float, direction: str) -> Attack:
    """A steady push whose length is `size` honest deviations, all of it where it harms most or is seen least.

    The memory sees lengths. ALIE and Drift spread theirs over all coordinates; this one has it along the running mean
    ("mean"), on the last ten coordinates, the biases of the outputs ("last"), or where honest updates spread most, in
    the sense that is against the running mean ("spread").
    """

    def attack(honest: Array, b: int, _round: int, _rounds: int, state: dict[str, Any], _random: Any) -> Array:
        mean, running = honest.mean(1), running_mean(honest, state, 0.9)
        deviations = honest - mean[:, None]
        length = np.sqrt(np.median((deviations.astype(np.float64) ** 2).sum(-1), -1))[:, None]
        if direction == "last":
            push = np.zeros_like(mean)
            push[:, -10:] = np.where(np.arange(10) == 0, 9.0, -1.0)
        elif direction == "spread":
            _, vectors = np.linalg.eigh(np.matmul(deviations, deviations.swapaxes(1, 2)))
            push = np.einsum("sh,shd->sd", vectors[..., -1], deviations)
            push = push * np.sign((push * running).sum(-1, keepdims=True))
        else:
            push = running
        push = push / np.maximum(np.sqrt((push.astype(np.float64) ** 2).sum(-1, keepdims=True)), 1e-30)
        return _equal((mean - size * length * push).astype(np.float32), b)

    return attack


def shifts(length: int, inner: Attack) -> Attack:
    """Two groups take turns: one attacks for so many rounds, the other sends honest updates."""

    def attack(honest: Array, b: int, round: int, *rest: Any) -> Array:
        rows = inner(honest, b, round, *rest).copy()
        resting = np.arange(b) % 2 == (round // length) % 2
        rows[:, resting] = honest[:, :b][:, resting]
        return rows

    return attack


def bursts(on: int, off: int, inner: Attack) -> Attack:
    """All attack for some rounds, then send honest updates until the running means have forgotten it."""

    def attack(honest: Array, b: int, round: int, *rest: Any) -> Array:
        rows = inner(honest, b, round, *rest)
        return rows if round % (on + off) < on else honest[:, :b]

    return attack


def early(length: int, inner: Attack) -> Attack:
    """Only in the first rounds, when nothing is remembered."""

    def attack(honest: Array, b: int, round: int, *rest: Any) -> Array:
        rows = inner(honest, b, round, *rest)
        return rows if round < length else honest[:, :b]

    return attack


def turning(z: float, period: int) -> Attack:
    """Drift on half of the coordinates, a half that moves on slowly."""

    def attack(honest: Array, b: int, round: int, _rounds: int, state: dict[str, Any], random: Any) -> Array:
        if "phase" not in state:
            state["phase"] = random.random(honest.shape[-1])
        pushed = (state["phase"] + round / period) % 1.0 < 0.5
        return _equal(honest.mean(1) - z * honest.std(1) * np.sign(running_mean(honest, state)) * pushed, b)

    return attack


def scapegoat(z: float, share: float) -> Attack:
    """Opposite to one honest worker, so that it stands out with them, and a drift."""

    def attack(honest: Array, b: int, _round: int, _rounds: int, state: dict[str, Any], _random: Any) -> Array:
        mean = honest.mean(1)
        push = z * honest.std(1) * np.sign(running_mean(honest, state))
        return _equal((mean - share * (honest[:, 0] - mean) - push).astype(np.float32), b)

    return attack


def shift(size: float) -> Attack:
    """The library's `Shift`: the same push in every round, equal in all coordinates."""

    def attack(honest: Array, b: int, *_: Any) -> Array:
        push = size * _reach(honest) / np.sqrt(honest.shape[-1])
        return _equal((honest.mean(1) - push[:, None]).astype(np.float32), b)

    return attack


def pump(size: float, directions: int = 3) -> Attack:
    """The library's `Pump`: along the server's velocity, in the directions where honest updates spread most."""

    def attack(honest: Array, b: int, _round: int, _rounds: int, state: dict[str, Any], _random: Any) -> Array:
        mean = honest.mean(1)
        state["velocity"] = 0.9 * state.get("velocity", 0.0) + state.get("result", mean)
        deviations = honest - mean[:, None]
        _, vectors = np.linalg.eigh(np.matmul(deviations, deviations.swapaxes(1, 2)))
        basis = np.einsum("shk,shd->skd", vectors[..., -directions:], deviations)
        basis /= np.maximum(np.linalg.norm(basis, axis=-1, keepdims=True), 1e-30)
        push = np.einsum("sk,skd->sd", np.einsum("skd,sd->sk", basis, state["velocity"]), basis)
        push /= np.maximum(np.linalg.norm(push, axis=-1, keepdims=True), 1e-30)
        return _equal((mean + size * _reach(honest)[:, None] * push).astype(np.float32), b)

    return attack


def apart(inner: Attack, share: float) -> Attack:
    """An attack whose updates differ by noise of a share of the honest variance, so that none is a copy of another.

    The noise is mixed of honest deviations, so that it is spread over the coordinates as theirs.
    """

    def attack(honest: Array, b: int, round: int, rounds: int, state: dict[str, Any], random: Any) -> Array:
        deviations = honest - honest.mean(1)[:, None]
        mixing = np.sqrt(share / honest.shape[1]) * random.normal(size=(len(honest), b, honest.shape[1]))
        noise = np.einsum("sbh,shd->sbd", mixing.astype(np.float32), deviations)
        return np.asarray(inner(honest, b, round, rounds, state, random) + noise)

    return attack


def resonance(size: float, share: float, against: float, kept: int = 50, smooth: float = 0.0) -> Attack:
    """As `pump`, but along the curvature of the loss times the server's velocity, under noise as large as honest noise.

    Each worker adds noise of `share` of the honest variance, half as much along the push. With `smooth`, so much of the
    way in which the noise is mixed from honest deviations stays from round to round: noise that is drawn again in each
    round is unlike that of workers with momentum.
    """

    def attack(honest: Array, b: int, _round: int, _rounds: int, state: dict[str, Any], random: Any) -> Array:
        push, deviations = _resonant(honest, state, against, kept)
        drawn = np.sqrt(share / honest.shape[1]) * random.normal(size=(len(honest), b, honest.shape[1]))
        mixing = smooth * state.get("mixing", drawn) + np.sqrt(1.0 - smooth**2) * drawn if smooth else drawn
        state["mixing"] = mixing
        noise = np.einsum("sbh,shd->sbd", mixing.astype(np.float32), deviations)
        noise -= 0.5 * np.einsum("sbd,sd->sb", noise, push)[..., None] * push[:, None]
        pushed = honest.mean(1)[:, None] + size * _reach(honest)[:, None, None] * push[:, None]
        return np.asarray(pushed + noise, np.float32)

    return attack


def unrelated_resonance(size: float, share: float, against: float, kept: int = 50, smooth: float = 0.0) -> Attack:
    """As `resonance`, with noise that makes the updates orthogonal to each other: nobody moves with anybody.

    With `smooth` above a half, the noise is mixed in the same way in all rounds.

    The noise of the workers has the sum zero. Without `against`, with a size of 1 and a share of 1, deviations are as
    long as honest ones and orthogonal, as honest ones are on average. No view of pairs of workers can then distinguish
    them, and their mean is pushed by the honest spread over the root of b.
    """

    def attack(honest: Array, b: int, _round: int, _rounds: int, state: dict[str, Any], random: Any) -> Array:
        push, deviations = _resonant(honest, state, against, kept)
        basis, _ = np.linalg.qr(random.normal(size=(len(honest), honest.shape[1], b)))
        basis = state.setdefault("basis", basis) if smooth > 0.5 else basis
        mixing = (basis - basis.mean(-1, keepdims=True)).astype(np.float32)
        noise = np.einsum("shb,shd->sbd", mixing, deviations)
        noise -= np.einsum("sbd,sd->sb", noise, push)[..., None] * push[:, None]
        reach = np.sqrt(share) * _reach(honest)
        length = np.maximum(np.linalg.norm(noise, axis=-1).mean(-1), 1e-30)
        noise *= (np.sqrt(1.0 - 1.0 / b) * reach / length)[:, None, None]
        pushed = honest.mean(1) + (size / np.sqrt(b) * reach)[:, None] * push
        return np.asarray(pushed[:, None] + noise, np.float32)

    return attack


def _resonant(honest: Array, state: dict[str, Any], against: float, kept: int) -> tuple[Array, Array]:
    """A direction of length 1 that feeds the oscillation of the weights, and the honest deviations.

    The honest deviations of the last rounds stand for the curvature: their covariance is nearly the Fisher matrix. A
    push along curvature times velocity feeds the oscillation. It changes its sign with it, so that it cancels in
    running means, and it lies where honest updates spread most. To it is added a push against the present mean,
    `against` times as long.
    """
    mean = honest.mean(1)
    state["velocity"] = 0.9 * state.get("velocity", 0.0) + state.get("result", mean)
    deviations = honest - mean[:, None]
    state["past"] = [*state.get("past", []), deviations][-kept:]
    push = np.zeros_like(mean)
    for those in state["past"]:
        push += np.einsum("shd,sh->sd", those, np.einsum("shd,sd->sh", those, state["velocity"]))
    return _unit(_unit(push) - against * _unit(mean)), deviations


def avoiding(size: float, share: float, signs: bool) -> Attack:
    """A push without what lies along the server's guide, the running mean of its results, and with noise.

    Along the curvature times the velocity, or against the signs of the running mean of the honest updates.
    """

    def attack(honest: Array, b: int, _round: int, _rounds: int, state: dict[str, Any], random: Any) -> Array:
        mean = honest.mean(1)
        result = state.get("result", mean)
        state["guide"] = 0.97 * state.get("guide", result) + 0.03 * result
        push, deviations = _resonant(honest, state, 0.0, 50)
        if signs:
            push = -np.sign(running_mean(honest, state, 0.9)) * honest.std(1)
        guide = _unit(state["guide"])
        push = _unit(push - np.einsum("sd,sd->s", push, guide)[:, None] * guide)
        mixing = np.sqrt(share / honest.shape[1]) * random.normal(size=(len(honest), b, honest.shape[1]))
        noise = np.einsum("sbh,shd->sbd", mixing.astype(np.float32), deviations)
        return np.asarray((mean + size * _reach(honest)[:, None] * push)[:, None] + noise, np.float32)

    return attack


def trying(patient: bool, curvature: bool) -> Attack:
    """The most harmful of some pushes, by trying each on the server's memory and both of its rules.

    The attacker knows all that the server remembers, but neither the draw nor this round's secret signs. Harm is how
    far the expected result moves against the running mean of the honest updates, or along the curvature times the
    velocity. A patient attacker chooses what would harm most if it were sent in every round, another what harms most
    now.
    """

    def attack(honest: Array, b: int, _round: int, _rounds: int, state: dict[str, Any], random: Any) -> Array:
        push, deviations = _resonant(honest, state, 0.3, 50)
        aim = push if curvature else -_unit(running_mean(honest, state, 0.9))
        mean, reach = honest.mean(1)[:, None], _reach(honest)[:, None, None]
        drawn = random.normal(size=(len(honest), b, honest.shape[1])) / np.sqrt(honest.shape[1])
        noise = np.einsum("sbh,shd->sbd", drawn.astype(np.float32), deviations)
        pushes = [aim[:, None], -np.sign(running_mean(honest, state, 0.9))[:, None] * honest.std(1)[:, None] / reach]
        sizes = (0.3, 0.6, 1.0, 1.5, 2.2)
        sent = np.stack(
            [mean + noise]
            + [mean + size * reach * way + share * noise for way in pushes for size in sizes for share in (0.6, 1.1)]
        ).astype(np.float32)
        if "tried" not in state:
            return np.asarray(sent[-1])
        harm = np.einsum("csd,sd->cs", state["tried"](sent, patient) - mean[:, 0], aim)
        return np.asarray(sent[harm.argmax(0), np.arange(len(honest))])

    return attack


def _unit(rows: Array) -> Array:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-30))


def _reach(honest: Array) -> Array:
    """The median distance of honest updates to their mean, by seed."""
    deviations = (honest - honest.mean(1)[:, None]).astype(np.float64)
    return np.asarray(np.median(np.sqrt((deviations**2).sum(-1)), -1))


ATTACKS: dict[str, Attack] = {
    "none": honestly,
    **{f"tailored {epsilon:g}": tailored(epsilon) for epsilon in (0.1, 0.5, 1.0, 10.0)},
    **{f"ALIE {z:g}": alie(z) for z in (0.25, 0.5, 1.0, 1.5)},
    "Min-Max": within(False),
    "Min-Sum": within(True),
    "mimic": mimic,
    "beyond the range": beyond,
    **{f"drift {z:g}": drift(z) for z in (0.25, 0.5, 1.0)},
    "signed 0.5": signed(0.5),
    "ALIE flipping every 10": alie(1.0, 10),
    "ALIE flipping every 30": alie(1.0, 30),
    "hidden drift 0.5": hidden(0.5, True),
    "hidden drift 1": hidden(1.0, True),
    "hidden ALIE 0.5": hidden(0.5, False),
    "hidden ALIE 1": hidden(1.0, False),
    "sleeper, 20 rounds": sleeper(20, drift(1.0)),
    "sleeper, 60 rounds": sleeper(60, alie(1.0)),
    "strike of 10,000": strike(0.8, 1e4),
    "late strike of 20": strike(0.97, 20.0),
    "blinding": blinding(drift(0.5)),
    "split": split(1.0),
    "split, disguised": split(1.0, disguised=True),
    "split, redrawn": split(1.0, redrawn=True),
    "half of them ALIE 1.5": half(alie(1.5)),
    "noise": noise(3.0),
    **{
        f"along the {direction} {c:g}": along(c, direction)
        for direction in ("mean", "last", "spread")
        for c in (0.3, 0.7)
    },
    "along the mean 1.5": along(1.5, "mean"),
    "shifts of 10": shifts(10, drift(1.0)),
    "shifts of 40": shifts(40, alie(1.0)),
    "bursts": bursts(8, 24, alie(1.0)),
    "long bursts": bursts(20, 60, drift(1.0)),
    "first 20 rounds": early(20, alie(1.5)),
    "turning": turning(1.0, 60),
    "scapegoat": scapegoat(0.5, 1.0),
    "hidden drift 0.25": hidden(0.25, True),
    "shift 0.2": shift(0.2),
    "shift 0.3": shift(0.3),
    "pump": pump(1.2),
    # By someone who knows that copies share one weight.
    "shift 0.3, apart": apart(shift(0.3), 0.35),
    "pump, apart": apart(pump(1.0), 0.35),
    "ALIE 0.5, apart": apart(alie(0.5), 0.35),
    "ALIE 1, apart": apart(alie(1.0), 0.35),
    "drift 1, apart": apart(drift(1.0), 0.35),
    "resonance 2": resonance(2.0, 1.8, 0.3),
    "resonance 1.6": resonance(1.6, 1.8, 0.5),
    "resonance 0.8": resonance(0.8, 1.0, 0.3),
    "unrelated resonance 1.3": unrelated_resonance(1.3, 1.5, 0.3),
    "unrelated resonance 1": unrelated_resonance(1.0, 1.0, 0.0),
    # By someone who knows that the memory looks at what is new in an update.
    "smooth resonance 0.8": resonance(0.8, 1.0, 0.3, smooth=0.9),
    "smooth resonance 1.6": resonance(1.6, 1.8, 0.5, smooth=0.9),
    "smooth unrelated resonance 1.3": unrelated_resonance(1.3, 1.5, 0.3, smooth=1.0),
}

# By someone who knows of the guide. They are not among all attacks.
AVOIDING: dict[str, Attack] = {
    f"avoiding the guide, {'signs' if signs else 'curvature'} {size:g}": avoiding(size, share, signs)
    for signs in (False, True)
    for size, share in ((0.6, 0.5), (1.0, 0.8), (1.6, 1.2))
}
# Attacks that try their updates on the server's memory, each in trainings of its own. They are not among all attacks.
TRYING: dict[str, Attack] = {
    "tries against the mean": trying(False, False),
    "tries along the curvature": trying(False, True),
    "tries patiently against the mean": trying(True, False),
    "tries patiently along the curvature": trying(True, True),
}
