"""The most that an agent can get in a grid world without knowing what it is to do there, by shortest paths.

In an episode the mission is one of m, drawn after the grid and independent of it, and nothing that an agent sees before
the end depends on it. So an agent that does not read it does what it would do under any other: without chance in its
actions, one plan until an end that fulfils a set S of the missions after t actions. Its return is sum_{S} p R(t), with
R(t) = 1 - 0.9 t/max_steps, and

    blind = max over S of P(S) R(t_S),    informed = sum over missions i of p_i max over S with i of R(t_S),

t_S the fewest actions to an end that fulfils S. Chance in the actions averages over plans and gains nothing. The
planner behind `blind` sees all of the grid and knows all rules. So `blind` is the largest expected return of anything
that sees the whole grid and not the mission, exact for each grid, and an upper bound for an agent that sees a part of
the grid, whatever its memory and its training.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.minigrid.environments import PLACES, Place, Rule, World, task_of
from lib.checks import whole_number

Cell = tuple[int, int]
State = Hashable
Fulfilled = frozenset[int]
"""Missions that an end fulfils, by number."""
Successors = Callable[[Any], Iterable[tuple[State, Fulfilled | None]]]
"""What one action leads to from a state: another state and None, or an end and the missions that it fulfils."""

AHEAD: tuple[Cell, ...] = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""From a heading, 0 to 3 clockwise from the right, to the cell in front."""


@dataclass(frozen=True)
class Start:
    """A grid as a planner sees it: where the agent stands, what ends an episode, and what is drawn as its mission.

    weights: probability of every mission. possible: sets of missions that some end may fulfil; the search ends when all
    of them are found.
    """

    state: State
    successors: Successors
    weights: tuple[float, ...]
    possible: frozenset[Fulfilled]


@dataclass(frozen=True)
class Ceiling:
    """Of grids of one place, a number each (grids,).

    blind, informed: largest expected return without and with the mission. success: largest probability of success
    without it, however long that takes.
    """

    blind: NDArray[np.float64]
    informed: NDArray[np.float64]
    success: NDArray[np.float64]


def ceiling(name: str, grids: int, seed: int = 0, rule: Rule = "around") -> Ceiling:
    """Of the grids of seeds `seed` to `seed` + `grids` - 1.

    In Memory what is not known is the cue, which of two ends matches the object in the first room: the ceiling of who
    has never seen it, or has forgotten it. RedBlueDoors and DoorKey have one mission, so that both are the same.
    Cost: one breadth-first search a grid. Raises ValueError for another place or rule, and below one grid.
    """
    world, found = World(name, rule), []
    for number in range(whole_number(grids, "grids", 1)):
        world.reset(seed + number)
        found.append(returns(start_of(world), PLACES[name]))
    return Ceiling(*np.array(found, dtype=np.float64).T)


def returns(start: Start, place: Place) -> tuple[float, float, float]:
    """Largest expected return without the mission and with it, and largest probability of success without it."""
    steps = fewest_steps(start)
    shares = {ends: sum(start.weights[mission] for mission in ends) for ends in steps}
    blind = max((shares[ends] * place.reward(count) for ends, count in steps.items()), default=0.0)
    informed = sum(
        weight * max((place.reward(count) for ends, count in steps.items() if mission in ends), default=0.0)
        for mission, weight in enumerate(start.weights)
    )
    return blind, informed, max(shares.values(), default=0.0)


def fewest_steps(start: Start) -> dict[Fulfilled, int]:
    """The fewest actions to an end that fulfils each set of missions, none for a set that no end does."""
    found: dict[Fulfilled, int] = {}
    seen, frontier, count = {start.state}, [start.state], 0
    while frontier and not start.possible <= found.keys():
        count += 1
        later = []
        for state in frontier:
            for following, ends in start.successors(state):
                if ends is not None:
                    found.setdefault(ends, count)
                elif following not in seen:
                    seen.add(following)
                    later.append(following)
        frontier = later
    found.pop(frozenset(), None)  # an end that fulfils nothing
    return found


def start_of(world: World) -> Start:
    """The grid that the world has been reset to."""
    grid = world.grid_world
    cells = {(x, y): grid.grid.get(x, y) for x in range(grid.width) for y in range(grid.height)}
    objects = {cell: thing for cell, thing in cells.items() if thing is not None}
    agent = (int(grid.agent_pos[0]), int(grid.agent_pos[1]), int(grid.agent_dir))
    return _STARTS[task_of(world.place.name)](agent, objects, world)


def _turned_or_walked(agent: tuple[int, int, int], blocked: Iterable[Cell]) -> list[tuple[int, int, int]]:
    x, y, heading = agent
    front = _front(agent)
    walked = [] if front in blocked else [(*front, heading)]
    return [(x, y, (heading - 1) % 4), (x, y, (heading + 1) % 4), *walked]


def _front(agent: tuple[int, int, int]) -> Cell:
    dx, dy = AHEAD[agent[2]]
    return agent[0] + dx, agent[1] + dy


def _go_to_door(agent: tuple[int, int, int], objects: Mapping[Cell, Any], world: World) -> Start:
    """`done` beside the door. The doors stay closed: opening one ends the episode without success."""
    doors = [cell for cell, thing in objects.items() if thing.type == "door"]

    def successors(state: tuple[int, int, int]) -> Iterable[tuple[State, Fulfilled | None]]:
        yield from ((after, None) for after in _turned_or_walked(state, objects))
        yield state, _served(state[:2], doors, "beside")

    return _uniform(agent, successors, len(doors), (frozenset({door}) for door in range(len(doors))))


