"""A server that can step back: it compares what the workers report of their losses with the rounds before."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import torch

from mixtailor._checks import check_count, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixtailor.simulation.server import Server

__all__ = ["Rollback"]


class Rollback:
    r"""Steps back when all but f of the losses are worse than all but f of them were.

    .. math:: \ell_{(f + 1)} > a \cdot \mathrm{median}\left(\ell^{t - w}_{(n - f)}, \ldots,
        \ell^{t - 1}_{(n - f)}\right)

    with a round's sorted losses :math:`\ell_{(1)} \le \ldots \le \ell_{(n)}`, each worker's on its own batch at the
    server's weights. With at most f Byzantine workers, the left side is at least the least honest loss and the right
    side's terms are at most the largest honest ones: reports of f workers can neither hide a blow that raised every
    honest loss by the factor, nor raise the alarm while the least of n - 2f honest losses is below it. The weights and
    the momentum then go back to those of the last round that was accepted, and that round's updates are not used. The
    round after a step back is accepted without a look, so that noise cannot hold training in one place.

    Parameters
    ----------
    factor : float
        a, above 1.
    source : {"peers", "held-out"}
        Whose losses: those that workers report with their updates, or the server's own, on its few clean examples.
    floor : float
        No loss below this raises an alarm: where losses are tiny, their noise is many times their size.
    window : int
        w, how many accepted rounds are remembered.
    reports : {"hide", "alarm"}
        What Byzantine workers of the simulation report: no loss at all, or an infinite one.

    Examples
    --------
    >>> from mixtailor.simulation.rollback import Rollback
    >>> rollback = Rollback(2.0)
    >>> [rollback.alarmed([1.0, 1.1, 0.9, 0.0], f=1) for _ in range(3)]
    [False, False, False]
    >>> rollback.alarmed([9.0, 8.0, 7.0, 0.0], f=1), rollback.alarmed([1.0, 1.1, 0.9, 1e9], f=1)
    (True, False)
    """

    def __init__(
        self,
        factor: float = 2.0,
        *,
        source: Literal["peers", "held-out"] = "peers",
        floor: float = 0.1,
        window: int = 10,
        reports: Literal["hide", "alarm"] = "hide",
    ) -> None:
        if not 1.0 < factor < math.inf:
            refuse(f"Rollback needs factor > 1 and got {factor}.")
        if source not in ("peers", "held-out"):
            refuse(f"Rollback needs source='peers' or 'held-out' and got {source!r}.")
        if reports not in ("hide", "alarm"):
            refuse(f"Rollback needs reports='hide' or 'alarm' and got {reports!r}.")
        if not 0.0 <= floor < math.inf:
            refuse(f"Rollback needs floor >= 0 and got {floor}.")
        check_count("Rollback", "window", window)
        self.factor, self.source, self.window, self.reports = factor, source, window, reports
        self.floor = floor
        self._usual: list[float] = []
        self._kept: tuple[torch.Tensor, torch.Tensor | None] | None = None
        self._excused = False

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in ("source", "floor", "window", "reports")}
        return f"Rollback({self.factor:g}, {', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def byzantine_report(self) -> float:
        """The loss that a Byzantine worker of the simulation reports."""
        return 0.0 if self.reports == "hide" else math.inf

    def alarmed(self, losses: Sequence[float], f: int) -> bool:
        """Whether these losses are too large; if not, they are remembered."""
        if len(losses) <= 2 * f:
            refuse(f"Rollback needs more than 2f = {2 * f} losses and got {len(losses)}.")
        ordered = sorted(loss if math.isfinite(loss) else math.inf for loss in losses)
        if self._usual and ordered[f] > max(self.factor * median(self._usual), self.floor):
            return True
        if ordered[len(ordered) - f - 1] < math.inf:
            self._usual = [*self._usual, ordered[len(ordered) - f - 1]][-self.window :]
        return False

    def steps_back(self, losses: Sequence[float], f: int, server: Server) -> bool:
        """Put the server back to where it was last accepted, if the losses at its weights are too large."""
        excused, self._excused = self._excused, False
        if not excused and self._kept is not None and self.alarmed(losses, f):
            weights, velocity = self._kept
            server.weights.copy_(weights)
            if server.velocity is not None and velocity is not None:
                server.velocity.copy_(velocity)
            self._excused = True
            return True
        if self._kept is None:
            self.alarmed(losses, f)
        self._kept = (server.weights.clone(), None if server.velocity is None else server.velocity.clone())
        return False

    def after(self, losses: torch.Tensor, honest: int, byzantine: int, f: int, server: Server) -> bool:
        """Step back after what a round's workers computed, the honest ones first and the server's own loss last."""
        if self.source == "held-out":
            return self.steps_back([float(losses[-1])], 0, server)
        reported = [*losses[:honest].tolist(), *([self.byzantine_report] * byzantine)]
        return self.steps_back(reported, min(f, (len(reported) - 1) // 2), server)

    def state(self) -> dict[str, Any]:
        """Everything, for a checkpoint."""
        return {"usual": self._usual, "kept": self._kept, "excused": self._excused}

    def restore(self, state: dict[str, Any], device: torch.device) -> None:
        """Continue from what `state` returned."""
        self._usual, self._excused = list(state["usual"]), bool(state["excused"])
        kept = state["kept"]
        self._kept = None if kept is None else (kept[0].to(device), None if kept[1] is None else kept[1].to(device))

    def reset(self) -> Rollback:
        """Forget everything: a simulation begins."""
        self._usual, self._kept, self._excused = [], None, False
        return self
