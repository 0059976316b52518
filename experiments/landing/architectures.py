"""One table of all architectures: what each carries, what it forgets, what it costs, and what says so.

Rows and cells are declared here. A word such as "exponential" stands there for as long as the part of a claim behind
it says so; a number is read off a record, or computed when the table is made.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping

from experiments.landing.cells import (
    AGREES,
    Cell,
    Evidence,
    Judged,
    Plain,
    Told,
    Trained,
    by_outcome,
    counting_evidence,
    record_of,
    trainings,
)
from experiments.landing.measures import (
    ARCHITECTURES,
    GAUSSIANS,
    LONG,
    captured_shares,
    full_at,
    gradient_reach,
    growth_rate,
    model,
    recalled_shares,
    shares_with_positions,
    token_cost,
)
from experiments.landing.page import Sources, Table
from lib.report import scorecard
from lib.report.page import show_on_page
from lib.report.records import Record
from lib.theory import history_state_size

NOT_ASKED = Plain("not asked here")
CAPTURED, FACTS = "notebooks/bipartite/captured_information", "notebooks/bipartite/recall"
BINARY = ("binary_sequences", "binary-plateau")
Cells = Mapping[str, tuple[Cell, ...]]


def _growth(name: str) -> str:
    first, last, rate = history_state_size(model(name), 1), history_state_size(model(name), LONG), growth_rate(name)
    if rate == 0:
        return f"{'constant' if first == last else 'constant once full'}: {last:,}{' tokens' * (name == 'ngram')}"
    last -= history_state_size(model(name), LONG - 1)
    return f"linear: {last:,} per token" if abs(rate - 1) < 0.01 else f"as the power {rate:.2f} of the length"


def _full(name: str) -> str:
    length = full_at(name)
    return f"about {float(f'{length:.2g}'):,.0f}" if math.isfinite(length) else "never"


def _cost(name: str) -> str:
    fixed, slope = token_cost(name)
    if not slope:
        return f"{fixed:,}" if fixed else "0: a table is looked up"
    return f"{fixed:,} + {slope:,} ℓ"


def _shares(by_length: Mapping[int, list[float]]) -> str:
    ends = sorted({min(by_length), max(by_length)})
    return "; ".join(f"{_percent(by_length[end])} at L\u00a0=\u00a0{end:,}" for end in ends)


def _percent(shares: Collection[float]) -> str:
    """Smallest to largest of them; one decimal below ten per cent."""
    ends = [f"{100 * share:.{int(share < 0.095)}f}" for share in (min(shares), max(shares))]
    return f"{' to '.join(dict.fromkeys(ends))}\u00a0%"


def _computed(say: Callable[[str], str], parts: Mapping[str, tuple[str, str]], outcomes: tuple[str, ...]) -> Cells:
    """A column of computed texts, each with the part of a claim that checks the same where there is one."""

    def cell(name: str) -> Cell:
        text = say(name)
        return (
            Judged(*parts[name], dict.fromkeys(outcomes, text)) if name in parts else Plain(text, "book/architectures")
        )

    return {name: (cell(name),) for name in ARCHITECTURES}


def growth() -> Cells:
    """Growth of the history state with the length of the text."""
    part = {name: ("l2m-thm54", f"states that {word}") for name, word in _GROWS.items()}
    return _computed(_growth, part | {"rel_rnn": ("kerg-screening", "the state does not grow")}, AGREES)


_GROWS = dict.fromkeys(("rnn", "lstm", "sliding_window", "linear_attention", "mamba", "mamba2"), "do not grow")
_GROWS["transformer"] = "grow with the text"


def full() -> Cells:
    """Length of the text at which books would fill the state."""
    part = ("l2m-bp-law", "direct: exponent of PG19")
    return _computed(_full, dict.fromkeys(ARCHITECTURES, part), (*AGREES, "differs", "undecided"))


def decay_in_theory() -> Cells:
    """How the two-point information of what it writes decays, derived."""

    def beyond(what: str) -> Told:
        return lambda record: f"exponential beyond its {what}"

    finite, slower = "shen-finite-memory", "slower than exponential"
    said: dict[str, tuple[Cell, ...]] = {
        "rnn": (
            Judged(
                "shen-linear-decay",
                "decades of exponential decay",
                by_outcome("exponential, of a stable linear RNN", slower),
            ),
        ),
        "transformer": (Judged(finite, "rate, Transformer", by_outcome("exponential far beyond its window", slower)),),
        "sliding_window": (Judged(finite, "rate, Transformer", by_outcome(beyond("reach"), slower)),),
        "ngram": (Judged(finite, "rate, n-gram model", by_outcome(beyond("context"), slower)),),
    }
    return {name: said.get(name, (NOT_ASKED,)) for name in ARCHITECTURES}


def decay_as_measured() -> Cells:
    """The same of trained networks, on binary sequences whose information is a power law."""

    def rate(what: str) -> Told:
        return lambda record: f"exponential (an example of 8 bits, {what})"

    ends = ("exponential in the end", "not exponential in the end")
    end = "every width: exponential in the end, to plateau"
    finite, power = "shen-finite-memory", ("power law at width 16", "no power law at width 16")
    said: dict[str, tuple[Cell, ...]] = {
        "rnn": (
            Judged(
                "shen-fig1a",
                "every width: exponential, to plateau",
                by_outcome("exponential at every width", "not exponential at every width"),
            ),
            Judged("shen-fig1a", end, by_outcome(*ends)),
        ),
        "lstm": (
            Judged(
                "shen-fig1b",
                "width 1 to 4: exponential, to plateau",
                by_outcome("exponential up to width 4", "not exponential up to width 4"),
            ),
            Judged("shen-fig1b", end, by_outcome(*ends)),
        ),
        "transformer": (Judged("shen-fig3a", "width 16: power law, to plateau", by_outcome(*power)),),
        "sliding_window": (Judged(finite, "rate, Transformer", by_outcome(rate("untrained"))),),
        "ngram": (Judged(finite, "rate, n-gram model", by_outcome(rate("counted on a power law"))),),
    }
    counted = trainings(BINARY, lambda parameters: str(parameters["architecture"]))
    page = "notebooks/two_point/attention_networks"
    return {name: said.get(name, (Trained(name, counted, page),)) for name in ARCHITECTURES}


def captured(evidence: Evidence) -> Cells:
    """Share of the information between past and future that is captured."""
    shares, longer, facts = captured_shares(), shares_with_positions(), recalled_shares()
    bits = record_of(evidence, "l2m-thm52", "one bit a neuron is reached")["measured"][-1]

    def copied(record: Record) -> str:
        some = record["measured"]
        return f"{_percent([nats / bits for nats in some])} of copied bits, 1 to {len(some)} neurons"

    def window(record: Record) -> str:
        some, there = record["measured"], record["at_most"][-1]
        seen = f"the last 1 to {2 ** (len(some) - 1)} numbers of Gaussians"
        return f"{_percent([nats / there for nats in some])} by {seen}, exact"

    def gaussian(name: str) -> tuple[Cell, ...]:
        """What was captured, on which no verdict rests; how KL goes with the length, on which one does."""
        if name not in shares:
            return () if name in facts else (Plain("no training recorded", CAPTURED),)
        part, words = flat if name == "transformer" else smallest
        given = "with" if name == "transformer" else "without"
        cells = [Plain(f"{given} positions, stopped early: {_shares(shares[name])}", CAPTURED)]
        if some := {length: found for length, found in longer.get(name, {}).items() if length >= min(shares[name])}:
            cells.append(Plain(f"learned, trained longer: {_shares(some)}", CAPTURED))
        return *cells, Judged(GAUSSIANS, part, by_outcome(*words))

    def recalled_facts(name: str) -> tuple[Cell, ...]:
        """What networks recall of documents of facts, where they are recorded."""
        if name not in facts:
            return ()
        pairs, found = facts[name]
        return (Plain(f"{_percent(found)} of the facts of documents of {pairs} pairs", FACTS),)

    best = Judged("l2m-thm52", "windows: captured below what the state holds", by_outcome(window))

    def nearly_flat(record: Record) -> str:
        most = max(high for _, high in record["measured"])
        return f"share of KL not learned rises by at most {most:.2f} from L = 16 to 256, with positions"

    flat = ("GPT2: flat in L", (nearly_flat, "share of KL not learned rises with the length"))
    grows = ("KL grows with the length, without positions", "KL does not grow with the length")
    smallest = ("small Mamba and Mamba2: degrade as L grows", grows)
    recalls = ("recalls ten copied symbols", "does not recall ten copied symbols")
    recalled = {"lstm": "LSTM copies", "rel_rnn": "RelRNN copies", "mem_rnn": "MemRNN copies"}
    said: dict[str, tuple[Cell, ...]] = {
        "rnn": (Judged("l2m-thm52", "trained networks", by_outcome(copied)),),
        "sliding_window": (best,),
        "ngram": (best,),
    }
    said |= {name: (Judged("kerg-table5", part, by_outcome(*recalls)),) for name, part in recalled.items()}
    return {name: said.get(name, gaussian(name)) + recalled_facts(name) for name in ARCHITECTURES}


def gradient() -> Cells:
    """How the gradient of a late state by an early one falls with the distance between them."""
    said: dict[str, tuple[Cell, ...]] = {
        "rnn": (
            Judged("kerg-baseline", "linear, one eigenvalue", by_outcome("exponential decay, linear", "no such decay")),
            Judged(
                "kerg-baseline",
                "tanh, orthogonal V times 0.95",
                by_outcome("at least as fast with tanh, where steps contract", "slower with tanh"),
            ),
        ),
        "sliding_window": (
            Plain(f"exactly 0 beyond {gradient_reach('sliding_window')} tokens", "notebooks/bipartite/history_states"),
        ),
        "ngram": (Plain("counted, not trained by gradients"),),
        "rel_rnn": (
            Judged(
                "kerg-thm2",
                "the exact inequality",
                by_outcome("bounded below along paths of few steps, if linear, eigenvalue > 0", "not bounded below"),
            ),
        ),
        "mem_rnn": (
            Judged(
                "kerg-thm1",
                "polynomial decay",
                by_outcome("polynomial, uniform attention, if linear", "faster than polynomial, uniform attention"),
            ),
            Judged("kerg-thm1", "rate 1/T, Eq. 264", by_outcome("1/T at least", "the printed rate 1/T is wrong")),
            Judged(
                "kerg-relevant",
                "gradient through relevant states",
                by_outcome("nearly all of it through the relevant states", "much of it through other states"),
            ),
        ),
    }
    return {name: said.get(name, (NOT_ASKED,)) for name in ARCHITECTURES}


def cost() -> Cells:
    """Multiply-adds of one token."""
    one, whole = (f"multiply-adds of {what}, counted in the running models" for what in ("a token", "whole texts"))
    part = dict.fromkeys(("rnn", "lstm", "transformer", "sliding_window"), ("shen-cost", one))
    part |= dict.fromkeys(("linear_attention", "mamba", "mamba2"), ("shen-cost", whole))
    return _computed(_cost, part, AGREES)


COLUMNS: dict[str, Callable[[Evidence], Cells]] = {
    "state (numbers)": lambda _: growth(),
    "full at (tokens of books)": lambda _: full(),
    "two-point decay: theory": lambda _: decay_in_theory(),
    "two-point decay: measured": lambda _: decay_as_measured(),
    "information captured": captured,
    "gradient over distance": lambda _: gradient(),
    "multiply-adds of token ℓ": lambda _: cost(),
}
"""The columns by their heads."""


def resolved(evidence: Evidence) -> Table:
    """The table that this evidence allows.

    Raises ValueError for a cell whose part of a claim has no record, or an outcome that it has no words for.
    """
    columns = {head: column(evidence) for head, column in COLUMNS.items()}
    rows = {
        name: [[cell.say(evidence) for cell in cells[name]] for cells in columns.values()] for name in ARCHITECTURES
    }
    return Table(tuple(columns), ARCHITECTURES, rows)


@functools.cache
def table() -> Table:
    """The table by the records there are, made once per process."""
    return resolved(counting_evidence(scorecard.load_records()))


def show() -> None:
    """Show the table on the page; print it in a terminal."""
    show_on_page(table())


def show_sources(column: str) -> None:
    """Show what stands behind a column: every statement with its claim, part and sentence. ValueError for no column."""
    show_on_page(Sources(table(), column))
