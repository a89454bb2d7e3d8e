"""`BufferedController`: FLARE without rounds. Sites train when they are free; the server steps when it has enough."""

import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.workflows.model_controller import ModelController

from mixtailor._checks import check_count, check_f, check_positive, listing, refuse, shown
from mixtailor._types import Array
from mixtailor.engines.flare.aggregator import rule_of
from mixtailor.engines.flare.models import Model, parts_of, result_of, whole
from mixtailor.engines.rehearsal import rehearse, why_skipped
from mixtailor.engines.statistics import STATISTICS, by_order, check_statistics, from_order
from mixtailor.memory import Fresh, Inbox, Kept, Memory, RefusedError
from mixtailor.rules.aggregation import Aggregation
from mixtailor.storage.kinds import Unfit, recast

__all__ = ["BufferedController"]

_POLL = 0.2  # seconds to wait for a reply before looking for sites that joined
_GRACE = 30.0  # seconds that sites at work have after the last step: FLARE would end them in the middle of a message
_DOUBLE, _SINGLE = np.dtype(np.float64), np.dtype(np.float32)


@dataclass(frozen=True)
class _Reply:
    site: str
    version: int  # of the model that the site was sent: not what it says itself
    sent: FLModel


@final
class BufferedController(ModelController):  # type: ignore[misc]  # nvflare is not installed where types are checked
    r"""Federated learning on FLARE that does not wait for its slowest site, as FedBuff [1]_, with a rule of ours.

    Every site that is free gets the newest model. Its reply goes into an `Inbox`, as the difference to the model that
    *it* was given. Whenever the inbox has enough updates, its rule makes one step of them.

    Parameters
    ----------
    rule : str
        A rule as the command line has it; text, as of `RobustAggregator`.
    f : int
        How many of the sites may be Byzantine.
    steps : int
        How many steps to take.
    k : int
        How many new updates a step needs.
    uses : {"fresh", "kept"}
        Aggregate the updates that were not used yet (`Fresh`), or the last one of every site (`Kept`).
    oldest, staleness, momentum
        As of an `Inbox`.
    learning_rate : float
        The server's.
    statistics : sequence of str
        Arrays that sites measure and do not learn, by the last part of their names; those of BatchNorm by default. The
        next one is the lower median of what sites sent: sums of differences to older models can make a variance
        negative.
    patience : int
        Seconds after which a site that did not reply, or replied with an error or a broken update, is asked again.
    timeout : float, optional
        Seconds after which training ends in any case.
    persistor_id : str
        FLARE's name of what loads and saves the model.

    Attributes
    ----------
    last : Aggregation or None
        What happened in the last step.
    faults : dict
        How many replies of each site were of no use.

    Examples
    --------
    In the place of a recipe's controller::

        job.to_server(BufferedController("recommended", f=2, k=6, steps=40, oldest=10))

    Notes
    -----
    A reply that is broken, late or replayed is left out, and the site and the reason are in the server's log. One that
    is not finite is quarantined in the step that it would have been used in. With more than f of these, or where the
    rule fails on what sites sent, the model stays as it was for that step. The model is saved after every step. Inbox
    and memory end with the job.

    References
    ----------
    .. [1] Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation", AISTATS 2022.
    """

    def __init__(
        self,
        rule: str = "recommended",
        f: int = 1,
        *,
        steps: int,
        k: int,
        uses: Literal["fresh", "kept"] = "fresh",
        oldest: int | None = None,
        staleness: float = 0.0,
        momentum: float = 0.0,
        learning_rate: float = 1.0,
        statistics: Sequence[str] = STATISTICS,
        patience: int = 600,
        timeout: float | None = None,
        persistor_id: str = AppConstants.DEFAULT_PERSISTOR_ID,
    ) -> None:
        # A site that replies with an error must not end the job.
        super().__init__(persistor_id=persistor_id, ignore_result_error=True)
        check_f("BufferedController", f)
        check_count("BufferedController", "steps", steps)
        check_count("BufferedController", "patience", patience)
        check_positive("BufferedController", "learning_rate", learning_rate)
        check_statistics("BufferedController", statistics)
        if uses not in ("fresh", "kept"):
            refuse(f'BufferedController needs uses="fresh" or "kept" and got {uses!r}.')
        if timeout is not None:
            check_positive("BufferedController", "timeout", timeout)
        # FLARE writes a component into a job by these attributes, which have the names of the arguments.
        self.rule, self.f, self.steps, self.k, self.uses = rule, f, steps, k, uses
        self.oldest, self.staleness, self.momentum, self.learning_rate = oldest, staleness, momentum, learning_rate
        self.statistics, self.patience, self.timeout = list(statistics), patience, timeout
        self._when = Fresh(k) if uses == "fresh" else Kept(k)
        made = rule_of("BufferedController", rule, f)
        if k < made.min_rows() or made.tolerates(k) < f:
            refuse(
                f"{made!r} tolerates {made.tolerates(k) if k >= made.min_rows() else 0} of k = {k} updates "
                f"({made.needs()}), and f = {f}: all Byzantine sites may be among the k. Raise k, or lower f."
            )
        self._inbox = Inbox(made, oldest=oldest, staleness=staleness, momentum=momentum)
        self._arrived: queue.SimpleQueue[_Reply] = queue.SimpleQueue()
        self._asked: dict[str, tuple[int, float]] = {}  # the version that a site computes on, and since when
        self.last: Aggregation | None = None
        self.faults: dict[str, int] = {}

    def run(self) -> None:
        """Train; what FLARE calls."""
        current = self.load_model()
        models = {0: Model.of(current.params, self.statistics)}  # those that sites compute on, and the newest
        self._rehearse(models[0])
        begun = time.monotonic()
        while self._inbox.version < self.steps and not self.abort_signal.triggered:
            if self.timeout is not None and time.monotonic() - begun > self.timeout:
                self.warning(f"Training ends by its timeout, at step {self._inbox.version} of {self.steps}.")
                break
            self._ask(current)
            replies = self._replies()
            for reply in replies:
                self._put(reply, models)
            result = self._inbox.aggregate(self._when, on_fault="skip") if replies else None
            if result is not None:
                self._tell(result)
                current = self._stepped(result, models, current)
                self.save_model(current)
            needed = {version for version, _ in self._asked.values()} | {self._inbox.version}
            models = {version: model for version, model in models.items() if version in needed}
        ended = time.monotonic() + _GRACE
        while self.get_num_standing_tasks() and time.monotonic() < ended and not self.abort_signal.triggered:
            time.sleep(_POLL)
        self.cancel_all_tasks()

    def _rehearse(self, model: Model) -> None:
        """Try the rule on harmless updates: what fails from then on is what sites sent, and does not end the job."""
        rule, d = self._inbox.rule, sum(model.kinds[name].size for name in model.floats)
        rehearse(rule, self.k, d, reference=False)

    def _ask(self, current: FLModel) -> None:
        """Send the newest model to every site that is free and has not replied to it."""
        version, now = self._inbox.version, time.monotonic()
        self._asked = {site: asked for site, asked in self._asked.items() if now - asked[1] < self.patience}
        sites = [client.name for client in self.engine.get_clients()]
        free = [site for site in sites if site not in self._asked and self._inbox.last(site) < version]
        if not free:
            return
        self._asked.update(dict.fromkeys(free, (version, now)))
        task = FLModel(
            params_type=ParamsType.FULL, params=current.params, current_round=version, total_rounds=self.steps
        )

        def replied(sent: FLModel) -> None:  # in a thread of FLARE's
            self._arrived.put(_Reply(str(sent.meta["client_name"]), version, sent))  # the name that FLARE authenticated

        self.send_model(data=task, targets=free, timeout=self.patience, callback=replied)

    def _replies(self) -> list[_Reply]:
        """All replies that are there; a short wait where there is none."""
        found: list[_Reply] = []
        try:
            found.append(self._arrived.get(timeout=_POLL))
            while True:
                found.append(self._arrived.get_nowait())
        except queue.Empty:
            return found

    def _put(self, reply: _Reply, models: dict[int, Model]) -> None:
        """One reply into the inbox; whatever it holds is the site's own matter."""
        try:
            if reply.version not in models:
                raise Unfit("of a model that its site had too long")
            self._inbox.put(reply.site, _difference(reply.sent, models[reply.version]), version=reply.version)
        except RefusedError as error:  # late, and perhaps honest: it gets the newest model at once
            self._asked.pop(reply.site, None)
            why = str(error)
        except Unfit as error:
            why = str(error)
        except Exception as error:  # an update may be broken in ways that nobody has thought of
            why = f"not an update ({type(error).__name__}: {shown(error)[:160]})"
        else:
            self._asked.pop(reply.site, None)
            return
        # A site stays asked, until patience ends: one that sends garbage at once would keep the server busy with it.
        self.faults[reply.site] = self.faults.get(reply.site, 0) + 1
        self.warning(f"The update of {shown(reply.site)} to version {reply.version} is left out: {why}")

    def _stepped(self, result: Aggregation, models: dict[int, Model], current: FLModel) -> FLModel:
        """The next model. Without a finite one, the model as it was."""
        version = self._inbox.version
        model = models[version - 1]
        if result.update is None:
            models[version] = model
            return current
        update = {name: np.asarray(values).reshape(-1) for name, values in result.update.items()}
        update.update({name: self.learning_rate * update[name] for name in model.floats})
        update.update({name: from_order(update[name]) for name in model.statistics})
        params = result_of(model, update, differences=False)
        if params is None:
            self.warning("The model stays as it was: the next one would not be finite.")
            models[version] = model
            return current
        models[version] = Model.of(params, self.statistics)
        return FLModel(params_type=ParamsType.FULL, params=params, meta=current.meta)

    def _tell(self, result: Aggregation) -> None:
        self.last = result
        for found in result.quarantined:
            self.warning(f"{found.worker} is quarantined: {found.reason}")
        if result.update is None:
            self.warning(f"The model stays as it was: {why_skipped(result, 'sites')}")
            return
        stale = max(self._inbox.stale()[str(site)] - 1 for site in result.workers)
        self.info(f"Step {self._inbox.version}: {result.rule!r} on {result.n} updates, at most {stale} versions old")
        if isinstance(self._inbox.rule, Memory) and (suspects := self._inbox.rule.suspects()):
            self.warning(f"Sites that stood out in most of their last updates: {listing(suspects)}")


def _difference(sent: FLModel, model: Model) -> dict[str, Array]:
    """What a site learnt, its counters and its statistics; of a model in half precision, in float32."""
    row = {}
    for name, source in parts_of(sent.params, model).items():
        kind, values = model.kinds[name], whole(source)
        if not kind.discrete:
            dtype = _DOUBLE if kind.dtype == _DOUBLE else _SINGLE
            values, own = recast(values, dtype), recast(model.values[name].reshape(-1), dtype)
            with np.errstate(all="ignore"):  # what is not finite is found when it is aggregated
                if name in model.statistics:
                    values = by_order(own + values if sent.params_type == ParamsType.DIFF else values, str(name))
                elif sent.params_type != ParamsType.DIFF:
                    values = values - own
        row[name] = values.copy() if values.base is not None else values
    return row
