"""The rules of the verdicts: known curves agree, and each has a curve that refutes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from experiments.natural_corpora.written import statements as judged
from experiments.natural_corpora.written.parts import ASKED
from experiments.natural_corpora.written.relations import RELATIONS, points, rank_correlation
from experiments.natural_corpora.written.runs import LONG, MIDDLE, SHORT, WrittenRun, planned, usual, written_runs
from experiments.natural_corpora.written.selection import Selection
from experiments.natural_corpora.written.statements import Statements, table
from lib.information.intervals import Interval
from lib.processes import corpora
from tests.experiments.natural_corpora.written.fake_records import FLOOR, LAGS, READ, record, trained

WORDS_ALONE = 0.5 * np.exp(-LAGS / 3)
EXPONENTIAL = WORDS_ALONE + 0.02 * np.exp(-LAGS / 20)
CONSTANT = EXPONENTIAL + 3e-4


def statements(*records: Iterable[dict[str, Any]], profile: str = "laptop") -> Statements:
    found = written_runs(one for some in records for one in some)
    return Statements(Selection(found, frozenset(found)), profile)


class Recorded:
    """Stands for `judge`: what it was asked to judge, and what it would have said, by part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.remarks: set[str] = set()
        self.notes: dict[str, str] = {}
        monkeypatch.setattr(judged, "judge", self)
        monkeypatch.setattr(judged, "undecided", self.undecided)

    def undecided(self, claim: str, *, part: str, reason: str, sentence: str, **said: Any) -> None:
        self.found[part], self.reasons[part] = "undecided", sentence

    def __call__(
        self, claim: str, cases: Any, *, part: str, plateau: Any = None, remark: bool = False, **asked: Any
    ) -> str:
        self.remarks |= {part} if remark else set()
        self.notes[part] = asked.get("note", "")
        from lib.information.intervals import Interval
        from lib.report.verdicts import decide

        bounds = {name: asked.get(name) for name in ("at_least", "at_most")}
        if isinstance(cases, Mapping):
            rows = [case.ends if case.known and len(case.by_seed) >= 3 else [] for case in cases.values()]
            decision = decide(rows or [[]], **bounds, fewest=2, intervals=True)
        elif isinstance(cases, Interval):
            decision = decide([cases.ends] if cases.known else [[]], **bounds, fewest=2, intervals=True)
        else:
            decision = decide(list(cases) if cases.size else [[]], **bounds, gap=asked.get("gap", 0.0))
        gated = plateau is None or plateau.reached
        self.found[part] = decision.found if gated else "undecided"
        self.reasons[part] = "" if gated else plateau.sentence
        return self.found[part]

    def of(self, beginning: str) -> str:
        (part,) = [part for part in self.found if part.startswith(beginning)]
        return self.found[part]


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    return Recorded(monkeypatch)


def lstms(values: np.ndarray, level: str = "character") -> list[dict[str, Any]]:
    return [*trained(values, "lstm", 32, level=level, loss=1.7), *trained(values, "lstm", 64, level=level, loss=1.4)]


@pytest.mark.parametrize(
    ("part", "level", "agrees", "differs"),
    [
        ("LSTMs of characters capture the short range", "character", EXPONENTIAL, 0.6 * EXPONENTIAL),
        ("LSTMs of characters fall exponentially", "character", 0.02 * np.exp(-LAGS / 20), 0.02 * LAGS**-0.4),
        ("LSTMs of characters have no long range", "character", EXPONENTIAL, READ),
        ("LSTMs of words follow the text", "word", READ, WORDS_ALONE),
        ("LSTMs of characters keep information", "character", CONSTANT, EXPONENTIAL - 1e-4),
        ("what LSTMs of characters keep is a constant", "character", CONSTANT, 0.2 * LAGS**-0.8),
    ],
)
def test_each_statement_has_a_curve_that_agrees_and_one_that_differs(
    verdicts: Recorded, part: str, level: str, agrees: np.ndarray, differs: np.ndarray
) -> None:
    for values, expected in ((agrees, "agrees"), (differs, "differs")):
        verdicts.found.clear()
        statements(lstms(values, level), profile="paper").judge("shen-fig2")
        assert verdicts.of(part) == expected


