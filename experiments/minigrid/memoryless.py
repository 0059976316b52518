"""What an agent without any memory gets in Memory: an explicit one, and its expected return without simulation.

In MemoryS13 no agent without memory gets more than half of the return of who goes straight to an end. On its way from
the room to the fork it has to pass the cell (8, 6), facing the fork, or starts there or beyond. From these cells the
cue, at (1, 5), is not in its view of seven cells, and what it does until it comes back or ends is the same whatever the
cue. So the odds of the two ends are the same under both cues, and the two chances of success add up to one at most:
`ceilings.ceiling` is exact.

In MemoryS7 the fork is so near that who turns round there sees cue and both ends at once. The cue is lost again with
the next turn, and facing an end the agent does not know whether it has looked back already. It does not have to: on its
way to looking back it passes the view of one end only, and a little chance does the rest. So what is computed here is a
lower bound of what can be had without memory, not a ceiling.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from experiments.minigrid.ceilings import AHEAD
from experiments.minigrid.environments import Image, World, task_of

State = tuple[int, int, int]
"""Cell and heading."""

LEFT, RIGHT, FORWARD = range(3)
WALL, KEY, BALL = 2, 5, 6  # kinds of MiniGrid's images
OBJECTS = (KEY, BALL)
SMALL = 1e-12  # probabilities that are given up
CHANCES = (*(percent / 100 for percent in range(5, 15)), 1.0)


def look_back(image: Image, chance: float) -> dict[int, float]:
    """Probabilities of actions, from what is seen now and nothing else.

    Ahead to the fork; there to the right, and to the right again, which is a look back; then towards the end whose
    object is the cue's. Facing the second end it goes on with this chance only, for it may not have looked back yet.
    """
    kinds = image[:, :, 0]
    left_end, right_end = int(kinds[1, 6]), int(kinds[5, 6])
    if left_end in OBJECTS and right_end in OBJECTS:  # at the fork, between the ends
        cue = [kind for kind in kinds[:, :6].flat if kind in OBJECTS]
        return {LEFT if cue == [left_end] else RIGHT: 1.0}
    if kinds[3, 4] in OBJECTS and kinds[2, 6] == WALL:  # the second end, with the fork's wall on the left
        return {FORWARD: chance, RIGHT: 1 - chance}
    return {FORWARD: 1.0}


def expected_return(world: World, chance: float) -> float:
    """Expected return of `look_back` in the present episode of the world, by the distribution of its states."""
    grid, turns = world.grid_world, {LEFT: -1, RIGHT: 1}
    choices: dict[State, dict[int, float]] = {}
    x, y = map(int, grid.agent_pos)
    law: dict[State, float] = {(x, y, int(grid.agent_dir)): 1.0}
    total = 0.0
    for steps in range(1, world.place.max_steps + 1):
        later: defaultdict[State, float] = defaultdict(float)
        for state, probability in law.items():
            x, y, heading = state
            if state not in choices:
                grid.agent_pos, grid.agent_dir = np.array((x, y)), heading
                choices[state] = look_back(grid.gen_obs()["image"], chance)
            for action, share in choices[state].items():
                if action != FORWARD:
                    later[x, y, (heading + turns[action]) % 4] += probability * share
                    continue
                front = (x + AHEAD[heading][0], y + AHEAD[heading][1])
                if front == grid.success_pos:
                    total += probability * share * world.place.reward(steps)
                elif front != grid.failure_pos:
                    later[state if grid.grid.get(*front) else (*front, heading)] += probability * share
        law = {state: probability for state, probability in later.items() if probability > SMALL}
    return total


def without_memory(name: str, chances: Iterable[float] = CHANCES) -> tuple[float, float]:
    """The best of the chances, and the expected return of `look_back` with it, over all grids that can be drawn.

    Cue, ends and the cell of the start make 4 (size - 3) grids, all as likely: the expectation is exact. Raises
    ValueError for a place other than those of Memory and for chances that are none.
    """
    tried = tuple(chances)
    if not tried or not all(0 <= chance <= 1 for chance in tried):
        raise ValueError(f"chances: one or more probabilities from 0 to 1 are allowed, got {tried}")
    returns = [[_expected(name, seed, chance) for chance in tried] for seed in all_grids(name)]
    means = np.mean(returns, axis=0)
    return tried[int(means.argmax())], float(means.max())


def all_grids(name: str) -> list[int]:
    """A seed of every grid of this place that can be drawn."""
    if task_of(name) != "Memory":
        raise ValueError(f"place: MemoryS7 and MemoryS13 are allowed, got {name!r}")
    world, found = World(name), dict[str, int]()
    seeds = itertools.count()
    while len(found) < 4 * (world.place.size - 3):
        seed = next(seeds)
        world.reset(seed)
        found.setdefault(world.grid_world.hash(), seed)
    return list(found.values())


def _expected(name: str, seed: int, chance: float) -> float:
    world = World(name)
    world.reset(seed)
    return expected_return(world, chance)
