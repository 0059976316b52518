"""Tables of the chapter, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.minigrid.ceilings import Ceiling
from experiments.minigrid.environments import PAIRS
from experiments.minigrid.runs import PLACES, AgentRun, Trained, mean_return
from experiments.minigrid.statements import MODELS, place_name, printed
from lib.information.intervals import seed_mean
from lib.report.benchmarks import Benchmark
from lib.report.page import table

BESIDE = "PPO with an LSTM in a grid world"  # title of the record of `benchmarks/ppo.py`


def table_of_ceilings(limits: Mapping[str, Ceiling]) -> str:
    """Every place with its ceilings and the printed numbers."""
    rows = [(place_name(task, place), task, place) for task in PAIRS for place in PLACES]
    columns = (
        ("place", lambda row: row[0]),
        ("return, mission (Memory: cue) unread", lambda row: f"{seed_mean(limits[row[0]].blind):.3f}"),
        ("return, read", lambda row: f"{limits[row[0]].informed.mean():.3f}"),
        ("chance of success, unread", lambda row: f"{limits[row[0]].success.mean():.2f}"),
        *(
            (f"return of {model}, printed", lambda row, model=model: f"{printed(row[1])[row[2], model]:.2f}")
            for model in MODELS
        ),
    )
    return table(columns, rows)


def table_of_agents(runs: Mapping[Trained, Sequence[AgentRun]]) -> str:
    """Mean returns of our agents, with intervals over seeds."""
    columns = (
        ("task", lambda trained: trained.task),
        ("agent", str),
        ("seeds", lambda trained: len(runs[trained])),
        ("frames", lambda trained: f"{max((run.result['frames'] or [0])[-1] for run in runs[trained]):,.0f}"),
        ("return where it learned", lambda trained: f"{mean_return(runs[trained], 'train'):.2f}"),
        ("return in the larger place", lambda trained: f"{mean_return(runs[trained], 'test'):.2f}"),
    )
    return table(columns, sorted(runs, key=lambda trained: (list(PAIRS).index(trained.task), str(trained))))


def beside_another_library(recorded: Mapping[str, Benchmark]) -> str:
    """Mean returns of our PPO and of sb3-contrib, 95 % intervals over seeds, as `benchmarks/ppo.py` recorded them."""
    found = recorded.get(BESIDE)
    if found is None:
        return "**Not yet** beside another library: `python benchmarks/ppo.py` records it."
    rows = next(iter(found.tables.values()))
    told = "; ".join(f"{row['way']}: {row['mean return']}" for row in rows)
    return f"Mean return, with an interval over seeds: {told}."
