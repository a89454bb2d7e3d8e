"""Which workers are Byzantine in a round, and what they send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from mixtailor.simulation.streams import stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mixtailor.attacks import Attack
    from mixtailor.simulation.settings import Settings

__all__ = ["Adversary", "Cast"]


class Cast:
    """Who takes part in a round, and who of them is Byzantine: functions of the seed and the round alone.

    Examples
    --------
    >>> from mixtailor.simulation import Settings
    >>> cast = Cast(Settings(n=6, byzantine=2))
    >>> workers, byzantine = cast(0)
    >>> workers, len(byzantine), cast(1)[1] == byzantine
    ((0, 1, 2, 3, 4, 5), 2, True)
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.fixed = self._byzantine(())

    def __call__(self, round: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The workers of a round, and the Byzantine ones among them, both in order."""
        settings = self.settings
        if settings.taking_part == settings.n:
            workers = tuple(range(settings.n))
        else:
            drawn = stream(settings.seed, "participation", round).choice(
                settings.n, settings.taking_part, replace=False
            )
            workers = tuple(sorted(int(worker) for worker in drawn))
        byzantine = self.fixed if settings.spell is None else self._byzantine((round // settings.spell,))
        present = set(workers)
        return workers, tuple(worker for worker in byzantine if worker in present)

    def _byzantine(self, position: tuple[int, ...]) -> tuple[int, ...]:
        drawn = stream(self.settings.seed, "byzantine", *position).choice(
            self.settings.n, self.settings.byzantine, replace=False
        )
        return tuple(sorted(int(worker) for worker in drawn))


class Adversary:
    """The Byzantine workers together: an attack, its memory, and its own randomness.

    Parameters
    ----------
    attack : Attack or None
        None, and the Byzantine workers send what is correct.
    settings : Settings

    Attributes
    ----------
    needs_own : bool
        Whether the Byzantine workers' correct rows have to be computed.
    memory : object
        What the attack remembers; None where it remembers nothing.
    """

    def __init__(self, attack: Attack | None, settings: Settings) -> None:
        self.attack, self.settings = attack, settings
        self.needs_own = attack is None or attack.needs_own()
        steady = settings.spell is None and settings.taking_part == settings.n
        # Memory of rows by their places is of no use where the places change hands.
        self.memory: Any = attack.begin() if attack is not None and (attack.remembers or steady) else None
        if self.needs_own and settings.spread == "honest" and settings.byzantine and attack is not None:
            raise ValueError(
                f"{attack!r} starts from the Byzantine workers' own updates, and with spread='honest' they have no "
                "data. Give spread='all'."
            )

    def rows(
        self,
        honest: torch.Tensor,
        own: torch.Tensor | None,
        count: int,
        round: int,
        model: torch.Tensor | None = None,
        workers: tuple[Sequence[int], Sequence[int]] | None = None,
        *,
        sound: bool = False,
        reference: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, Mapping[str, object]]:
        """The `count` rows that the Byzantine workers send, and what the attack found.

        Rows that are not finite are hidden from the attack, which computes with them. Where chance gives a round more
        Byzantine workers than the attack can use (it needs an honest majority), the rest repeat the last row; where it
        gives too few for the attack, they hide behind the honest mean. So they do where training has come apart, and
        finite rows are too few for the rule that the attack tries.

        Where workers send models, `model` is the one that the server sent them, w0: the attack works on the
        differences to it, so that a tailored row is ``w0 - epsilon (w - w0)`` with w the mean of the honest models.
        `workers` are the honest and the Byzantine workers of the round, for attacks on a server that knows them.
        `sound` says that all honest rows are known to be finite. `reference` is what the rule is given as such, for
        attacks that try the rule.
        """
        if self.attack is None:
            assert own is not None
            return own, {}
        if model is not None:
            differences = None if own is None else own - model
            known = None if reference is None else reference - model
            changes, facts = self.rows(honest - model, differences, count, round, workers=workers, reference=known)
            return changes + model, facts
        finite = None if sound or bool(torch.isfinite(honest.sum())) else torch.isfinite(honest).all(1)
        usable = honest if finite is None else honest[finite]
        used = count if self.attack.alone else min(count, len(usable) - 1)
        apart = len(usable) < len(honest) and len(usable) + used < self.attack.least_rows()
        if used < self.attack.least_f() or apart:
            return usable.mean(0, keepdim=True).expand(count, -1), {}
        names = None
        if workers is not None:
            kept = (
                workers[0] if finite is None else [w for w, ok in zip(workers[0], finite.tolist(), strict=True) if ok]
            )
            names = [*kept, *workers[1][:used]]
        made = self.attack.craft(
            usable,
            used,
            own=None if own is None else own[:used],
            state=self.memory,
            rng=stream(self.settings.seed, "attacker", round),
            workers=names,
            reference=reference,
        )
        rows: torch.Tensor = made.rows
        if used < count:
            rows = torch.cat([rows, rows[-1:].expand(count - used, -1)])
        return rows, made.facts

    def observe(self, result: torch.Tensor) -> None:
        """The server's result of this round, which all workers see."""
        observe = getattr(self.memory, "observe", None)
        if observe is not None:
            observe(result)


def placed(
    workers: tuple[int, ...],
    byzantine: tuple[int, ...],
    honest: torch.Tensor,
    wrong: torch.Tensor,
    room: torch.Tensor | None = None,
) -> torch.Tensor:
    """All updates of a round, in the order of the workers.

    Where `room`, a buffer with a row for each worker, begins with the honest updates, those behind a Byzantine worker
    are moved inside it, and nothing is allocated.
    """
    wrong, present = wrong.to(honest.dtype), set(byzantine)
    places = [place for place, worker in enumerate(workers) if worker in present]
    if room is not None and places and len(room) == len(workers) and room.data_ptr() == honest.data_ptr():
        # From the end: a row moves only to a place behind its own, whose row has moved before.
        end = len(workers)
        for i, place in reversed(list(enumerate(places))):
            for row in range(end - 1, place, -1):
                room[row].copy_(room[row - i - 1])
            room[place].copy_(wrong[i])
            end = place
        return room
    pieces, start = [], 0
    # Runs of honest rows are copied whole: assignment through a mask takes three times as long.
    for i, place in enumerate(places):
        pieces += [honest[start : place - i], wrong[i : i + 1]]
        start = place - i
    return torch.cat([*pieces, honest[start:]])