def _go_to_object(agent: tuple[int, int, int], objects: Mapping[Cell, Any], world: World) -> Start:
    """`done` near the place where the object was at the start. Objects can be carried away, one at a time."""
    targets = [cell for cell, thing in objects.items() if thing.type != "wall"]
    walls = {cell for cell, thing in objects.items() if thing.type == "wall"}

    def successors(state: tuple[Any, ...]) -> Iterable[tuple[State, Fulfilled | None]]:
        where, things = state  # things: a cell each, or None for the one that is carried
        front = _front(where)
        yield from (((after, things), None) for after in _turned_or_walked(where, walls.union(things)))
        if None not in things and front in things:
            yield (where, tuple(None if thing == front else thing for thing in things)), None
        if None in things and front not in things and front not in walls:
            yield (where, tuple(front if thing is None else thing for thing in things)), None
        yield state, _served(where[:2], targets, world.rule)

    free = (cell for cell in np.ndindex(world.grid_world.width, world.grid_world.height) if cell not in walls)
    possible = {_served(cell, targets, world.rule) for cell in free} - {frozenset()}
    return _uniform((agent, tuple(targets)), successors, len(targets), possible)


def _served(cell: Iterable[int], targets: Iterable[Cell], rule: Rule) -> Fulfilled:
    """The targets that are near the cell."""
    x, y = cell
    distances = ((abs(x - a), abs(y - b)) for a, b in targets)
    near = (max(d) <= 1 if rule == "around" else sum(d) == 1 for d in distances)
    return frozenset(number for number, is_near in enumerate(near) if is_near)


def _fetch(agent: tuple[int, int, int], objects: Mapping[Cell, Any], world: World) -> Start:
    """The first object that is picked up ends the episode; one of the same kind and colour is as good."""
    things = [cell for cell, thing in objects.items() if thing.type != "wall"]
    looks = [(objects[cell].type, objects[cell].color) for cell in things]
    alike = {
        cell: frozenset(number for number, other in enumerate(looks) if other == look)
        for cell, look in zip(things, looks, strict=True)
    }

    def successors(state: tuple[int, int, int]) -> Iterable[tuple[State, Fulfilled | None]]:
        yield from ((after, None) for after in _turned_or_walked(state, objects))
        if _front(state) in alike:
            yield state, alike[_front(state)]

    return _uniform(agent, successors, len(things), set(alike.values()))


def _memory(agent: tuple[int, int, int], objects: Mapping[Cell, Any], world: World) -> Start:
    """The cell beside either end's object ends the episode; the cue says which, and both are as likely."""
    ends = {tuple(map(int, cell)) for cell in (world.grid_world.success_pos, world.grid_world.failure_pos)}
    fulfils = {cell: frozenset({number}) for number, cell in enumerate(sorted(ends))}

    def successors(state: tuple[int, int, int]) -> Iterable[tuple[State, Fulfilled | None]]:
        yield from ((after, fulfils.get(after[:2])) for after in _turned_or_walked(state, objects))

    return _uniform(agent, successors, 2, set(fulfils.values()))


def _red_blue_doors(agent: tuple[int, int, int], objects: Mapping[Cell, Any], world: World) -> Start:
    """The blue door, opened while the red one is open."""
    doors = {thing.color: cell for cell, thing in objects.items() if thing.type == "door"}
    closed = set(objects)

    def successors(state: tuple[Any, ...]) -> Iterable[tuple[State, Fulfilled | None]]:
        where, red_is_open = state
        blocked = closed - {doors["red"]} if red_is_open else closed
        yield from (((after, red_is_open), None) for after in _turned_or_walked(where, blocked))
        if _front(where) == doors["red"]:
            yield (where, not red_is_open), None
        if _front(where) == doors["blue"]:
            yield state, frozenset({0} if red_is_open else ())

    return _uniform((agent, False), successors, 1, {frozenset({0})})


def _door_key(agent: tuple[int, int, int], objects: Mapping[Cell, Any], world: World) -> Start:
    """The goal, behind a door that needs the key. Without a second thing to carry, dropping the key gains nothing."""
    place = {thing.type: cell for cell, thing in objects.items() if thing.type != "wall"}
    walls = {cell for cell, thing in objects.items() if thing.type == "wall"}
    blocked = (walls | {place["key"], place["door"]}, walls | {place["door"]}, walls)

    def successors(state: tuple[Any, ...]) -> Iterable[tuple[State, Fulfilled | None]]:
        where, done = state  # nothing, key in hand, door open
        for after in _turned_or_walked(where, blocked[done]):
            yield (after, done), frozenset({0}) if after[:2] == place["goal"] else None
        if done < 2 and _front(where) == place[("key", "door")[done]]:
            yield (where, done + 1), None

    return _uniform((agent, 0), successors, 1, {frozenset({0})})


def _uniform(state: State, successors: Successors, missions: int, possible: Iterable[Fulfilled]) -> Start:
    return Start(state, successors, (1 / missions,) * missions, frozenset(possible))


_STARTS: dict[str, Callable[[tuple[int, int, int], Mapping[Cell, Any], World], Start]] = {
    "GoToDoor": _go_to_door,
    "GoToObject": _go_to_object,
    "Fetch": _fetch,
    "Memory": _memory,
    "RedBlueDoors": _red_blue_doors,
    "DoorKey": _door_key,
}
