"""The grid worlds of Table 4: sizes, what is seen, when GoToObject succeeds, who has to read the mission."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from experiments.minigrid.environments import ACTIONS, DONE, PAIRS, PLACES, VIEW, World, task_of


@pytest.mark.parametrize("name", PLACES)
def test_a_place_has_its_size_and_the_agent_sees_integers(name: str) -> None:
    world = World(name)
    image = world.reset(3)
    assert image.shape == VIEW and image.dtype == np.uint8
    assert world.grid_world.height == PLACES[name].size
    assert world.grid_world.action_space.n == len(ACTIONS)
    seen, reward, ended = world.step(ACTIONS.index("left"))
    assert (seen.shape, reward, ended) == (VIEW, 0.0, False)
    assert np.array_equal(world.reset(3), image)


def test_pairs_grow_from_training_to_test() -> None:
    assert len(PAIRS) == 6 and len(PLACES) == 12
    for task, pair in PAIRS.items():
        assert pair.train.size < pair.test.size and pair.train.max_steps < pair.test.max_steps
        assert task_of(pair.train.name) == task_of(pair.test.name) == task


def test_an_episode_ends_when_its_time_is_over() -> None:
    world = World("GoToDoor-5x5")
    world.reset(0)
    ends = [world.step(0)[2] for _ in range(100)]
    assert ends == [False] * 99 + [True]


@pytest.mark.parametrize("rule", ["around", "beside"])
def test_go_to_object_succeeds_where_its_rule_says(rule: str) -> None:
    found = {}
    for dx in range(-2, 3):
        for dy in range(-2, 3):
            world = World("GoToObject-8x8-N2", rule)
            world.reset(1)
            world.grid_world.target_pos = (3, 3)
            world.grid_world.agent_pos = (3 + dx, 3 + dy)
            _, reward, ended = world.step(DONE)
            assert ended
            found[dx, dy] = reward
    near = {place for place, reward in found.items() if reward > 0}
    beside = {(0, 1), (0, -1), (1, 0), (-1, 0)}
    assert near == (beside if rule == "beside" else {(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)})
    assert {found[place] for place in near} == {1 - 0.9 / 320}


def test_a_mission_that_was_asked_for_has_to_be_read_in_every_episode() -> None:
    world = World("Fetch-5x5-N2", mission=True)
    for seed in range(2):
        world.reset(seed)
        with pytest.raises(ValueError, match="not read in this episode"):
            world.step(0)
        assert "fetch a" in world.mission or "get a" in world.mission
        world.step(0)
    with pytest.raises(ValueError, match="mission=False"):
        _ = World("Fetch-5x5-N2").mission


def test_other_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"place: one of RedBlueDoors-6x6.*got 'DoorKey-6x6'"):
        World("DoorKey-6x6")
    with pytest.raises(ValueError, match="around or beside"):
        World("GoToObject-6x6-N2", "near")  # type: ignore[arg-type]


def test_without_minigrid_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"need minigrid.*pip install minigrid gymnasium -c requirements.lock"
    ):
        World("DoorKey-5x5")
