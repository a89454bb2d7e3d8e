"""`RobustStrategy`: a rule in the place of Flower's weighted average."""

import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, NoReturn, Protocol

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result
from flwr.serverapp.strategy.strategy_utils import sample_nodes

from mixtailor._checks import check_count, check_fraction, check_positive, listing, plural, refuse
from mixtailor.engines.claims import MOST_EXAMPLES, check_cap, weighing
from mixtailor.engines.flower.arrays import Model, shown
from mixtailor.engines.flower.metrics import medians, scalars
from mixtailor.engines.flower.optimizers import Momentum, ServerOptimizer, Stepper
from mixtailor.engines.flower.refusals import refuse_mixing, refuse_older, refuse_seeds, refuse_sums, refuse_wrapper
from mixtailor.engines.flower.replies import Claims, Collected, by_client, check_reference, collect, readable
from mixtailor.engines.flower.sampling import warn_of_sampling
from mixtailor.engines.rehearsal import rehearse
from mixtailor.engines.statistics import STATISTICS, check_statistics
from mixtailor.mixing import MixTailor
from mixtailor.mixing.entropy import SeededEntropy
from mixtailor.mixing.mixtailor import warn_not_robust
from mixtailor.mixing.sources import source_of, trails_of
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.part import walk
from mixtailor.rules.plain import as_rule
from mixtailor.rules.promises import NEVER, check_tolerates, formula_of, rows_for

__all__ = ["RobustStrategy", "Tracker"]

# A child of Flower's own logger, so that its handlers and its log upload apply.
_log = logging.getLogger("flwr.mixtailor")


class Tracker(Protocol):
    """Something that draws numbers over rounds."""

    def log(self, step: int, values: Mapping[str, float]) -> object: ...


