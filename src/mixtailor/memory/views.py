"""Views of the workers: matrices of inner products that a rule can decide from."""

import numpy as np

from mixtailor._types import Floats
from mixtailor.kernels.selection import median
from mixtailor.kernels.weighted import median_of, reach
from mixtailor.rules._neighbours import median_distances
from mixtailor.rules._spectra import largest_spreads

__all__ = ["copies", "effective_rounds", "embedded", "together", "view_of", "widest"]

# Updates whose squared distance is below this share of the usual one are taken for copies. Chosen on digits, seeds 0 to
# 2: at 0.4, honest updates are among them. An update halfway between two others has 0.25 to both.
_NEAR = 0.25
# How much of its own length a worker loses in the view of who moves with whom. Chosen on digits, seeds 0 to 4. With 0.7
# attacks that begin late are seen later; with 0.95 quiet copies get more than their share.
_OWN = 0.85
_WIDEST = 1000  # an exponent whose power of two is a number, and so is that power's inverse


def view_of(sketches: Floats, mass: Floats | None = None) -> Floats:
    """Inner products about the mean, with the median squared length as the unit, and nobody quieter than that.

    With a mass for each worker, mean and median are by mass. Several views are made at once, (..., n, size) to
    (..., n, n).

    A diagonal entry below the median is raised to it, as if noise of its own had been added to that worker. Otherwise a
    few identical updates close to the mean would have the least spread of all subsets, and take all the weight.

    Examples
    --------
    >>> view_of(np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).round(2)
    array([[ 1.6, -1.6,  0. ,  0. ],
           [-1.6,  1.6,  0. ,  0. ],
           [ 0. ,  0. ,  1. , -0.4],
           [ 0. ,  0. , -0.4,  1. ]])
    """
    # By a power of two, which rounds nothing: the squares of 1e200 would overflow, and those of 1e-200 vanish.
    _, exponent = np.frexp(np.abs(sketches).max(axis=(-2, -1), initial=0.0))
    small = sketches * np.ldexp(1.0, -np.clip(exponent, -_WIDEST, _WIDEST))[..., None, None]
    small -= small.mean(axis=-2, keepdims=True) if mass is None else (mass @ small / mass.sum())[..., None, :]
    products: Floats = small @ small.swapaxes(-1, -2)
    diagonal = np.einsum("...ii->...i", products)
    lengths = diagonal.reshape(-1, products.shape[-1])
    units = [median(own) if mass is None else median_of(own, mass) for own in lengths]
    # Where half of the workers are at the mean, those that are not stand out without limit.
    unit = np.array([u if u > 0.0 else own.max() or 1.0 for u, own in zip(units, lengths, strict=True)])
    products /= unit.reshape(products.shape[:-2])[..., None, None]
    diagonal += np.maximum(0.0, 1.0 - diagonal)
    return products


def together(signed: Floats, rounds: float, mass: Floats | None = None) -> Floats:
    """The view of who moves with whom, from running means with random signs of what is new in the deviations.

    Signs that are drawn for each round and each number of a sketch make the inner products of two such means those of
    the deviations, round by round, and summed over the rounds: what two workers do alike adds up, though its direction
    changes from round to round. Between workers that do not know of each other they average out. A worker's own length
    does not, and says nothing of the others: most of it is left out, the more the more rounds there were.

    Examples
    --------
    Two of four workers moved alike for many rounds.

    >>> together(np.array([[0.0, 2.0, 0.0], [0.0, 2.0, 0.0], [2.0, -1.0, 0.0], [-2.0, -1.0, 0.0]]), 100.0).round(1)
    array([[ 0.2,  0.5, -0.5, -0.5],
           [ 0.5,  0.2, -0.5, -0.5],
           [-0.5, -0.5,  0.6, -0.4],
           [-0.5, -0.5, -0.4,  0.6]])
    """
    view = view_of(signed, mass)
    diagonal = np.einsum("...ii->...i", view)
    diagonal -= _OWN * (1.0 - 1.0 / rounds)
    return view


def effective_rounds(decay: float, rounds: float) -> float:
    """Of how many rounds with equal weights a running mean over so many rounds has the noise.

    Examples
    --------
    >>> round(effective_rounds(0.99, 1)), round(effective_rounds(0.99, 100)), round(effective_rounds(0.99, 10_000))
    (1, 92, 199)
    """
    left: float = decay**rounds
    return (1.0 + decay) / (1.0 - decay) * (1.0 - left) / (1.0 + left)


def widest(views: Floats, mass: Floats | None = None) -> Floats:
    """The view in which workers spread most.

    Examples
    --------
    Two workers stick out in the second view, nobody in the first.

    >>> noise = np.eye(6)
    >>> steady = noise + 9.0 * np.outer([1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0])
    >>> bool((widest(np.stack([noise, steady])) == steady).all())
    True
    """
    mass = np.ones(views.shape[-1]) if mass is None else mass
    spreads = largest_spreads(views, mass)
    found: Floats = views[int(np.argmax(spreads))]
    return found


def copies(sketches: Floats, mass: Floats | None = None) -> Floats:
    """How many workers sent nearly the same update as each, itself included.

    Honest updates of one round differ by their workers' data. What is much closer together than is usual among all was
    not computed by workers that do not know of each other.

    Examples
    --------
    >>> copies(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.1, 0.0], [0.1, 0.0]]))
    array([1., 1., 1., 2., 2.])
    """
    _, exponent = np.frexp(np.abs(sketches).max(initial=0.0))
    small = np.ldexp(sketches, -exponent)
    centred = small - small.mean(axis=0)
    lengths = (centred**2).sum(axis=1)
    squares = np.maximum(lengths[:, None] + lengths[None, :] - 2.0 * (centred @ centred.T), 0.0)
    np.fill_diagonal(squares, 0.0)
    if mass is None:
        usual = np.sort(median_distances(squares))[len(squares) // 2]
    else:
        usual = reach(reach(squares, mass)[None], mass)[0]
    near = squares < _NEAR * usual
    np.fill_diagonal(near, True)
    counts: Floats = near.sum(axis=1).astype(np.float64)
    return counts


def embedded(view: Floats) -> Floats:
    """Points whose inner products are a view: n rows of n coordinates, for rules that see distances."""
    values, vectors = np.linalg.eigh(view)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
