"""The twelve grid worlds of Kerg et al. (2020), Table 4, as an agent sees them: seven by seven cells of integers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lib.checks import whole_number

Image = NDArray[np.uint8]
"""(7, 7, 3): kind, colour and state of the cells ahead; the agent stands in the middle of the last row, [3, 6]."""
Rule = Literal["around", "beside"]

VIEW = (7, 7, 3)
ACTIONS = ("left", "right", "forward", "pick up", "drop", "toggle", "done")
DONE = ACTIONS.index("done")
RULES = ("around", "beside")


@dataclass(frozen=True)
class Place:
    """One grid world. name: that of MiniGrid, without prefix and version; size: of the room; max_steps: of an episode.

    Success after `steps` actions is rewarded with 1 - 0.9 steps / max_steps, anything else with 0.
    """

    name: str
    size: int
    max_steps: int

    def reward(self, steps: float) -> float:
        return 1 - 0.9 * steps / self.max_steps


@dataclass(frozen=True)
class Pair:
    """A task of Table 4: where the agent learns, and the larger place where it is tested."""

    task: str
    train: Place
    test: Place
    mission_varies: bool  # from episode to episode, so that who does not read it does not know what to do


PAIRS = {
    pair.task: pair
    for pair in (
        Pair("RedBlueDoors", Place("RedBlueDoors-6x6", 6, 720), Place("RedBlueDoors-8x8", 8, 1280), False),
        Pair("GoToObject", Place("GoToObject-6x6-N2", 6, 180), Place("GoToObject-8x8-N2", 8, 320), True),
        Pair("Memory", Place("MemoryS7", 7, 245), Place("MemoryS13", 13, 845), False),
        Pair("GoToDoor", Place("GoToDoor-5x5", 5, 100), Place("GoToDoor-8x8", 8, 256), True),
        Pair("Fetch", Place("Fetch-5x5-N2", 5, 125), Place("Fetch-8x8-N3", 8, 320), True),
        Pair("DoorKey", Place("DoorKey-5x5", 5, 250), Place("DoorKey-16x16", 16, 2560), False),
    )
}
PLACES = {place.name: place for pair in PAIRS.values() for place in (pair.train, pair.test)}


def task_of(name: str) -> str:
    """The task that a place belongs to. Raises ValueError for a name that is not among PLACES."""
    if name not in PLACES:
        raise ValueError(f"place: one of {', '.join(PLACES)} is allowed, got {name!r}")
    return next(task for task, pair in PAIRS.items() if name in (pair.train.name, pair.test.name))


class World:
    """A place to act in, one episode after the other.

    rule, of GoToObject alone: with "around", as in MiniGrid up to 2.0.0 and so in 2020, `done` succeeds on the nine
    cells around and under the object; with "beside", as from 2.3.1 on at the latest, on the four beside it.
    mission: whether the agent is told the text of its mission. Who asks for it has to read it (`World.mission`) in
    every episode before the first step. Raises ValueError for another place or rule, and ModuleNotFoundError, which
    says what to install, without MiniGrid.
    """

    def __init__(self, name: str, rule: Rule = "around", mission: bool = False) -> None:
        self.task = task_of(name)
        if rule not in RULES:
            raise ValueError(f"rule: {' or '.join(RULES)} is allowed, got {rule!r}")
        self.place, self.rule, self.told = PLACES[name], rule, mission
        self.grid_world = _make(name)
        if self.grid_world.max_steps != self.place.max_steps:
            raise ValueError(f"{name}: episodes of {self.place.max_steps} steps, got {self.grid_world.max_steps}")
        self._unread = False

    def reset(self, seed: int) -> Image:
        """Begin the episode of this seed; the first thing that the agent sees."""
        observed, _ = self.grid_world.reset(seed=whole_number(seed, "seed", 0))
        self._unread = self.told
        return np.asarray(observed["image"])

    @property
    def mission(self) -> str:
        """What the agent is to do in this episode. Raises ValueError if it was not to be told."""
        if not self.told:
            raise ValueError("mission: it is told to an agent whose World has mission=True, got mission=False")
        self._unread = False
        return str(self.grid_world.mission)

    def step(self, action: int) -> tuple[Image, float, bool]:
        """What is seen after the action (a number of ACTIONS), the reward, and whether the episode has ended.

        Raises ValueError if the mission was asked for and has not been read.
        """
        if self._unread:
            raise ValueError("mission: asked for and not read in this episode; read it, or leave mission=False")
        observed, reward, done, out_of_time, _ = self.grid_world.step(action)
        if self.task == "GoToObject" and self.rule == "around" and action == DONE:
            distance = np.abs(np.subtract(self.grid_world.agent_pos, self.grid_world.target_pos)).max()
            reward = self.place.reward(self.grid_world.step_count) if distance <= 1 else 0
        return np.asarray(observed["image"]), float(reward), bool(done or out_of_time)


def _make(name: str) -> Any:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # else a banner is printed on import
    try:
        import gymnasium
        import minigrid  # noqa: F401  (it registers its environments)
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"the grid worlds need {missing.name}, which is not installed: "
            "python -m pip install minigrid gymnasium -c requirements.lock"
        ) from missing
    return gymnasium.make(f"MiniGrid-{name}-v0", disable_env_checker=True).unwrapped
