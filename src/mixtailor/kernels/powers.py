"""Powers of a register: the shortest chains of products for whole p, roots for quarters, logarithms for the rest."""

from __future__ import annotations

import math
from typing import Any

from mixtailor.kernels.lanes import Lanes

__all__ = ["power", "power_plus", "raised"]

# x^p = x^a x^b by the shortest chains: for p <= 16 at most four products before the last one.
_SPLIT = {3: (2, 1), 5: (4, 1), 7: (4, 3), 9: (8, 1), 10: (8, 2), 11: (8, 3), 13: (12, 1), 14: (12, 2), 15: (12, 3)}


def _split(p: int) -> tuple[int, int]:
    return _SPLIT.get(p, (p // 2, p // 2) if p % 2 == 0 else (p - 1, 1))


def power(x: Lanes, p: int, known: dict[int, Lanes]) -> Lanes:
    """``x^p`` for a whole p; the powers on the way stay in `known`."""
    if p == 1:
        return x
    if p not in known:
        a, b = _split(p)
        known[p] = power(x, a, known) * power(x, b, known)
    return known[p]


def power_plus(x: Lanes, quarters: int, total: Lanes) -> Lanes:
    """``total + x^(quarters / 4)``, the last product fused with the sum."""
    p, rest = divmod(quarters, 4)
    known: dict[int, Lanes] = {}
    if rest == 0:
        a, b = _split(p)
        return power(x, a, known).times_plus(power(x, b, known), total)
    root = x.root()
    part = root if rest == 2 else root.root() if rest == 1 else root * root.root()
    return part.times_plus(power(x, p, known), total)


_ONE = 1023 << 52  # the bits of 1.0
_LOW = (1 << 52) - 1  # those of a fraction
_SQRT_HALF = 0x3FE6A09E00000000
_SHIFT = 1.5 * 2.0**52  # added to a small number it rounds it to a whole one, which its low bits then hold


def raised(x: Lanes, p: Any) -> Lanes:
    """``x^p = 2^(p log2 x)`` for x >= 0 and any p >= 1, p a scalar register, to 1e-13 for x from 1e-37 to 1e37.

    What lies beyond 2^1023 comes out as infinite, below 2^-1022 as zero; infinite and NaN stay as they are.
    """
    code = x.code

    def number(value: float) -> Lanes:
        return code.constant(value)

    # x = 2^e m with m between sqrt(1/2) and sqrt(2): counting exponents from sqrt(1/2) on does both at once.
    bits = x.bits().integer("add", _ONE - _SQRT_HALF)
    exponent = bits.integer("lshr", 52).integer("or_", 0x433 << 52).number() - number(2.0**52 + 1023)
    m = bits.integer("and_", _LOW).integer("add", _SQRT_HALF).number()
    # log2 m = 2/ln 2 (t + t^3/3 + t^5/5 + ...) with t = (m - 1)/(m + 1), |t| <= 0.172
    t = (m - number(1.0)) / (m + number(1.0))
    square = t * t
    series = number(1 / 21)
    for odd in range(19, 1, -2):
        series = series.times_plus(square, number(1 / odd))
    # The leading term apart, and the rest on top of it: the error stays a rounding of log2 x.
    scale = number(2 / math.log(2))
    logarithm = exponent + (t * scale + series * square * t * scale)
    y = code.spread(p) * logarithm
    whole = y + number(_SHIFT)
    fraction = y - (whole - number(_SHIFT))
    # 2^fraction = exp(fraction ln 2), |fraction| <= 1/2
    series = number(math.log(2) ** 13 / math.factorial(13))
    for degree in range(12, -1, -1):
        series = series.times_plus(fraction, number(math.log(2) ** degree / math.factorial(degree)))
    answer = series * whole.bits().integer("add", 1023).integer("shl", 52).number()
    answer = (y < number(-1022.0)).choose(number(0.0), answer)
    answer = (y < number(1023.0)).choose(answer, number(math.inf))
    # Denormal x has no exponent to read; at p >= 1 its power is as good as zero.
    answer = (x < number(2.0**-1022)).choose(number(0.0), answer)
    return (x < number(math.inf)).choose(answer, x)
