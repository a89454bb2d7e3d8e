"""`RobustAggregator`: a rule in the place of FLARE's weighted average."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

from nvflare.apis.dxo import from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLMetaKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

from mixtailor._checks import check_f, check_positive, listing, plural, refuse
from mixtailor.engines.claims import MOST_EXAMPLES, check_cap, weighing
from mixtailor.engines.flare.models import Model, result_of, unchanged
from mixtailor.engines.flare.sites import Claims, Collected, Sent, collect, medians
from mixtailor.engines.rehearsal import rehearse
from mixtailor.memory import Memory
from mixtailor.mixing import MixTailor
from mixtailor.mixing.audit import AuditTrail
from mixtailor.mixing.mixtailor import warn_not_robust
from mixtailor.mixing.registry import make_rule
from mixtailor.mixing.sources import trails_of
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.base import Rule
from mixtailor.rules.promises import NEVER, check_tolerates, rows_for

__all__ = ["RobustAggregator", "rule_of"]

_LEAST = 0.01  # of an equal share of the weight: a site with less has no part in the result


@final
class RobustAggregator(ModelAggregator):  # type: ignore[misc]  # nvflare is not installed where types are checked
    r"""Federated learning on FLARE with a rule of ours, whatever some of the sites send.

    .. math:: w \leftarrow w + \mathrm{AGG}(x_1 - w, \ldots, x_n - w)

    Parameters
    ----------
    rule : str
        A rule as the command line has it: ``"recommended"``, ``"nnm >> krum(p=3)"``, ``"mixtailor"``, or one of yours,
        ``"package.module:Nearest"``. Text, since a job is sent to the server as text.
    f : int
        How many of the sites may be Byzantine.
    claims_cap : float, optional
        Sites count by what they claim (``NUM_STEPS_CURRENT_ROUND``, FLARE's weight), and none has more than this part
        of all weight: below 1/(2f). The rule needs a form with weights. Leave it out, and no claim counts.
    most_claimed : float
        A claim above this, below 0 or not a number is a fault, where claims count.
    memory : str, optional
        A file of the server for what it remembers of the sites, with ``rule="recommended"``: read when the job starts
        if it is there, written after every round. It contains a secret.
    audit : str, optional
        A file of the server for the log of draws, of a rule that draws.

    Attributes
    ----------
    last : Aggregation or None
        What happened in the last round; None where no rule was applied.

    Examples
    --------
    One argument of a recipe::

        recipe = FedAvgRecipe(..., aggregator=RobustAggregator("recommended", f=2))

    Notes
    -----
    Sites may send models or differences (``ParamsType``); a site that sends another kind than most is quarantined. So
    is one with a missing or extra array, another shape or kind of numbers, NaN or infinity, an impossible claim, or two
    updates in a round. Its name and the reason are in the server's log. With more than f of them the model stays as it
    was. Arrays of whole numbers and truth values keep their type: the lower median of the sites that are left. Metrics
    are medians over the sites.

    The rule is drawn when the last site has sent its update. Tensors that FLARE has put on the disk
    (``enable_tensor_disk_offload``) are read in ranges and never all at once.
    """

    def __init__(
        self,
        rule: str = "recommended",
        f: int = 1,
        *,
        claims_cap: float | None = None,
        most_claimed: float = MOST_EXAMPLES,
        memory: str | None = None,
        audit: str | None = None,
    ) -> None:
        super().__init__()
        check_f("RobustAggregator", f)
        check_positive("RobustAggregator", "most_claimed", most_claimed)
        # FLARE writes a component into a job by these attributes, which have the names of the arguments.
        self.rule, self.f = rule, f
        self.claims_cap, self.most_claimed, self.memory, self.audit = claims_cap, most_claimed, memory, audit
        self._rule = rule_of("RobustAggregator", rule, f)
        if rows_for(self._rule, f) == NEVER:  # no round would ever change the model
            check_tolerates(self._rule, f, NEVER)
        if claims_cap is not None:
            check_cap("RobustAggregator", "claims_cap", claims_cap, self._rule, f)
        if memory is not None and not isinstance(self._rule, Memory):
            refuse(f"memory= needs a rule that remembers, and {self._rule!r} does not. Give rule='recommended'.")
        if audit is not None and _pool(self._rule) is None:
            refuse(f"audit= needs a rule that draws, and {self._rule!r} does not. Give rule='mixtailor'.")
        self._claims = Claims(claims_cap, most_claimed)
        self.last: Aggregation | None = None
        self._lock = threading.Lock()
        self._model: Model | None = None
        self._params: Any = None
        self._sites: dict[str, list[Sent]] = {}
        self._rehearsed: set[int] = set()
        self._begun = False

    # What FLARE calls.

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Begin and end with the job, and keep the model that sites are sent."""
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.START_RUN:
            self._begin()
        elif event_type == AppEventType.BEFORE_TRAIN_TASK:
            task = fl_ctx.get_prop(AppConstants.TRAIN_SHAREABLE)
            params = None if task is None else from_shareable(task).data
            if params is not None and params is not self._params:  # the same for all sites of a round
                self._model, self._params = Model.of(params), params
        elif event_type == EventType.END_RUN:
            for trail in trails_of(self._rule):
                if not trail.ended:
                    trail.close()

    def accept(self, shareable: Shareable, fl_ctx: FLContext) -> bool:
        """Receive what a site sent; for workflows of shareables, such as ScatterAndGather."""
        self.fl_ctx = fl_ctx
        model = FLModelUtils.from_shareable(shareable, fl_ctx)
        peer = fl_ctx.get_peer_context()  # what FLARE has authenticated, not what the update says of itself
        model.meta = {**(model.meta or {}), "client_name": None if peer is None else peer.get_identity_name()}
        self.accept_model(model)
        return True

    def accept_model(self, model: FLModel) -> None:
        """Receive what a site sent."""
        meta = model.meta or {}
        name = str(meta.get("client_name") or AppConstants.CLIENT_UNKNOWN)
        sent = Sent(model.params, model.params_type, meta.get(FLMetaKey.NUM_STEPS_CURRENT_ROUND), model.metrics)
        with self._lock:
            self._sites.setdefault(name, []).append(sent)

    def aggregate_model(self) -> FLModel:
        """The next model, or the difference to it; the model as it was where too many updates are bad."""
        with self._lock:
            sites, self._sites = self._sites, {}
        self._begin()
        model = self._model
        if model is None:
            refuse("RobustAggregator needs the model that sites were sent, and no training task was sent yet.")
        kinds = Counter(updates[0].kind for updates in sites.values() if len(updates) == 1)  # a site has one say
        differences = kinds[ParamsType.DIFF] > kinds[ParamsType.FULL]
        kind = ParamsType.DIFF if differences else ParamsType.FULL
        collected = collect(sites, model, self._claims, kind)
        self.last, why = self._aggregated(collected, model, differences)
        update = None if self.last is None else self.last.update
        params = None if update is None else result_of(model, update, differences=differences)
        if update is not None and params is None:
            why = "the next one would not be finite."
        if params is None:
            params = unchanged(model, differences=differences)
            self.warning(f"The model stays as it was: {why}")
        self._tell(collected)
        if self.memory is not None and isinstance(self._rule, Memory):
            self._rule.save(self.memory)
        gone = collected.faults if self.last is None else {found.row for found in self.last.quarantined}
        sound = [sent for place, sent in collected.sound.items() if place not in gone]
        return FLModel(params_type=kind, params=params, metrics=medians(sound), meta={})

    def reset_stats(self) -> None:
        """Forget what sites have sent."""
        with self._lock:
            self._sites = {}

    # Our own.

    def _begin(self) -> None:
        """What needs files of the server: not when a job is written, but when it runs."""
        if self._begun:
            return
        self._begun = True
        if self.audit is not None:
            self._rule = _audited(self._rule, self.audit)
            trail = trails_of(self._rule)[0]
            self.info(f"Draws are written to {self.audit}. Publish its commitment now: {trail.commitment}")
        if self.memory is not None:
            assert isinstance(self._rule, Memory)
            try:
                self._rule.load(self.memory)
            except FileNotFoundError:
                self.info(f"There is no memory at {self.memory} yet: it begins with this job.")

    def _aggregated(self, collected: Collected, model: Model, differences: bool) -> tuple[Aggregation | None, str]:
        """What the rule returned; and where it returned nothing, why."""
        rule, n = self._rule, len(collected.names)
        if n < rule.min_rows():
            return None, f"{rule!r} needs at least {rule.min_rows()} sites ({rule.needs()}) and got {n}."
        if rule.tolerates(n) < self.f:
            return None, f"{rule!r} tolerates {rule.tolerates(n)} of {n} sites, and f = {self.f}."
        if not collected.sound:
            return None, f"none of {plural(n, 'update')} is sound."
        if n not in self._rehearsed:
            d = sum(model.kinds[name].size for name in model.floats)
            rehearse(rule, n, d, reference=False, cap=self.claims_cap)
            self._rehearsed.add(n)
        arrival = collected.arrival(model, differences=differences)
        weights = weighing(collected.weights, n, self.claims_cap)
        try:
            result = rule.aggregate(arrival, workers=collected.names, on_fault="skip", **weights)
        except Exception as error:  # the rehearsal went well, so that what sites sent is to blame
            if any(trail.ended for trail in trails_of(rule)):  # the disk of an audit log is not the sites' matter
                raise
            self.exception(f"{rule!r} failed on what sites sent.")
            return None, f"{rule!r} failed on what sites sent ({type(error).__name__})."
        if result.update is None:
            bad = plural(len(result.quarantined), "update is", "updates are")
            return result, f"{bad} bad of {n}, and f = {rule.tolerates(n)}."
        return result, ""

    def _tell(self, collected: Collected) -> None:
        names = collected.names
        found: Mapping[int, str] = collected.faults
        if self.last is not None:
            found = {one.row: one.reason for one in self.last.quarantined}
        for place, reason in sorted(found.items()):
            self.warning(f"{names[place]} is quarantined: {reason}")
        if self.last is not None and self.last.update is not None:
            self.info(f"{self.last.rule!r} on {self.last.n} sites{self._selected(names)}")
        if isinstance(self._rule, Memory) and (suspects := self._rule.suspects()):
            self.warning(f"Sites that stood out in most of their last rounds: {listing(suspects)}")

    def _selected(self, names: Sequence[str]) -> str:
        """Which sites have a part in the result, or which have none, whichever are fewer."""
        if self.last is None or self.last.selected is None:
            return ""
        chosen = set(self.last.selected)
        if self.last.weights is not None:  # what a filter left of a site may be a hundred thousandth
            chosen = {place for place in chosen if self.last.weights[place] * self.last.n > _LEAST}
        without = set(range(self.last.n)) - chosen
        if len(chosen) <= len(without):
            return ", selected " + listing(names[place] for place in sorted(chosen))
        return ", without " + listing(names[place] for place in sorted(without)) if without else ", all of them"


def rule_of(who: str, rule: object, f: int) -> Rule:
    """The rule of a component of FLARE, which has to be text."""
    if not isinstance(rule, str):
        raise TypeError(
            f"{who} needs its rule as text, such as 'nnm >> krum(p=3)', and got {rule!r}. A job is sent to the server "
            "as text; a rule of yours is 'package.module:Name'."
        )
    made = make_rule(rule, f=f)
    warn_not_robust(made)
    return made


def _pool(rule: Rule) -> MixTailor | None:
    """The pool that a rule draws from, where it stands outermost or inside a memory."""
    inner = rule.rule if isinstance(rule, Memory) else rule
    return inner if isinstance(inner, MixTailor) else None


def _audited(rule: Rule, path: str) -> Rule:
    pool = _pool(rule)
    assert pool is not None
    trail = AuditTrail.open(path, pool.rules, pool.probabilities)
    drawn = MixTailor(pool.rules, pool.probabilities, audit=trail, release_after=pool.release_after)
    return replace(rule, rule=drawn) if isinstance(rule, Memory) else drawn
