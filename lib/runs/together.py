"""Runs of a sweep side by side on one GPU: trained in threads of one process, whose updates are one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from tqdm.auto import tqdm

from lib.checks import whole_number
from lib.runs.definition import Run
from lib.runs.forecast import Clock
from lib.runs.store import Store
from lib.runs.sweep import Outcome, execute, in_short, tell_time


def run_together(
    runs: Sequence[Run],
    store: Store,
    count: int,
    device: str = "cuda",
    threads: int | None = 1,
    tell: Callable[[str], None] = lambda line: None,
    costs: Mapping[str, float] | None = None,
) -> Outcome:
    """All runs in this process, `count` that follow one another at a time.

    They train as `lib.training.graphs.Together` does; where nothing can be captured, as on a CPU, in threads and no
    more. Runs of one length end together: others leave and what remains is captured anew. costs: forecast seconds by
    identity, for the bar. What is recorded as the time or the memory of a run is that of all that ran beside it.
    Interrupted, they stop at their next update, and go on from their checkpoints when started again. Raises ValueError
    for counts below 1.
    """
    from lib.training.graphs import Together
    from lib.training.settings import matrix_products

    size = whole_number(count, "count", 1)
    outcome, clock = Outcome(), Clock(costs or {}, size)
    # each run sets how products are rounded, and sets it back: around all of them, so that none does so under another
    with tqdm(total=len(runs), unit="run", desc="sweep") as bar, matrix_products("float32"):
        tell_time(bar, clock)
        for start in range(0, len(runs), size):
            chosen = runs[start : start + size]
            group = Together(len(chosen))

            def one(run: Run, group: Together = group) -> tuple[str, str, str]:
                with group.member():
                    return execute(run, store, device, threads)

            with ThreadPoolExecutor(len(chosen)) as pool:
                try:
                    waiting = {pool.submit(one, run): run for run in chosen}
                    for future in as_completed(waiting):
                        run, (identity, state, error) = waiting[future], future.result()
                        outcome.enter(identity, state, error)
                        if state == "failed":
                            tell(f"{run} failed ({in_short(run)}): {error}")
                        bar.update()
                        tell_time(bar, clock, run, state, store)
                except BaseException as fault:
                    group.stop(fault)
                    raise
    return outcome