@pytest.mark.parametrize(
    ("laws", "expected"),
    [((1, 1, 1), "agrees"), ((-1, -1, -1), "differs"), ((0, 0, 0), "undecided"), ((-1, 0, -1), "undecided"),
     ((1, 0, 1), "undecided")],
)  # fmt: skip
def test_a_law_is_named_where_its_interval_tells(
    verdicts: Recorded, monkeypatch: pytest.MonkeyPatch, laws: tuple[int, ...], expected: str
) -> None:
    """The sign alone names none: with the value of seed 1 in the interval of zero nothing is decided."""
    ends = {1: (0.5, 3.0), 0: (-1.0, 3.0), -1: (-3.0, -0.5)}
    monkeypatch.setattr(WrittenRun, "advantage", lambda run, band: Interval(1.0, *ends[laws[run.seed]]))
    statements(lstms(EXPONENTIAL)).judge("shen-fig2")
    assert verdicts.of("LSTMs of characters fall exponentially") == expected


@pytest.mark.parametrize(
    ("more", "reach", "expected"),
    [(0.3, 0.1, "agrees"), (-0.3, 0.1, "undecided"), (0.1, 0.1, "undecided")],  # below: smaller networks refute nothing
)
def test_further_means_further_than_both_intervals_leave_open(
    verdicts: Recorded, monkeypatch: pytest.MonkeyPatch, more: float, reach: float, expected: str
) -> None:
    def ratio(run: WrittenRun, band: Any) -> Interval:
        value = 0.9 + more * (run.network.architecture == "transformer")
        return Interval(value, value - reach, value + reach)

    monkeypatch.setattr(WrittenRun, "ratio", ratio)
    statements(transformers(READ), lstms(READ)).judge("shen-fig3bc")
    assert verdicts.of("Transformers of characters follow the text further") == expected


@pytest.mark.parametrize(
    ("values", "reach", "expected"),
    [
        ((0.2, 0.1, 0.0), 0.2, "agrees"),
        ((0.2, 0.1, 0.4), 0.2, "undecided"),  # one interval goes beyond a half
        ((0.8, 0.9, 0.7), 0.1, "differs"),
        ((0.8, 0.9, 0.55), 0.1, "undecided"),  # two seeds refute nothing
        ((0.2, 0.8, 0.2), 0.1, "undecided"),
    ],
)
def test_no_long_range_is_said_of_whole_intervals(
    verdicts: Recorded, monkeypatch: pytest.MonkeyPatch, values: tuple[float, ...], reach: float, expected: str
) -> None:
    def ratio(run: WrittenRun, band: Any) -> Interval:
        value = values[run.seed]
        return Interval(value, value - reach, value + reach)

    monkeypatch.setattr(WrittenRun, "ratio", ratio)
    statements(lstms(EXPONENTIAL), transformers(READ)).judge("shen-fig2")
    part = "LSTMs of characters have no long range"
    assert verdicts.of(part) == expected
    (note,) = (note for name, note in verdicts.notes.items() if name.startswith(part))
    few = 3 * sum(value <= 0.5 for value in values)  # in the seeds of three networks
    assert (f"of the Transformers of characters {few} of 9 seeds have a value of at most 0.5 as well" in note) == (
        few > 0
    )


