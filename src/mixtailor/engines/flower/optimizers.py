"""Server optimisers: what is done with the aggregated difference of a round."""

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import final

import numpy as np

from mixtailor._checks import check_fraction, check_positive, refuse
from mixtailor._types import Array as Values
from mixtailor.engines.flower.arrays import Model
from mixtailor.engines.statistics import STATISTICS, statistics_among

__all__ = ["Adagrad", "Adam", "Momentum", "ServerOptimizer", "Stepper", "Yogi"]

Moments = tuple[Values, ...]


@dataclass(frozen=True, kw_only=True)
class ServerOptimizer:
    """From the aggregated difference to the step of the model, array by array. What it remembers is given to it.

    Whoever implements it promises that `step` changes nothing but its first argument, and that it returns one array of
    the difference's size, and the moments for the next step.
    """

    @property
    @abstractmethod
    def memory(self) -> int:
        """How many arrays of the model's size it remembers."""

    @abstractmethod
    def step(self, difference: Values, moments: Moments, count: int) -> tuple[Values, Moments]:
        """The step, and what to remember.

        Parameters
        ----------
        difference : array
            What the rule returned, flat. It may be overwritten.
        moments : tuple of arrays
            What the step before returned; zeros at first.
        count : int
            The number of this step, from 1. Rounds without a step do not count.
        """


@final
@dataclass(frozen=True, kw_only=True)
class Momentum(ServerOptimizer):
    """v <- mu v + difference, and the step is eta v: the strategy's own `learning_rate` and `momentum`."""

    learning_rate: float = 1.0
    momentum: float = 0.0

    @property
    def memory(self) -> int:
        return 1 if self.momentum else 0

    def step(self, difference: Values, moments: Moments, count: int) -> tuple[Values, Moments]:
        kind = difference.dtype.type
        if not self.momentum:
            if self.learning_rate != 1.0:
                difference *= kind(self.learning_rate)
            return difference, moments
        difference += kind(self.momentum) * moments[0]
        return difference * kind(self.learning_rate), (difference,)


@dataclass(frozen=True, kw_only=True)
class _Adaptive(ServerOptimizer):
    """What the adaptive optimisers share: m <- b1 m + (1 - b1) difference, and the step eta m / (sqrt v + tau)."""

    eta: float = 0.1
    beta_1: float = 0.9
    beta_2: float = 0.99
    tau: float = 1e-3

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_positive(name, "eta", self.eta)
        for key, beta in (("beta_1", self.beta_1), ("beta_2", self.beta_2)):
            check_fraction(name, key, beta)
            if beta == 1:
                refuse(f"{name} needs {key} below 1 and got 1: moments would never change.")
        check_positive(name, "tau", self.tau)

    @property
    def memory(self) -> int:
        return 2

    def step(self, difference: Values, moments: Moments, count: int) -> tuple[Values, Moments]:
        kind = difference.dtype.type
        first = kind(self.beta_1) * moments[0] + kind(1 - self.beta_1) * difference
        second = self._second(difference**2, moments[1])
        return kind(self._rate(count)) * first / (np.sqrt(second) + kind(self.tau)), (first, second)

    @abstractmethod
    def _second(self, squares: Values, before: Values) -> Values:
        """The second moment."""

    def _rate(self, count: int) -> float:
        return self.eta


@final
@dataclass(frozen=True, kw_only=True)
class Adam(_Adaptive):
    r"""FedAdam: Adam at the server, on the aggregated difference.

    .. math:: m \leftarrow \beta_1 m + (1 - \beta_1) \Delta, \quad v \leftarrow \beta_2 v + (1 - \beta_2) \Delta^2,
        \quad w \leftarrow w + \eta_t \frac{m}{\sqrt v + \tau}

    Parameters
    ----------
    eta : float
        The server's learning rate.
    beta_1, beta_2 : float
        How much of the moments is kept, from 0 to below 1.
    tau : float
        The degree of adaptivity: coordinates whose differences are well below it move as with momentum.

    Examples
    --------
    >>> import mixtailor as mt
    >>> from mixtailor.engines.flower import RobustStrategy
    >>> strategy = RobustStrategy(mt.MixTailor(mt.default_pool(f=2)), server_optimizer=Adam(eta=0.01))

    Notes
    -----
    As Flower's FedAdam has it, to the digit: moments start at zero, and
    :math:`\eta_t = \eta \sqrt{1 - \beta_2^{t + 1}} / (1 - \beta_1^{t + 1})` corrects that. The paper starts v at
    :math:`\tau^2` or more and corrects nothing.

    References
    ----------
    .. [1] Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, "Adaptive Federated Optimization", ICLR 2021.
    """

    def _second(self, squares: Values, before: Values) -> Values:
        kind = squares.dtype.type
        second: Values = kind(self.beta_2) * before + kind(1 - self.beta_2) * squares
        return second

    def _rate(self, count: int) -> float:
        return float(self.eta * np.sqrt(1 - self.beta_2 ** (count + 1)) / (1 - self.beta_1 ** (count + 1)))


