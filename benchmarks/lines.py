"""How many lines are below the rules: before `storage`, `intake` and `updates` were three packages, and now.

    python -m benchmarks.lines

Both sides count whole files, with their docstrings, comments and empty lines. Features that were added since for other
reasons are shown apart, as the lines that their commits added less those that they removed, in the same files.
"""

import subprocess
from pathlib import Path

BEFORE = "7fe7403"  # the last commit before the three packages

# One package, the "engines" inside it, and the files that walked parts, held guards, or had a copy of its mechanisms.
OLD = [
    "updates",
    "cli/_differences.py",
    "cli/_progress.py",
    "engines/distributed/line.py",
    "engines/flower/strategy.py",
    "engines/sources.py",
    "attacks/trials.py",
    "rules/_scores.py",
    "rules/base.py",
    "rules/krum.py",
    "rules/medoid.py",
    "rules/part.py",
    "simulation/training.py",
    "testing/laws.py",
]
# What replaces them: the arithmetic of the "engines" is with the kernels now, and how ranks meet is with the ranks.
NEW = [
    "storage",
    "intake",
    "updates",
    "kernels/columnwise.py",
    "kernels/operations.py",
    "kernels/space.py",
    "kernels/tensors.py",
    "cli/_progress.py",
    "engines/distributed/lane.py",
    "engines/distributed/ranks.py",
    "engines/flower/strategy.py",
    "engines/sources.py",  # until it moved
    "mixing/sources.py",
    "attacks/trials.py",
    "rules/base.py",
    "rules/krum.py",
    "rules/medoid.py",
    "rules/part.py",
    "rules/plain.py",
    "rules/request.py",
    "rules/steps.py",
    "simulation/training.py",
    "testing/laws.py",
]
FEATURES = {
    "weights, caps and shares": ["a41ef68"],
    "weights from distances alone": ["fa59f77"],
    "digests of all that was sent, signed receipts": ["3e08931", "0f5ff8c"],
    "checkpoints without unpickling": ["c83fa25", "9b2756c"],
    "what is read twice is the same bytes": ["d2b95d6"],
    "memory, and attackers who know it": ["c0de0d8", "2ac97ce", "3076122"],
    "types of other libraries, laws": ["b34859a", "5672b57"],
    "names, types and places that a worker chooses": ["e71b9df"],
    "own data, partitions and references in experiments": ["7515e91"],
    "Flower's server optimisers": ["e52e5ee"],
    "a torch optimizer": ["7f80936", "dfdc337"],
    "FLARE, torchft, and folders of adapters": ["7389bd1"],
    "a player of rounds; honest updates in the rule's matrix": ["2c8c6b5", "e944296"],
    "distances between many workers": ["f7211a9"],
    "RobustTailor, costs, Nesterov at the server": ["04b47f7", "64ae9b5"],
    "training without rounds": ["6a8e8f9"],
    "sparse and 8-bit updates, trees and sketches of many workers": ["328c127", "0bbe4cc"],
    "holes, odd names and odd folders; replies that never make a round": ["1946261", "f27060d", "d7de121"],
    "claims as capped weights, scores of 50 rows, memories outside of graphs": ["1961bce", "9e69ac4", "92fa295"],
}


def git(*arguments: str) -> str:
    """What git prints."""
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def paths(names: list[str]) -> list[str]:
    return [f"src/mixtailor/{name}" for name in names]


def before() -> int:
    files = [name for name in git("ls-tree", "-r", "--name-only", BEFORE, *paths(OLD)).split() if name.endswith(".py")]
    return sum(len(git("show", f"{BEFORE}:{name}").splitlines()) for name in files)


def now() -> int:
    files = [name for name in git("ls-files", *paths(NEW)).split() if name.endswith(".py")]
    return sum(len(Path(name).read_text(encoding="utf-8").splitlines()) for name in files)


def added(commits: list[str]) -> int:
    """The lines that commits added to the files that count, less those that they removed."""
    rows = [git("show", "--numstat", "--format=", commit, "--", *paths(NEW)) for commit in commits]
    counts = [line.split("\t")[:2] for text in rows for line in text.splitlines() if line.endswith(".py")]
    return sum(int(plus) - int(minus) for plus, minus in counts)


def main() -> None:
    """Print both sides and the features."""
    old, new = before(), now()
    print(f"{old:6,} lines before\n{new:6,} lines now, of which features that were added since:")
    apart = 0
    for name, commits in FEATURES.items():
        count = added(commits)
        apart += count
        print(f"{count:6,}   {name}")
    print(f"{new - apart:6,} lines now without them: {new - apart - old:+,}")


if __name__ == "__main__":
    main()
