"""Byzantine clients that know everything and act together: in a simulation, where one process holds all replies."""

from collections.abc import Callable, Collection, Iterable
from typing import Any, Literal

import numpy as np
from flwr.app import ArrayRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.superlink.grid import HttpGrid

from mixtailor._checks import check_count, refuse
from mixtailor._types import Array as Values
from mixtailor.attacks import Attack
from mixtailor.engines.flower.arrays import view
from mixtailor.engines.flower.mods import difference, replaced, update_of

__all__ = ["Colluding"]


class Colluding(Grid):
    """A grid on which some clients see the replies of all others before they send theirs. For simulations only.

    Between the clients and the strategy, the replies of the Byzantine clients are replaced by what the attack makes of
    everybody's updates. The strategy knows nothing of it.

    Parameters
    ----------
    grid : Grid
        The grid that the ServerApp was given.
    attack : Attack
        Any attack; one with a target is given the server's rule as such.
    byzantine : int or collection of int
        How many clients are Byzantine, those with the lowest ids, or their ids.
    sends : {"models", "updates"}
        What clients reply with, as in `RobustStrategy`.
    seed : int, optional
        For attacks that use randomness; the operating system's by default.
    reference : callable, optional
        The strategy's, for attacks that try a rule with something to trust.

    Examples
    --------
    In a ServerApp: ``strategy.start(Colluding(grid, Tailored(epsilon=0.1), byzantine=2), initial_arrays=model)``.

    Notes
    -----
    Replies that are errors, or that the attack cannot read, are left as they are. Where a round has too few honest
    replies for the attack, or too few Byzantine ones, they are sent as they are.
    """

    def __init__(
        self,
        grid: Grid,
        attack: Attack,
        byzantine: int | Collection[int],
        *,
        sends: Literal["models", "updates"] = "models",
        seed: int | None = None,
        reference: Callable[[int, ArrayRecord], ArrayRecord] | None = None,
    ) -> None:
        if isinstance(grid, HttpGrid):
            refuse(
                "Colluding is for simulations, where one process holds all replies, and this grid belongs to a "
                "deployment. There, use byzantine_mod on the clients."
            )
        if not isinstance(attack, Attack):
            raise TypeError(f"Colluding needs an attack of mixtailor.attacks and got {type(attack).__name__}.")
        if isinstance(byzantine, int):
            check_count("Colluding", "byzantine", byzantine, 0)
        self.grid, self.attack, self.byzantine, self.sends = grid, attack, byzantine, sends
        self.reference = reference
        self.rng = np.random.default_rng(seed)
        self.memory: Any = attack.begin()
        self._last: dict[str, Values] | None = None

    def byzantine_nodes(self) -> frozenset[int]:
        """The ids of the Byzantine clients."""
        if isinstance(self.byzantine, int):
            self.byzantine = tuple(sorted(self.grid.get_node_ids())[: self.byzantine])
        return frozenset(self.byzantine)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages and wait for replies; those of Byzantine clients to a training message are replaced."""
        sent = list(messages)
        byzantine_nodes = self.byzantine_nodes()
        replies = list(self.grid.send_and_receive(sent, timeout=timeout))
        training = {m.metadata.dst_node_id: m for m in sent if m.metadata.message_type == MessageType.TRAIN}
        if training:
            self._observe(next(iter(training.values())))
            self._attack(training, replies, byzantine_nodes)
        return replies

    def _observe(self, message: Message) -> None:
        """The server's last result is what the model has moved by, which every client sees."""
        record = next(iter(message.content.array_records.values()))
        model = {name: view(array) for name, array in record.items()}
        observe = getattr(self.memory, "observe", None)
        if observe is not None and self._last is not None and model.keys() == self._last.keys():
            observe({n: v - self._last[n] if v.dtype.kind == "f" else v for n, v in model.items()})
        self._last = model

    def _attack(self, sent: dict[int, Message], replies: list[Message], byzantine_nodes: frozenset[int]) -> None:
        honest, own, wrong = [], [], []
        for reply in replies:
            message = sent.get(reply.metadata.src_node_id)
            update = None if message is None else _readable(message, reply, self.sends)
            if message is None or update is None:
                continue
            if reply.metadata.src_node_id in byzantine_nodes:
                own.append(update)
                wrong.append((message, reply))
            else:
                honest.append(update)
        f = len(own) if self.attack.alone else min(len(own), len(honest) - 1)
        if f < max(1, self.attack.least_f()):
            return
        reference = self._reference(wrong[0][0])
        rows = self.attack(honest, f, own=own[:f], state=self.memory, rng=self.rng, reference=reference)
        for place, (message, reply) in enumerate(wrong):
            replaced(message, reply, rows[min(place, f - 1)], self.sends)

    def _reference(self, message: Message) -> dict[str, Values] | None:
        """What the strategy's rule trusts in this round, as an update."""
        if self.reference is None:
            return None
        model = next(iter(message.content.array_records.values()))
        config = next(iter(message.content.config_records.values()))
        server_round = int(config["server-round"])  # type: ignore[arg-type]  # the strategy's, an int
        return difference(model, self.reference(server_round, model), self.sends)

    # Everything else is the grid's.

    def set_run(self, run: Run) -> None:
        """Set the run of the grid behind."""
        self.grid.set_run(run)

    @property
    def run(self) -> Run:
        """The run of the grid behind."""
        return self.grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Create a message on the grid behind."""
        return self.grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """The ids of all clients."""
        return self.grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Push messages to the grid behind; replies pulled one by one are not attacked."""
        return self.grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pull messages from the grid behind, as they are."""
        return self.grid.pull_messages(message_ids)


def _readable(message: Message, reply: Message, sends: str) -> dict[str, Values] | None:
    """The update in a reply; None where it holds none that an attack could compute with."""
    if not reply.has_content() or len(reply.content.array_records) != 1:
        return None
    model = next(iter(message.content.array_records.values()))
    try:
        update = update_of(message, reply, sends)
        alike = {n: v.shape for n, v in update.items()} == {n: view(array).shape for n, array in model.items()}
    except (TypeError, ValueError, KeyError):  # broken by a mod of its own
        return None
    return update if alike and all(np.isfinite(values).all() for values in update.values()) else None