@final
@dataclass(frozen=True, kw_only=True)
class Yogi(_Adaptive):
    r"""FedYogi: as `Adam`, with a second moment that moves by the squared difference at most.

    .. math:: v \leftarrow v - (1 - \beta_2) \Delta^2 \operatorname{sign}(v - \Delta^2)

    Parameters
    ----------
    eta, beta_1, beta_2, tau : float
        As for `Adam`; eta is not corrected for the first steps.

    Examples
    --------
    >>> Yogi(eta=0.01)
    Yogi(eta=0.01, beta_1=0.9, beta_2=0.99, tau=0.001)

    References
    ----------
    .. [1] Reddi et al., "Adaptive Federated Optimization", ICLR 2021.
    """

    eta: float = 0.01

    def _second(self, squares: Values, before: Values) -> Values:
        second: Values = before - squares.dtype.type(1 - self.beta_2) * squares * np.sign(before - squares)
        return second


@final
@dataclass(frozen=True, kw_only=True)
class Adagrad(_Adaptive):
    r"""FedAdagrad: as `Adam`, with the sum of all squared differences as second moment.

    .. math:: v \leftarrow v + \Delta^2

    Parameters
    ----------
    eta, beta_1, tau : float
        As for `Adam`; beta_1 is 0 by default.

    Examples
    --------
    >>> Adagrad(eta=0.1)
    Adagrad(eta=0.1, beta_1=0.0, tau=0.001)

    References
    ----------
    .. [1] Reddi et al., "Adaptive Federated Optimization", ICLR 2021.
    """

    beta_1: float = 0.0
    beta_2: float = field(default=0.0, init=False, repr=False)

    def _second(self, squares: Values, before: Values) -> Values:
        second: Values = before + squares
        return second


@final
class Stepper:
    """A model's steps by one optimiser, and what it remembers between them.

    Running statistics, known by their names, are moved by the difference itself: a step that is longer can make a
    variance negative.
    """

    def __init__(self, optimizer: ServerOptimizer, statistics: Collection[str] = STATISTICS) -> None:
        self.optimizer, self.statistics = optimizer, statistics
        self.forget()

    def forget(self) -> None:
        """Start again: another model has other moments."""
        self.moments: dict[str, Moments] = {}
        self.count = 0

    def stepped(self, model: Model, result: dict[str, Values]) -> bool:
        """Turn aggregated differences into the next model's arrays, in place. False if one would not be finite.

        Then nothing is remembered: one round must not leave moments that stop all later ones.
        """
        moments: dict[str, Moments] = {}
        measured = set(statistics_among(model.floats, self.statistics))
        with np.errstate(all="ignore"):  # looked for below
            for name in model.floats:
                difference = result[name]
                # Half precision has no squares of small differences.
                optimizer = Momentum() if name in measured else self.optimizer
                if difference.dtype.itemsize < 4 and not isinstance(optimizer, Momentum):
                    difference = difference.astype(np.float32)
                before = self.moments.get(name) or (np.zeros_like(difference),) * optimizer.memory
                step, after = optimizer.step(difference, before, self.count + 1)
                step += model.arrays[name].reshape(-1)
                step = step.astype(model.arrays[name].dtype, copy=False)
                if not all(np.isfinite(values).all() for values in (step, *after)):
                    return False
                result[name], moments[name] = step, after
        self.moments, self.count = moments, self.count + 1
        return True