def test_a_part_whose_seeds_lie_in_the_gap_would_not_differ(
    verdicts: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    (asked,) = (asked for asked in ASKED["shen-fig3bc"] if asked.part.startswith("Transformers of words follow"))
    assert asked.smaller and asked.gap == 1
    assert not judged.refutes_nothing(asked, np.zeros((1, 4)))  # neither more nor less than the LSTM
    assert judged.refutes_nothing(asked, -np.ones((1, 4)))
    monkeypatch.setattr(WrittenRun, "ratio", lambda run, band: Interval(0.9, 0.8, 1.0))
    statements(transformers(READ), lstms(READ)).judge("shen-fig3bc")
    (told,) = (why for part, why in verdicts.reasons.items() if part.startswith("Transformers of characters follow"))
    assert "would differ" not in told


def test_networks_smaller_than_the_papers_that_fail_refute_nothing(verdicts: Recorded) -> None:
    grants = ("LSTMs of characters capture the short range", "LSTMs of characters keep information")
    denies = ("LSTMs of characters fall exponentially", "LSTMs of characters have no long range")
    statements(lstms(0.02 * LAGS**-0.4 * (1 + LAGS / 50) * (LAGS < 500) - 1e-4)).judge("shen-fig2")
    assert [verdicts.of(part) for part in (*grants, *denies)] == ["undecided"] * 2 + ["differs"] * 2
    (told,) = [sentence for part, sentence in verdicts.reasons.items() if part.startswith(grants[0])]
    assert "refutes nothing" in told and "asked for: at least 0.8 and at most 1.25" in told
    statements(lstms(EXPONENTIAL)).judge("shen-fig2")
    assert verdicts.of(grants[0]) == "agrees"  # that they have it counts
    statements(transformers(EXPONENTIAL, deep=WORDS_ALONE), lstms(READ)).judge("shen-fig3bc")
    assert "differs" not in [found for part, found in verdicts.found.items() if "Transformer" in part]


def transformers(
    values: np.ndarray, *, deep: np.ndarray | None = None, level: str = "character"
) -> list[dict[str, Any]]:
    return [
        *trained(WORDS_ALONE * 0.3 + 0.01, "transformer", 32, level=level, loss=1.9),
        *trained(values, "transformer", 64, level=level, loss=1.5),
        *trained(values if deep is None else deep, "transformer", 64, depth=3, level=level, loss=1.45),
    ]


def test_transformers_are_held_against_lstms_of_the_same_level(verdicts: Recorded) -> None:
    statements(transformers(READ), lstms(EXPONENTIAL)).judge("shen-fig3bc")
    assert verdicts.of("Transformers of characters follow the text further") == "agrees"
    assert verdicts.of("Transformers of characters capture the intermediate range") == "agrees"
    assert verdicts.of("Transformers of words follow the text further") == "undecided"  # none has run
    verdicts.found.clear()
    statements(transformers(EXPONENTIAL, deep=WORDS_ALONE), lstms(READ), profile="paper").judge("shen-fig3bc")
    assert verdicts.of("Transformers of characters follow the text further") == "differs"


def test_a_tail_is_asked_of_transformers_of_words_alone(verdicts: Recorded) -> None:
    for deep, expected in ((READ, "agrees"), (WORDS_ALONE, "differs")):
        verdicts.found.clear()
        statements(transformers(READ, deep=deep, level="word"), profile="paper").judge("shen-fig3bc")
        assert verdicts.of("Transformers of words with three layers") == expected
    assert not [part for part in verdicts.found if "characters with three layers" in part]


def test_a_long_correlation_length_of_little_information_is_spurious(verdicts: Recorded) -> None:
    statements(transformers(READ), lstms(READ)).judge("shen-fig3bc")
    assert verdicts.of("the narrowest Transformer") == "agrees"
    assert verdicts.of("and its correlation length is longer") == "agrees"
    verdicts.found.clear()
    statements(trained(EXPONENTIAL, "transformer", 32), lstms(READ)).judge("shen-fig3bc")
    assert verdicts.of("the narrowest Transformer") != "agrees"
    assert verdicts.of("and its correlation length is longer") != "agrees"


def test_depth_is_compared_seed_by_seed_at_one_width(verdicts: Recorded) -> None:
    deep = trained(EXPONENTIAL, "lstm", 64, depth=2, loss=1.39)
    statements(lstms(EXPONENTIAL), deep).judge("shen-fig2")
    assert verdicts.of("depth brings LSTMs of characters no longer") == "agrees"
    verdicts.found.clear()
    longer = trained(WORDS_ALONE + 0.02 * np.exp(-LAGS / 300), "lstm", 64, depth=2, loss=1.39)
    statements(lstms(EXPONENTIAL), longer).judge("shen-fig2")
    assert verdicts.of("depth brings LSTMs of characters no longer") == "differs"
    closer = statements(transformers(EXPONENTIAL, deep=READ))
    closer.judge("shen-fig3bc")
    assert verdicts.of("deeper Transformers of characters come nearer") == "agrees"


def test_what_was_not_trained_to_a_plateau_decides_nothing(verdicts: Recorded) -> None:
    short = [
        record(EXPONENTIAL, width=width, seed=seed, loss=loss)
        for width, loss in ((32, 1.7), (64, 1.4))
        for seed in range(3)
    ]
    statements(short).judge("shen-fig2")
    assert set(verdicts.found.values()) == {"undecided"}
    gaining = [*lstms(EXPONENTIAL), record(EXPONENTIAL, width=64, loss=1.0, epochs=20)]
    gaining = [
        one
        for one in gaining
        if one["result"]["validation_losses"][1] != 1.4 or one["parameters"]["fit"]["epochs"] != 20
    ]
    statements(gaining).judge("shen-fig2")
    assert verdicts.of("LSTMs of characters have no long range") == "undecided"


def test_a_network_that_is_planned_and_has_not_run_is_no_smaller_grid(verdicts: Recorded) -> None:
    full = written_runs([*lstms(EXPONENTIAL), *trained(EXPONENTIAL, "lstm", 128)])
    partly = {network: runs for network, runs in full.items() if network.width < 128}
    Statements(Selection(partly, frozenset(full))).judge("shen-fig2")
    assert verdicts.of("LSTMs of characters have no long range") == "undecided"
    assert "LSTM 128, characters: no training is recorded" in " ".join(verdicts.reasons.values())
    rows = table(Selection(partly, frozenset(full)).networks("character", "lstm"), lambda run: 1.0)
    assert np.isnan(rows[2]).all() and (rows[:2] == 1).all()


def test_nothing_is_judged_where_nothing_has_run(verdicts: Recorded) -> None:
    nothing = Statements(Selection({}, frozenset()))
    for claim in ASKED:
        nothing.judge(claim)
    nothing.judge_quality()
    assert not verdicts.found


def test_networks_too_large_for_a_laptop_are_judged_where_they_have_run(verdicts: Recorded) -> None:
    statements(lstms(EXPONENTIAL), transformers(READ)).judge("shen-fig2")
    statements(lstms(EXPONENTIAL), transformers(READ)).judge("shen-fig3bc")
    large = {part for part, sentence in verdicts.reasons.items() if sentence.startswith("no network of this width")}
    assert large == {
        "LSTMs of characters of width 1024 and more overestimate the short range, to plateau",
        "LSTMs of words of width 2048 are twice too high at all distances, to plateau",
        "LSTMs of words of width 2048 have a tail to 150, to plateau",
        "Transformers of characters of width 512 have a tail that is too high, to plateau",
    }
    assert {verdicts.found[part] for part in large} == {"undecided"}
    for factor, expected in ((1.2, "agrees"), (0.8, "differs")):
        verdicts.found.clear()
        statements(lstms(EXPONENTIAL), trained(factor * READ, "lstm", 1024, loss=1.2)).judge("shen-fig2")
        assert verdicts.of("LSTMs of characters of width 1024") == expected
        statements(transformers(READ), trained(factor * READ, "transformer", 512, loss=1.2)).judge("shen-fig3bc")
        assert verdicts.of("Transformers of characters of width 512") == expected
    for values, expected in ((READ, "agrees"), (WORDS_ALONE, "differs")):
        verdicts.found.clear()
        words = [*lstms(READ, "word"), *trained(values, "lstm", 2048, level="word", loss=1.2)]
        statements(words).judge("shen-fig2")
        assert verdicts.of("LSTMs of words of width 2048 have a tail") == expected


def test_planned_networks_are_those_with_three_seeds() -> None:
    laptop = planned("written-characters", "laptop")
    assert {network.width for network in laptop if network.architecture == "lstm" and network.depth == 1} >= {
        32,
        128,
        256,
    }
    assert all(network.text != "prose" and network.width < 512 for network in laptop)
    assert {network.level for network in planned("written-words", "laptop")} == {"word"}


def test_the_bands_are_less_the_floor() -> None:
    (run,) = usual(written_runs([record(0.5 * READ)])[next(iter(written_runs([record(READ)])))])
    for band in (SHORT, MIDDLE, LONG):
        assert run.ratio(band).value == pytest.approx(0.5)
        assert run.ratio(band).low < 0.5 < run.ratio(band).high
    with_floor = [np.mean(np.array(run.result[whose]["curve"])[run.within(LONG)]) for whose in ("written", "read")]
    assert with_floor[0] / with_floor[1] > 0.55  # what would be found if the floor were left in
    nothing = written_runs([record(READ)])
    (run,) = next(iter(nothing.values()))
    run.result["read"]["curve"] = [FLOOR] * LAGS.size
    run.result["read"]["replicates"] = (
        FLOOR + 1e-5 * np.random.default_rng(0).standard_normal((40, LAGS.size))
    ).tolist()
    assert np.isnan(run.ratio(LONG).value)


def second_order(text: str, lags: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    """Exact information, nats, in the chain of the trigrams of a text (closed to a ring), and in the text itself."""
    letters, ids = np.unique(list(text), return_inverse=True)
    k, following = len(letters), np.roll(ids, -1)
    pairs, steps = ids * k + following, list(lags)
    counts = np.bincount(pairs, minlength=k * k)
    moves = csr_array((1 / counts[pairs], (np.roll(pairs, -1), pairs)), shape=(k * k, k * k))
    joint = np.zeros((k * k, k))  # of a pair and the first symbol of all
    joint[np.arange(k * k), np.arange(k * k) // k] = counts / len(ids)
    chain, found = [], []
    for lag in range(1, max(steps) + 1):
        chain.append(information(joint.reshape(k, k, k).sum(axis=0)))  # of the second of the pair and the first of all
        found.append(information(np.bincount(ids * k + np.roll(ids, -lag), minlength=k * k).reshape(k, k)))
        joint = moves @ joint
    return tuple(np.array([values[lag - 1] for lag in steps]) for values in (chain, found))  # type: ignore[return-value]


def information(joint: np.ndarray) -> float:
    p = joint / joint.sum()
    there = p > 0
    return float(np.sum(p[there] * np.log(p[there] / np.outer(p.sum(axis=1), p.sum(axis=0))[there])))


def test_a_chain_that_knows_pairs_of_characters_does_not_capture_the_short_range(verdicts: Recorded) -> None:
    """The ratio of the mean information takes it for the text; the geometric mean over distances does not."""
    short = LAGS[LAGS <= SHORT[1]]
    chain, text = second_order(corpora.load("sotu").head(1_000_000).text, short)
    np.testing.assert_allclose(chain[:2], text[:2], rtol=1e-9)  # trigrams are its own, so two lags are
    assert chain.mean() / text.mean() > 0.8 > np.exp(np.log(chain / text).mean())
    null = READ.copy()
    null[: len(short)] *= chain / text
    (run,) = usual(written_runs([record(null)])[next(iter(written_runs([record(READ)])))])
    assert run.geometric_ratio(SHORT) == pytest.approx(np.exp(np.log(chain / text).mean()))
    for values, expected in ((READ, "agrees"), (null, "differs")):
        verdicts.found.clear()
        statements(lstms(values), profile="paper").judge("shen-fig2")
        assert verdicts.of("LSTMs of characters capture the short range") == expected
        statements(transformers(values), lstms(READ), profile="paper").judge("shen-fig3bc")
        assert verdicts.of("Transformers of characters capture the short range") == expected
    narrowest = trained(null, "transformer", 32, loss=1.9)
    statements(narrowest, trained(READ, "transformer", 64, loss=1.5), lstms(READ)).judge("shen-fig3bc")
    assert verdicts.of("the narrowest Transformer") == "agrees"


def test_a_distance_without_information_leaves_nothing_of_a_geometric_mean() -> None:
    silent = READ.copy()
    silent[4] = -1e-4
    (run,) = usual(written_runs([record(silent)])[next(iter(written_runs([record(READ)])))])
    assert run.geometric_ratio(SHORT) == 0
    assert run.ratio(SHORT).value > 0.8
    run.result["read"]["curve"][4] = FLOOR  # of the text: then nothing can be said
    for replicate in run.result["read"]["replicates"]:
        replicate[4] = FLOOR + 1e-5 * (replicate[0] - FLOOR - READ[0])
    assert np.isnan(run.geometric_ratio(SHORT))


def test_half_distance_is_where_half_is_lost() -> None:
    def of(values: np.ndarray) -> float:
        return next(iter(written_runs([record(values)]).values()))[0].half_distance

    cut = np.where(LAGS < 60, READ, 0.1 * READ)
    assert 45 < of(cut) < 75
    assert of(READ) == LAGS[-1]
    assert of(0.1 * READ) == LAGS[0]


@pytest.mark.parametrize("part", list(RELATIONS))
def test_quality_goes_with_range_where_it_does_and_not_where_it_does_not(part: str) -> None:
    random = np.random.default_rng(0)
    reach = [3, 5, 8, 13, 20, 40, 80, 160]

    def networks(order: Iterable[int]) -> Any:
        for width, (place, xi) in enumerate(zip(order, reach, strict=True)):
            better = {"spelling": 0.3 + 0.05 * place, "brackets": 0.2 + 0.1 * place, "titles": 0.2 + 0.1 * place}
            values = READ * (0.3 + 0.08 * width) * np.exp(-LAGS / xi / 30)
            yield record(values, width=32 * (width + 1), loss=2.0 - 0.1 * place, quality=better)

    def found(order: Iterable[int]) -> Any:
        return rank_correlation(points(written_runs(networks(order)).values(), RELATIONS[part]))

    assert found(range(8)).low > 0.5
    assert found(range(7, -1, -1)).high < -0.5
    assert not found(random.permutation(8)).low > 0.5
    few = list(written_runs(networks(range(8))).values())[:5]
    assert not rank_correlation(points(few, RELATIONS[part])).known


def test_quality_is_judged_at_each_level(verdicts: Recorded) -> None:
    records = [
        record(
            READ * 0.1 * n,
            width=32 * n,
            loss=2 - 0.1 * n,
            quality={"spelling": 0.1 * n, "brackets": 0.1 * n, "titles": 0.9 - 0.1 * n},
        )
        for n in range(1, 8)
    ]
    statements(records).judge_quality()
    assert verdicts.of("spelling goes with the short range, characters") == "agrees"
    assert verdicts.of("spelling goes with the short range, words") == "undecided"
    assert verdicts.of("balanced titles go with the intermediate range, characters") == "differs"
    assert verdicts.of("paragraphs of one topic") == "undecided"
    assert {part.split(",")[0] for part in verdicts.remarks} == {
        "closed brackets go with the intermediate range",
        "a smaller loss goes with a longer range",
    }
