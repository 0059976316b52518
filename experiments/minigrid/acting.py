"""Acting in environments side by side, to learn from it or to be tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.minigrid.agent import Agent
from experiments.minigrid.environments import Image

TRAINING, ACTING, TESTING = range(3)  # streams of random numbers


class Environment(Protocol):
    """What an agent acts in, such as `environments.World`."""

    def reset(self, seed: int) -> Image: ...
    def step(self, action: int) -> tuple[Image, float, bool]: ...


class Processes:
    """Environments side by side. Episode k of process p has a seed of its own, whatever the others do."""

    def __init__(self, environments: Sequence[Environment], seed: int) -> None:
        self.environments, self.seed = environments, seed
        self.numbers = [0] * len(environments)  # episodes that have ended
        self.actions: list[list[int]] = [[] for _ in environments]  # of the episodes under way
        self.returns = [0.0] * len(environments)
        self.images = [self._reset(process) for process in range(len(environments))]

    def step(self, actions: Sequence[int]) -> tuple[list[float], list[bool], list[float]]:
        """Rewards and ends of all processes, and the returns of the episodes that ended; these begin anew."""
        rewards, ends, finished = [], [], []
        for process, action in enumerate(actions):
            self.images[process], reward, ended = self.environments[process].step(action)
            self.actions[process].append(action)
            self.returns[process] += reward
            if ended:
                finished.append(self.returns[process])
                self.numbers[process] += 1
                self.actions[process], self.returns[process] = [], 0.0
                self.images[process] = self._reset(process)
            rewards.append(reward)
            ends.append(ended)
        return rewards, ends, finished

    def restore(self, numbers: Sequence[int], actions: Sequence[Sequence[int]]) -> None:
        """Where the episodes with these numbers stood after these actions, by doing them again."""
        self.numbers, self.actions = list(numbers), [list(done) for done in actions]
        for process, done in enumerate(self.actions):
            self.images[process], self.returns[process] = self._reset(process), 0.0
            for action in done:
                self.images[process], reward, _ = self.environments[process].step(action)
                self.returns[process] += reward

    def _reset(self, process: int) -> Image:
        return self.environments[process].reset(number(self.seed, TRAINING, process, self.numbers[process]))


def returns_of(
    agent: Agent, make: Callable[[], Environment], episodes: int, seed: int, processes: int = 20
) -> NDArray[np.float64]:
    """Returns of episodes (episodes,), by drawn actions; the episodes of a seed are the same for all agents.

    Every process has its share of them, so that short ones do not count more often.
    """
    count = min(processes, episodes)
    random = torch.Generator().manual_seed(number(seed, TESTING))
    waiting = [list(range(process, episodes, count)) for process in range(count)]
    worlds = [make() for _ in range(count)]
    found, under_way = np.zeros(episodes), [queue.pop(0) for queue in waiting]
    images = [world.reset(number(seed, TESTING, episode)) for world, episode in zip(worlds, under_way, strict=True)]
    state, begins, active = agent.initial_state(count), torch.ones(count, dtype=torch.bool), [True] * count
    device = agent.device
    while any(active):
        with torch.no_grad():
            logits, _, state = agent.step(as_tensor(images).to(device), begins.to(device), state)
        actions = torch.multinomial(logits.softmax(-1).cpu(), 1, generator=random)[:, 0].tolist()
        begins = ~torch.tensor(active)  # whoever has no episodes left forgets at every step: its memory would grow on
        for process in (process for process in range(count) if active[process]):
            images[process], reward, ended = worlds[process].step(actions[process])
            found[under_way[process]] += reward
            if not ended:
                continue
            begins[process] = True
            if not waiting[process]:
                active[process] = False
                continue
            under_way[process] = waiting[process].pop(0)
            images[process] = worlds[process].reset(number(seed, TESTING, under_way[process]))
    return found


def as_tensor(images: Sequence[Image]) -> Tensor:
    """(batch, 7, 7, 3), whole numbers."""
    return torch.from_numpy(np.stack(images))


def number(*words: int) -> int:
    """A seed of its own for every sequence of whole numbers."""
    return int(np.random.default_rng(list(words)).integers(2**31))
