"""Ceilings against all that can be done in the grid worlds themselves, on small grids made by hand."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np
import pytest

from experiments.minigrid.ceilings import Start, ceiling, fewest_steps, returns, start_of
from experiments.minigrid.environments import ACTIONS, PAIRS, World
from experiments.minigrid.memoryless import all_grids, expected_return, look_back, without_memory

KEY, BALL = "Key", "Ball"


def missions(world: World) -> list[World]:
    """The same grid once for every mission that could have been drawn."""
    grid = world.grid_world
    if world.task == "Memory":
        other = copy.deepcopy(world)
        other.grid_world.success_pos, other.grid_world.failure_pos = grid.failure_pos, grid.success_pos
        return [world, other]
    if world.task in ("RedBlueDoors", "DoorKey"):
        return [world]
    cells = [(x, y) for x in range(grid.width) for y in range(grid.height)]
    things = [(cell, grid.grid.get(*cell)) for cell in cells]
    found = []
    for cell, thing in things:
        if thing is not None and thing.type != "wall":
            one = copy.deepcopy(world)
            one.grid_world.target_pos = cell
            one.grid_world.targetType, one.grid_world.targetColor = thing.type, thing.color
            found.append(one)
    return found


def everything_that_can_be_done(world: World) -> tuple[float, float]:
    """Largest mean return over the missions, and mean of the largest returns, by all sequences of actions.

    Sequences that lead to the same grid are followed once, as the shortest of them.
    """

    def looks(one: World) -> tuple[object, ...]:
        grid = one.grid_world
        carried = grid.carrying and grid.carrying.encode()
        return grid.grid.encode().tobytes(), tuple(map(int, grid.agent_pos)), int(grid.agent_dir), carried

    frontier = [missions(world)]
    seen = {looks(world)}
    best, informed = 0.0, np.zeros(len(frontier[0]))
    while frontier:
        later = []
        for worlds in frontier:
            for action in range(len(ACTIONS)):
                tried = [copy.deepcopy(one) for one in worlds]
                steps = [one.step(action) for one in tried]
                rewards, ended = [step[1] for step in steps], [step[2] for step in steps]
                assert len(set(ended)) == 1, "an episode ends under all missions or under none"
                best, informed = max(best, float(np.mean(rewards))), np.maximum(informed, rewards)
                if not ended[0] and looks(tried[0]) not in seen:
                    seen.add(looks(tried[0]))
                    later.append(tried)
        frontier = later
    return best, float(informed.mean())


def walled(name: str, free: Iterable[tuple[int, int]], rule: str = "around") -> World:
    """A place of which these cells alone are left, with nothing on them, and the agent on the first of them."""
    from minigrid.core.world_object import Wall

    world, free = World(name, rule), list(free)  # type: ignore[arg-type]
    world.reset(0)
    grid = world.grid_world
    for x in range(grid.width):
        for y in range(grid.height):
            grid.grid.set(x, y, None if (x, y) in free else Wall())
    grid.agent_pos, grid.agent_dir = free[0], 0
    return world


def put(world: World, cell: tuple[int, int], kind: str, *look: object) -> None:
    from minigrid.core import world_object

    world.grid_world.grid.set(*cell, getattr(world_object, kind)(*look))


def corridor(rule: str) -> World:
    """The agent, a ball that stands in its way, a key behind it, and room on one side."""
    world = walled("GoToObject-6x6-N2", [(1, 1), (2, 1), (3, 1), (4, 1), (1, 2)], rule)
    put(world, (2, 1), BALL, "red")
    put(world, (4, 1), KEY, "blue")
    return world


def two_alike() -> World:
    world = walled("Fetch-8x8-N3", [(1, 1), (2, 1), (3, 1), (1, 2), (1, 3), (2, 3)])
    for cell, colour in (((3, 1), "red"), ((1, 3), "blue"), ((2, 3), "red")):
        put(world, cell, KEY, colour)
    return world


def key_in_a_corner() -> World:
    world = walled("DoorKey-5x5", [(1, 1), (2, 1), (3, 1), (1, 2), (1, 3), (2, 3), (3, 3)])
    put(world, (1, 2), KEY, "yellow")
    put(world, (2, 1), "Door", "yellow", False, True)
    put(world, (3, 1), "Goal")
    return world


def drawn(name: str) -> World:
    world = World(name)
    world.reset(7)
    return world


SMALL = {
    "an object in the way, around": lambda: corridor("around"),
    "an object in the way, beside": lambda: corridor("beside"),
    "two objects alike": two_alike,
    "a key in a corner": key_in_a_corner,
    "RedBlueDoors-6x6": lambda: drawn("RedBlueDoors-6x6"),
    "GoToDoor-5x5": lambda: drawn("GoToDoor-5x5"),
    "Fetch-5x5-N2": lambda: drawn("Fetch-5x5-N2"),
    "MemoryS7": lambda: drawn("MemoryS7"),
    "DoorKey-5x5": lambda: drawn("DoorKey-5x5"),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_ceiling_is_the_best_of_everything_that_can_be_done(name: str) -> None:
    world = SMALL[name]()
    blind, informed, success = returns(start_of(world), world.place)
    assert (blind, informed) == pytest.approx(everything_that_can_be_done(world), abs=1e-12)
    assert blind <= informed <= 1 and blind <= success <= 1


def test_a_step_more_is_noticed() -> None:
    """Control: the comparison above finds a planner that needs one action too many, and one that cannot carry."""
    world = corridor("beside")
    start, (best, _) = start_of(world), everything_that_can_be_done(world)
    agent, things = start.state  # type: ignore[misc]
    slow = Start((agent, things, 0), lambda s: _waiting(start, s), start.weights, start.possible)
    empty_handed = Start(start.state, lambda s: _not_carrying(start, s), start.weights, start.possible)
    assert returns(slow, world.place)[0] == pytest.approx(best - 0.9 / world.place.max_steps * best, rel=0.1)
    assert returns(empty_handed, world.place)[0] < best - 0.1
    assert fewest_steps(start)[frozenset({0, 1})] == 4 and frozenset({0, 1}) not in fewest_steps(empty_handed)


def _waiting(start, state):
    *rest, waited = state
    if not waited:
        return [((*rest, 1), None)]
    return [((*after, 1), ends) for after, ends in start.successors(tuple(rest))]


def _not_carrying(start, state):
    return [(after, ends) for after, ends in start.successors(state) if None not in after[1]]


@pytest.mark.parametrize("task", [task for task, pair in PAIRS.items() if pair.mission_varies])
def test_a_planner_that_reads_the_mission_is_above_the_ceiling(task: str) -> None:
    for place in (PAIRS[task].train, PAIRS[task].test):
        found = ceiling(place.name, 40)
        assert np.all(found.blind <= found.informed) and found.informed.mean() > found.blind.mean() + 0.05


@pytest.mark.parametrize("task", ["RedBlueDoors", "DoorKey"])
def test_where_all_episodes_have_one_mission_there_is_nothing_to_read(task: str) -> None:
    found = ceiling(PAIRS[task].train.name, 5)
    assert np.array_equal(found.blind, found.informed) and np.all(found.success == 1)


def test_the_four_doors_give_a_quarter() -> None:
    found = ceiling("GoToDoor-5x5", 20)
    assert np.all(found.success == 0.25) and np.all((found.blind < 0.25) & (found.blind > 0.23))


def test_the_rule_of_2020_is_the_easier_one() -> None:
    around, beside = (ceiling("GoToObject-6x6-N2", 40, rule=rule) for rule in ("around", "beside"))
    assert np.all(around.blind >= beside.blind) and around.blind.mean() > beside.blind.mean() + 0.1


def test_grids_are_those_of_their_seeds() -> None:
    assert np.array_equal(ceiling("Fetch-5x5-N2", 4, seed=3).blind, ceiling("Fetch-5x5-N2", 7).blind[3:])
    with pytest.raises(ValueError, match="grids"):
        ceiling("Fetch-5x5-N2", 0)


def test_in_the_large_memory_world_no_chance_is_above_the_ceiling() -> None:
    best, found = without_memory("MemoryS13", chances=(0.1, 0.5, 1.0))
    assert best == 1.0 and found == pytest.approx(ceiling("MemoryS13", 200).blind.mean(), abs=2e-3)


def test_in_the_small_memory_world_a_look_back_needs_no_memory() -> None:
    best, found = without_memory("MemoryS7")
    limits = ceiling("MemoryS7", 200)
    assert limits.blind.mean() + 0.3 < found < limits.informed.mean() and 0.05 < best < 0.15


def played(world: World, seed: int, chance: float, random: np.random.Generator, cue: bool = True) -> float:
    """The return of one episode in the world itself; without `cue` what stands in the room is painted over."""
    image, reward, ended = world.reset(seed), 0.0, False
    while not ended:
        if not cue:
            image = image.copy()
            image[:, :5][np.isin(image[:, :5, 0], (5, 6))] = 1
        law = look_back(image, chance)
        image, reward, ended = world.step(int(random.choice(list(law), p=list(law.values()))))
    return reward


def test_the_expected_return_is_that_of_episodes() -> None:
    world, random = World("MemoryS7"), np.random.default_rng(0)
    for seed in all_grids("MemoryS7")[:4]:
        found = [played(world, seed, 0.3, random) for _ in range(300)]
        world.reset(seed)
        error = np.std(found) / np.sqrt(len(found)) + 1e-3
        assert abs(np.mean(found) - expected_return(world, 0.3)) < 4 * error


def test_who_cannot_see_the_cue_is_at_the_ceiling() -> None:
    world, random = World("MemoryS7"), np.random.default_rng(0)
    found = [played(world, seed, 0.09, random, cue=False) for seed in all_grids("MemoryS7") for _ in range(20)]
    assert np.mean(found) < 0.492 + 4 * np.std(found) / np.sqrt(len(found))


def test_without_memory_is_about_memory_alone() -> None:
    with pytest.raises(ValueError, match="MemoryS7 and MemoryS13"):
        without_memory("DoorKey-5x5")
    for chances in ((), (10,), (0.5, -0.1), (float("nan"),)):
        with pytest.raises(ValueError, match="probabilities from 0 to 1"):
            without_memory("MemoryS7", chances)
