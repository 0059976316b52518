"""Pieces of one large question, answered by this process or by a Dask cluster whose workers may die."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from lib.machine import needs_scheduler

Found = TypeVar("Found")
PIECES_A_THREAD = 2  # of a cluster at a time: one is worked on, one waits or is fetched


def on_cluster(answer: Callable[..., Found], tasks: Iterable[tuple[Any, ...]], client: Any) -> Iterator[Found]:
    """`answer` of the arguments of each task: in their order by this process, or as they end on a cluster.

    client: of a Dask cluster (`distributed.Client`), or None. Two tasks per thread are under way there, and nothing
    else is held; a task whose worker dies is done by another one. What `answer` raises is raised here;
    ``ConnectionError`` if the scheduler goes away.
    """
    if client is None:
        yield from itertools.starmap(answer, tasks)
        return
    from distributed import as_completed

    waiting, running = iter(tasks), as_completed(loop=client.loop)
    while True:
        with needs_scheduler("what it had is lost, start again"):
            threads = max(sum(client.nthreads().values()), 1)  # workers come and go
            some = itertools.islice(waiting, max(PIECES_A_THREAD * threads - running.count(), 0))
            running.update([client.submit(answer, *task, pure=False) for task in some])
            if running.is_empty():
                return
            future = next(running)
            failed = future.status == "error"
            found = future.exception() if failed else future.result()
            future.release()
        if failed:
            raise found
        yield found


def held_by_workers(thing: Any, client: Any) -> Any:
    """A thing that every task needs: what stands for it among their arguments. Without a client it is the thing.

    Each worker gets it once, from another one, or from the scheduler if whoever had it has died.
    """
    return thing if client is None else client.submit(_same, thing, pure=False)


def _same(thing: Any) -> Any:
    return thing