class RobustStrategy(FedAvg):
    r"""Federated learning with a rule of ours, whatever some of the clients reply.

    .. math:: v \leftarrow \mu v + \mathrm{AGG}(x_1 - w, \ldots, x_n - w), \qquad w \leftarrow w + \eta v

    or, with a server optimiser, the step that it makes of AGG.

    Parameters
    ----------
    rule : rule or callable
        Any rule, pre-aggregation before a rule, MixTailor, or callable from an (n, d) matrix to a d-vector.
    sends : {"models", "updates"}
        What clients reply with: their model after training, or its difference to the model they got.
    learning_rate, momentum : float
        The server's :math:`\eta` and :math:`\mu`; 1 and 0 by default.
    server_optimizer : ServerOptimizer, optional
        `Adam`, `Yogi` or `Adagrad` in the place of `learning_rate` and `momentum`, as FedOpt has them.
    statistics : collection of str
        Arrays that clients measure and do not learn, by the last part of their names; those of BatchNorm by default.
        They move by the rule's result itself, whatever the server's optimiser: a longer step can make a variance
        negative.
    dropouts : int
        How many clients of a round may fall silent or send an error without counting among the f.
    byzantine : int, optional
        How many of all connected clients may be Byzantine; by default the share that f is of the sample. Where a
        round samples some of them, it is for the warning. Where it asks all, more than the rule tolerates is refused:
        a round waits for enough clients, and one with too few leaves the model as it was.
    examples_cap : float, optional
        Clients count by the number of examples that they claim, and none has more than this part of all weight: below
        1/(2f). The rule needs a form with weights. A Byzantine client claims what helps it: by default, claims do not
        count.
    most_examples : float
        A claim above this, below 0 or not a number is a fault, whether or not claims count.
    reference : callable, optional
        ``(server_round, model) -> ArrayRecord``: what an honest client would reply with, from data of the server's own,
        for rules that need something to trust.
    run_config : mapping, optional
        The app's `context.run_config`. All clients can read it, so a seed in it is refused.
    public_seeds : collection of str
        Keys of seeds that may be known to everybody, such as that of the data's partition.
    tracker : Tracker, optional
        Gets the numbers of every round by ``log(step, values)``; a `mixtailor.trackers.Journal` gets the rounds too.
    **options
        Everything that Flower's FedAvg takes. A round waits for as many clients as the rule needs, and for `dropouts`
        more, by default.

    Notes
    -----
    A reply with a missing or extra array, another shape or kind of numbers, an unknown array type, NaN or infinity, an
    impossible claim of examples, an empty reply, an error or no reply in time quarantines the client, which is named in
    the log and in the metrics. More than f of them, and the model stays as it was. Arrays of whole numbers and truth
    values keep their type: the lower median of the clients that are left. Whatever clients send, the run continues: a
    rule that fails on it leaves the model as it was. The rule is tried on harmless updates before the first model is
    sent, so that mistakes of the server's own are raised there.

    Flower's wrappers for differential privacy, secure aggregation, and classes made of this one and of another strategy
    of Flower are refused.

    Clients are sampled, and rules drawn, from the operating system's randomness; the draw happens when the replies are
    in. Client metrics are medians over the clients, unless `train_metrics_aggr_fn` or `evaluate_metrics_aggr_fn` say
    otherwise.

    Metrics of a round: ``mixtailor-rule``, the place of the drawn rule in its pool (0 for a rule alone, -1 where no
    rule was applied); ``mixtailor-selected``, ``mixtailor-quarantined`` and ``mixtailor-absent``, node ids;
    ``mixtailor-received``; ``mixtailor-skipped``; ``mixtailor-fallback``, 1 where the search of `SMEA` or `MDA` spent
    its budget and the neighbourhood's mean was returned; and with an audit trail, ``mixtailor-audit-round``.
    """

    def __init__(
        self,
        rule: Any,
        *,
        sends: Literal["models", "updates"] = "models",
        learning_rate: float = 1.0,
        momentum: float = 0.0,
        server_optimizer: ServerOptimizer | None = None,
        statistics: Collection[str] = STATISTICS,
        dropouts: int = 0,
        byzantine: int | None = None,
        examples_cap: float | None = None,
        most_examples: float = MOST_EXAMPLES,
        reference: Callable[[int, ArrayRecord], ArrayRecord] | None = None,
        run_config: Mapping[str, Any] | None = None,
        public_seeds: Collection[str] = (),
        tracker: Tracker | None = None,
        **options: Any,
    ) -> None:
        name = type(self).__name__
        if sends not in ("models", "updates"):
            refuse(f"{name} needs sends='models' or 'updates', what clients reply with, and got {sends!r}.")
        check_positive(name, "learning_rate", learning_rate)
        check_fraction(name, "momentum", momentum)
        check_count(name, "dropouts", dropouts, 0)
        check_positive(name, "most_examples", most_examples)
        check_statistics(name, statistics)
        if byzantine is not None:
            check_count(name, "byzantine", byzantine, 0)
        if server_optimizer is not None and not isinstance(server_optimizer, ServerOptimizer):
            refuse(f"{name} needs server_optimizer as Adam(), Yogi() or Adagrad() and got {server_optimizer!r}.")
        if server_optimizer is not None and (learning_rate, momentum) != (1.0, 0.0):
            refuse(f"{name} takes learning_rate and momentum or server_optimizer, not both: an optimiser has its own.")
        self.rule = as_rule(rule)
        if examples_cap is not None:
            check_cap(name, "examples_cap", examples_cap, self.rule, self.rule.declared_f() or byzantine or 0)
        warn_not_robust(self.rule)
        least = self.rule.min_rows()
        if byzantine is not None and options.get("fraction_train", 1.0) >= 1.0:
            least = max(least, rows_for(self.rule, byzantine))
            if least == NEVER:
                check_tolerates(self.rule, byzantine, least)
        nodes = options.get("min_train_nodes")
        if nodes is not None and nodes < least and options.get("fraction_train", 1.0) > 0.0:
            f = "" if byzantine is None else f", to tolerate byzantine = {byzantine}"
            formula = self.rule.needs() if least == self.rule.min_rows() else formula_of(least, byzantine or 0)
            refuse(
                f"{name} needs min_train_nodes >= {least}, the replies that {self.rule!r} needs ({formula}){f}, and "
                f"got {nodes}. Raise it, leave it out, or lower f."
            )
        # The pool of a MixTailor does not shrink when clients stay silent, so a round waits for those who may, too.
        least = max(2, least + dropouts)
        waits = {"min_train_nodes": least, "min_available_nodes": least}
        metrics = {"train_metrics_aggr_fn": medians, "evaluate_metrics_aggr_fn": medians}
        super().__init__(**{**waits, **metrics, **options})
        self.sends = sends
        optimizer = server_optimizer or Momentum(learning_rate=learning_rate, momentum=momentum)
        self.steps = Stepper(optimizer, statistics)
        self.dropouts, self.byzantine, self.reference, self.tracker = dropouts, byzantine, reference, tracker
        self.claims = Claims(self.weighted_by_key, examples_cap, most_examples)
        self.public_seeds = frozenset(public_seeds)
        self._model: Model | None = None
        self._asked: list[Message] = []
        self._evaluated: list[Message] = []
        self._warned: set[tuple[int, int]] = set()
        self._rehearsed: set[tuple[int, int]] = set()
        refuse_seeds(run_config or {}, "run_config", self.public_seeds)
        for part in walk(self.rule):
            if isinstance(part, MixTailor) and part.audit is not None:
                part.audit.check(part.rules, part.probabilities)
        if isinstance(source_of(self.rule), SeededEntropy):
            _log.warning("The rule draws from a seed, which is for experiments only: who knows it knows every draw.")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        refuse_mixing(cls, RobustStrategy)

    def configure_fit(self, *_given: Any, **_options: Any) -> NoReturn:
        """Refused: what Flower's older workflows call, SecAgg+ among them."""
        refuse_sums(type(self).__name__)

    def initialize_parameters(self, *_given: Any, **_options: Any) -> NoReturn:
        """Refused: what Flower's older interface, `server_fn`, calls first."""
        refuse_older(type(self).__name__)

    def summary(self) -> None:
        """Log the settings."""
        _log.info("\t├──> mixtailor: %r, clients send %s", self.rule, self.sends)
        _log.info("\t│\t└── server: %r", self.steps.optimizer)
        super().summary()

    # A round: what goes out.

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Remember the model, and ask clients to train it."""
        refuse_wrapper(self)
        if self.fraction_train == 0.0:
            return []
        refuse_seeds(config, "the configuration that clients are sent", self.public_seeds)
        given = getattr(getattr(grid, "run", None), "override_config", None) or {}
        refuse_seeds(given, "run_config", self.public_seeds)
        model = Model.of(arrays)
        known = {name: own.shape for name, own in self._model.arrays.items()} if self._model is not None else None
        if known != {name: own.shape for name, own in model.arrays.items()}:
            self.steps.forget()
        self._model = model
        wanted = max(int(len(list(grid.get_node_ids())) * self.fraction_train), self.min_train_nodes)
        # With a sample size of 0, Flower's function waits for enough clients and returns who they are. The sample is
        # ours: Flower's comes from a generator that programs seed.
        _, connected = sample_nodes(grid, max(self.min_available_nodes, wanted), 0)
        nodes = secrets.SystemRandom().sample(connected, wanted)
        _log.info("configure_train: sampled %d of %d clients", wanted, len(connected))
        if wanted < len(connected) and (len(connected), wanted) not in self._warned:
            self._warned.add((len(connected), wanted))
            warn_of_sampling(self.rule, self.byzantine, len(connected), wanted)
        d = sum(model.arrays[name].size for name in model.floats)
        if (wanted, d) not in self._rehearsed:
            rehearse(self.rule, wanted, d, reference=self.reference is not None, cap=self.claims.cap)
            self._rehearsed.add((wanted, d))
        config["server-round"] = server_round
        for trail in trails_of(self.rule):
            trail.expect(str(node) for node in nodes)
            config["mixtailor-audit-head"] = trail.head  # with it, a client can show who was expected
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        self._asked = list(self._construct_messages(record, nodes, MessageType.TRAIN))
        return self._asked

    # A round: what comes in.

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The next model: the rule's result, or the model as it was where too many replies are bad."""
        if self.fraction_train == 0.0:
            return None, None
        if self._model is None:
            refuse("aggregate_train needs the model that configure_train sent, and nothing was sent yet.")
        collected = collect(replies, self._asked, self._model, self.claims, dropouts=self.dropouts)
        for stranger in collected.strangers:
            _log.warning("Round %d: a reply that no asked client sent is left out (node %s).", server_round, stranger)
        result, why = self._aggregated(server_round, collected)
        record = None
        if result is not None and result.update is not None:
            if self.steps.stepped(self._model, result.update):
                record = self._model.with_values(result.update)
            else:
                why = "the next one would not be finite."
        if record is None:
            _log.warning("Round %d: the model stays as it was: %s", server_round, why)
        metrics = self._metrics(collected, result, skipped=record is None)
        self._tell(server_round, collected, result)
        self._journal(server_round, collected, result)
        self._track(server_round, scalars(metrics, "train/"))
        return (self._model.record if record is None else record), metrics

    def _aggregated(self, server_round: int, collected: Collected) -> tuple[Aggregation | None, str]:
        """The result of the rule, or None and the reason."""
        model = self._model
        assert model is not None
        n, rule = len(collected.nodes), self.rule
        if n < rule.min_rows():
            return None, f"{rule!r} needs at least {rule.min_rows()} replies ({rule.needs()}) and got {n}."
        if self.byzantine is not None and self.fraction_train >= 1.0 and self.byzantine > rule.tolerates(n):
            return None, f"{rule!r} tolerates {rule.tolerates(n)} of {n} clients, and byzantine = {self.byzantine}."
        if not collected.rows:
            return None, f"none of {plural(n, 'reply', 'replies')} is sound."
        reference = None if self.reference is None else self.reference(server_round, model.record)
        if reference is not None:
            check_reference(reference, model)
        arrival = collected.arrival(model, models=self.sends == "models")
        weights = weighing(collected.weights, n, self.claims.cap)
        names = [str(node) for node in collected.nodes]
        try:
            result = rule.aggregate(arrival, workers=names, reference=reference, on_fault="skip", **weights)
        except Exception as error:  # the rehearsal went well, so that what clients sent is to blame
            if any(trail.ended for trail in trails_of(rule)):  # the disk of an audit log is not the clients' matter
                raise
            _log.warning("Round %d: the rule failed on what clients sent.", server_round, exc_info=True)
            return None, f"{rule!r} failed on what clients sent ({type(error).__name__}: {shown(error)})."
        if result.update is None:
            bad = plural(len(result.quarantined), "reply is", "replies are")
            return result, f"{bad} bad of {n}, and f = {rule.tolerates(n)}."
        return result, ""

    # What is reported.

    def _metrics(self, collected: Collected, result: Aggregation | None, *, skipped: bool) -> MetricRecord:
        gone = self._quarantined(collected, result)
        sound = [content for place, content in collected.contents.items() if place not in gone]
        metrics = self._client_metrics(sound, self.train_metrics_aggr_fn) or MetricRecord()
        facts = {} if result is None else result.facts
        chosen = () if result is None or result.selected is None else result.selected
        place = facts.get("place", -1 if skipped else 0)
        metrics["mixtailor-rule"] = int(place) if isinstance(place, int) else -1
        metrics["mixtailor-received"] = len(collected.nodes) - len(set(collected.absent) & set(collected.nodes))
        metrics["mixtailor-selected"] = [collected.nodes[row] for row in chosen]
        metrics["mixtailor-quarantined"] = [collected.nodes[row] for row in sorted(gone)]
        metrics["mixtailor-absent"] = list(collected.absent)
        metrics["mixtailor-skipped"] = int(skipped)
        metrics["mixtailor-fallback"] = int(bool(facts.get("fallback")))
        if isinstance(facts.get("round"), int):
            metrics["mixtailor-audit-round"] = facts["round"]  # type: ignore[assignment]  # an int, as just seen
        return metrics

    def _quarantined(self, collected: Collected, result: Aggregation | None) -> dict[int, str]:
        if result is None:
            return collected.faults
        return {found.row: found.reason for found in result.quarantined}

    def _client_metrics(
        self, contents: list[RecordDict], aggregate: Callable[[list[RecordDict], str], MetricRecord]
    ) -> MetricRecord | None:
        if not contents:
            return None
        try:
            return aggregate(contents, self.weighted_by_key)
        except Exception as error:  # a function of the user's may trip over what a client sent
            _log.warning("The metrics of clients could not be aggregated (%s: %s).", type(error).__name__, error)
            return None

    def _tell(self, server_round: int, collected: Collected, result: Aggregation | None) -> None:
        for row, reason in sorted(self._quarantined(collected, result).items()):
            _log.warning("Round %d: node %d is quarantined: %s", server_round, collected.nodes[row], reason)
        if collected.excused:
            _log.info("Round %d: excused without a reply: nodes %s", server_round, listing(collected.excused))
        if result is not None and result.update is not None:
            chosen = [collected.nodes[row] for row in result.selected or ()]
            more = f", selected nodes {listing(chosen)}" if chosen else ""
            _log.info("Round %d: %r on %d clients%s", server_round, result.rule, result.n, more)
            if result.facts.get("fallback"):
                _log.warning("Round %d: the search spent its budget; the neighbourhood's mean was used.", server_round)

    def _track(self, step: int, values: Mapping[str, float]) -> None:
        if self.tracker is not None:
            _guarded("tracker", self.tracker.log, step, values)

    def _journal(self, server_round: int, collected: Collected, result: Aggregation | None) -> None:
        """A tracker that keeps a journal of rounds, such as `mixtailor.trackers.Journal`, gets this one."""
        keep = getattr(self.tracker, "round", None)
        if keep is not None:
            names, absent = [str(node) for node in collected.nodes], [str(node) for node in collected.absent]
            gone = {names[row]: why for row, why in sorted(self._quarantined(collected, result).items())}
            _guarded("journal", keep, server_round, result, workers=names, quarantined=gone, absent=absent)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask clients to evaluate the model, and remember who was asked."""
        self._evaluated = list(super().configure_evaluate(server_round, arrays, config, grid))
        return self._evaluated

    # Evaluation.

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The metrics of the clients that sent some; a client has one say, and only if it was asked."""
        by_node, strangers = by_client(replies, self._evaluated)
        for stranger in strangers:
            _log.warning("Round %d: metrics that no asked client sent are left out (node %s).", server_round, stranger)
        contents = [sent[0].content for sent in by_node.values() if len(sent) == 1 and readable(sent[0])]
        metrics = self._client_metrics(contents, self.evaluate_metrics_aggr_fn)
        if metrics is not None:
            self._track(server_round, scalars(metrics, "evaluate/"))
        return metrics

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run the rounds, as every strategy of Flower does; the tracker gets what `evaluate_fn` finds, too."""

        def tracked(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            assert evaluate_fn is not None
            metrics = evaluate_fn(server_round, arrays)
            if metrics is not None:
                self._track(server_round, scalars(metrics, "server/"))
            return metrics

        wrapped = None if evaluate_fn is None else tracked
        return super().start(grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config, wrapped)


def _guarded(what: str, call: Callable[..., object], *given: Any, **options: Any) -> None:
    """Numbers that clients sent, or a full disk, must not stop the training."""
    try:
        call(*given, **options)
    except Exception as error:
        _log.warning("The %s failed (%s: %s).", what, type(error).__name__, shown(error))
