"""PPO: its formulas by brute force, a memory that ends with the episode, resumption, and that it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments.minigrid.acting import Processes, returns_of
from experiments.minigrid.agent import LAYERS, Agent, emptied
from experiments.minigrid.environments import VIEW, World
from experiments.minigrid.ppo import Frames, Settings, advantages, loss_of, train

SMALL = {"processes": 8, "frames": 16, "recurrence": 4, "learning_rate": 0.003}


class Signs:
    """A sign is seen, and after `pause` blank images the action has to be its number, 0 or 1.

    shuffled: rewards are drawn, whatever was done.
    """

    def __init__(self, pause: int = 0, shuffled: bool = False) -> None:
        self.pause, self.shuffled = pause, shuffled

    def reset(self, seed: int) -> Any:
        self.random, self.steps = np.random.default_rng(seed), 0
        self.sign = int(self.random.integers(2))
        image = np.zeros(VIEW, dtype=np.uint8)
        image[:, :, 1] = 5 * self.sign
        return image

    def step(self, action: int) -> tuple[Any, float, bool]:
        self.steps += 1
        ended = self.steps > self.pause
        right = bool(self.random.integers(2)) if self.shuffled else action == self.sign
        return np.zeros(VIEW, dtype=np.uint8), float(ended and right), ended


def drawn(frames: int, processes: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    random = np.random.default_rng(seed)
    rewards, values = (torch.tensor(random.normal(size=(frames, processes))) for _ in range(2))
    return (
        rewards,
        values,
        torch.tensor(random.random((frames, processes)) < 0.3),
        torch.tensor(random.normal(size=processes)),
    )


def test_advantages_are_discounted_sums_of_errors_within_the_episode() -> None:
    rewards, values, ends, last = drawn(9, 3)
    gamma, lambda_ = 0.9, 0.7
    following = torch.cat([values[1:], last[None]])
    found = advantages(rewards, values, ends, last, gamma, lambda_)
    for p in range(3):
        for t in range(9):
            total, weight = 0.0, 1.0
            for later in range(t, 9):
                goes_on = 0.0 if ends[later, p] else 1.0
                error = rewards[later, p] + gamma * goes_on * following[later, p] - values[later, p]
                total, weight = total + weight * float(error), weight * gamma * lambda_
                if ends[later, p]:
                    break
            assert float(found[t, p]) == pytest.approx(total, abs=1e-12)
    blurred = advantages(rewards, values, torch.zeros_like(ends), last, gamma, lambda_)
    assert (found - blurred).abs().max() > 0.1  # control: an end that is overlooked shows


def test_with_lambda_one_an_advantage_is_the_return_less_the_value() -> None:
    rewards, values, ends, last = drawn(6, 2)
    ends[:] = False
    found = advantages(rewards, values, ends, last, 0.8, 1.0)
    total = last
    for t in reversed(range(6)):
        total = rewards[t] + 0.8 * total
        assert torch.allclose(found[t], total - values[t], atol=1e-12)


def tiny(seed: int) -> tuple[torch.Tensor, torch.Tensor, Frames, torch.Tensor]:
    random = np.random.default_rng(seed)
    logits, values = (torch.tensor(random.normal(size=shape), requires_grad=True) for shape in ((2, 3, 4), (2, 3)))
    actions = torch.tensor(random.integers(4, size=(2, 3)))
    numbers = [torch.tensor(random.normal(size=(2, 3))) for _ in range(4)]
    blank = torch.zeros(2, 3)
    before = Frames(blank, blank, actions, numbers[0] / 4 - 1.4, numbers[1], numbers[2], blank)
    return logits, values, before, numbers[3]


def formula(logits: Any, values: Any, before: Frames, advantage: Any, settings: Settings, clipped: bool = True) -> Any:
    """The loss, frame by frame, as it is written down."""
    total = 0.0
    for place in np.ndindex(values.shape):
        p = torch.softmax(logits[place], 0)
        a, old, low, high = advantage[place], before.values[place], 1 - settings.clip, 1 + settings.clip
        ratio = p[before.actions[place]] / before.log_probabilities[place].exp()
        bounded = (
            min(max(ratio, torch.tensor(low, dtype=torch.float64)), torch.tensor(high, dtype=torch.float64))
            if clipped
            else ratio
        )
        step = values[place] - old
        near = old + min(
            max(step, torch.tensor(-settings.clip, dtype=torch.float64)),
            torch.tensor(settings.clip, dtype=torch.float64),
        )
        errors = (values[place] - old - a) ** 2, (near - old - a) ** 2
        total = total - min(ratio * a, bounded * a) + settings.entropy * (p * p.log()).sum()
        total = total + settings.value * max(errors)
    return total / values.numel()


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_and_its_gradients_are_those_of_the_formula(seed: int) -> None:
    settings = Settings(entropy=0.3)
    logits, values, before, advantage = tiny(seed)
    loss = loss_of(logits, values, before, advantage, settings)
    written = formula(logits, values, before, advantage, settings)
    assert float(loss.detach()) == pytest.approx(float(written.detach()), abs=1e-12)
    for one, other in zip(
        torch.autograd.grad(loss, [logits, values]), torch.autograd.grad(written, [logits, values]), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-12)


def test_a_ratio_that_is_not_clipped_shows() -> None:
    settings, far = Settings(), 0.0
    for seed in range(5):
        case = tiny(seed)
        far = max(far, abs(float((loss_of(*case, settings) - formula(*case, settings, clipped=False)).detach())))
    assert far > 0.01


def walk(agent: Agent, begins: list[bool], images: torch.Tensor) -> torch.Tensor:
    """Values while one sequence is acted on."""
    state, found = agent.initial_state(1), []
    for image, begin in zip(images, begins, strict=True):
        _, value, state = agent.step(image[None], torch.tensor([begin]), state)
        found.append(value)
    return torch.cat(found).detach()


def pictures(count: int) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(3).integers(0, 9, size=(count, *VIEW)), dtype=torch.uint8)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(
    ("memory", "remembers", "forgets"),
    [("episodes", True, True), ("released", True, True), ("never", True, False), ("steps", False, True)],
)
def test_memory_is_emptied_where_an_episode_begins_and_nowhere_else(
    memory: str, remembers: bool, forgets: bool, layer: str
) -> None:
    """An episode after another one is like a first one, and its steps remember; the controls break one of both."""
    images, begins = pictures(14), [step in (0, 6) for step in range(14)]
    agent = Agent(layer, 8, buffer=2, relevant=2, memory=memory, seed=2)  # type: ignore[arg-type]
    whole, alone = walk(agent, begins, images), walk(agent, begins[6:], images[6:])
    assert torch.allclose(whole[6:], alone, atol=1e-5) == forgets
    assert torch.allclose(whole[1], walk(agent, [True], images[1:2])[0], atol=1e-5) != remembers


@pytest.mark.parametrize("layer", LAYERS)
def test_one_sequence_begins_anew_and_its_neighbours_go_on(layer: str) -> None:
    agent, images = Agent(layer, 8, buffer=2, relevant=2, seed=2), pictures(12).unflatten(0, (4, 3))
    ends = torch.tensor([[1, 1, 1], [0, 1, 0], [0, 0, 0], [0, 1, 1]]).bool()
    state, found = agent.initial_state(3), []
    for t in range(4):
        _, values, state = agent.step(images[t], ends[t], state)
        found.append(values.detach())
    for row in range(3):
        alone = walk(agent, ends[:, row].tolist(), images[:, row])
        assert torch.allclose(torch.stack(found)[:, row], alone, atol=1e-5)


def test_a_memory_that_grows_is_as_long_as_the_longest_episode_under_way() -> None:
    agent, images = Agent("mem_lstm", 8), pictures(2)
    state, lengths = agent.initial_state(2), []
    for begins in ([1, 1], [0, 0], [1, 0], [0, 0], [0, 1], [0, 0], [1, 1]):
        _, _, state = agent.step(images, torch.tensor(begins).bool(), state)
        lengths.append(state.scores.shape[1])
        assert state.steps == state.buffer.shape[1] == lengths[-1]
    assert lengths == [1, 2, 3, 4, 3, 4, 1]


def test_what_is_kept_stays() -> None:
    agent = Agent(width=4)
    _, _, state = agent.step(pictures(2), torch.ones(2).bool(), agent.initial_state(2))
    after = emptied(agent.layer, state, torch.ones(2).bool(), keep=("cell",))
    assert torch.equal(after.cell, state.cell) and not after.hidden.any() and state.hidden.any()
    assert emptied(agent.layer, state, torch.zeros(2).bool()) is state


def test_as_released_an_agent_acts_without_attention() -> None:
    """Like one that attends to its last state alone; the control attends."""
    images, begins, found = pictures(6), [True] + [False] * 5, {}
    for memory, buffer, relevant in (("released", 3, 2), ("episodes", 1, 0), ("episodes", 3, 2)):
        agent = Agent("rel_lstm", 8, buffer=buffer, relevant=relevant, memory=memory, seed=7)  # type: ignore[arg-type]
        found[memory, buffer] = walk(agent, begins, images)
    assert torch.allclose(found["released", 3], found["episodes", 1], atol=1e-6)
    assert not torch.allclose(found["episodes", 3], found["episodes", 1], atol=1e-3)


@pytest.mark.parametrize("border", [None, 4])
@pytest.mark.parametrize("layer", ["mem_lstm", "rel_lstm"])
def test_as_released_an_agent_learns_as_the_code_computes(layer: str, border: int | None) -> None:
    """Written out for one sequence, with room for all states: the mask of an episode's end, (h, c) = 0 in what a step
    is handed, reaches c and half of s in one layer, and neither in the other, which reads what it has kept itself."""
    agent = Agent(layer, 8, buffer=7, relevant=2, memory="released", seed=3).double()
    images, begins = pictures(7).unsqueeze(1), torch.tensor([[step in (0, border)] for step in range(7)])
    weights, states, found = agent.layer, [], []
    s = h = cell = torch.zeros(8, dtype=torch.float64)
    for step, seen in enumerate(agent._seen(images.flatten(0, 1)).detach()):
        masked = layer == "mem_lstm" and step == border
        if step:
            kept = torch.stack(states)
            scores = torch.tanh(s @ weights.weight_query.T + kept @ weights.weight_key.T) @ weights.weight_score
            s = ((0 if masked else h) + scores.softmax(0) @ kept) / 2
        cell = torch.zeros_like(cell) if masked else cell
        i, f, g, o = (seen @ weights.weight_ih.T + weights.bias + s @ weights.weight_hh.T).chunk(4)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        h = o.sigmoid() * cell.tanh()
        states.append(h)
        found.append(agent.actor(h))
    logits, _ = agent.window(images, begins, agent.initial_state(1))
    assert torch.allclose(logits[:, 0], torch.stack(found), atol=1e-9)
    if border:
        without, _ = agent.window(images, begins & (torch.arange(7) != border)[:, None], agent.initial_state(1))
        assert torch.equal(logits, without) == (layer == "rel_lstm")
        agent.memory = "episodes"
        assert not torch.allclose(agent.window(images, begins, agent.initial_state(1))[0], logits, atol=1e-4)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("memory", ["episodes", "steps", "released"])
def test_the_ratio_is_one_before_the_first_update(layer: str, memory: str) -> None:
    """What is read again has the probabilities that it was acted with, over ends of episodes; not so as released."""
    agent = Agent(layer, 8, buffer=2, relevant=2, memory=memory, seed=1)  # type: ignore[arg-type]
    processes = Processes([Signs(2) for _ in range(3)], 0)
    state, begins, kept = agent.initial_state(3), torch.ones(3, dtype=torch.bool), []
    for _ in range(8):
        images = torch.from_numpy(np.stack(processes.images))
        logits, values, state = agent.step(images, begins, state)
        kept.append((images, begins, logits, values))
        begins = torch.tensor(processes.step([0, 1, 2])[1])
    images, begins, logits, values = (torch.stack(column) for column in zip(*kept, strict=True))
    assert begins.any(dim=1)[3]
    again, valued = agent.window(images, begins, agent.initial_state(3))
    same = torch.allclose(again, logits, atol=1e-5) and torch.allclose(valued, values, atol=1e-5)
    assert same == (memory != "released" or layer == "lstm")


def test_it_learns_to_read_a_sign_and_shuffled_rewards_teach_nothing() -> None:
    found = {}
    for shuffled in (False, True):
        agent = Agent(width=16, seed=0)
        train(agent, lambda shuffled=shuffled: Signs(shuffled=shuffled), Settings(**SMALL), 14, 0)
        found[shuffled] = returns_of(agent, Signs, 200, 1).mean()
    assert found[False] > 0.95 and found[True] < 0.7


def test_a_sign_that_is_gone_needs_the_memory() -> None:
    found = {}
    for memory in ("episodes", "steps"):
        agent = Agent(width=16, memory=memory, seed=0)  # type: ignore[arg-type]
        train(agent, lambda: Signs(pause=1), Settings(**SMALL | {"recurrence": 8}), 25, 0)
        found[memory] = returns_of(agent, lambda: Signs(pause=1), 200, 1).mean()
    assert found["episodes"] > 0.9 and found["steps"] < 0.65


@pytest.mark.parametrize("layer", LAYERS)
def test_a_resumed_run_ends_in_the_same_numbers(layer: str, tmp_path: Path) -> None:
    def run(updates: list[int], folder: str) -> tuple[Agent, Any]:
        for upto in updates:
            agent = Agent(layer, 8, buffer=2, relevant=2, seed=0)
            kept = tmp_path / folder / "checkpoint.safetensors"
            course = train(agent, lambda: World("DoorKey-5x5"), Settings(**SMALL), upto, 5, checkpoint=kept)
        return agent, course

    (whole, once), (parts, twice) = run([3], "whole"), run([1, 2, 3], "parts")
    assert (once.episodes, once.returns) == (twice.episodes, twice.returns)
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    kept = tmp_path / "checkpoint.safetensors"
    train(Agent(width=4), Signs, Settings(**SMALL), 1, 0, checkpoint=kept)
    with pytest.raises(ValueError, match="clip"):
        train(Agent(width=4), Signs, Settings(**SMALL, clip=0.3), 2, 0, checkpoint=kept)


def test_every_episode_of_a_test_counts_once() -> None:
    made = []

    class Numbered(Signs):
        def reset(self, seed: int) -> Any:
            made.append(seed)
            return super().reset(seed)

    found = returns_of(Agent(width=4), Numbered, 13, 2, processes=4)
    assert len(found) == 13 == len(made) == len(set(made))


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong in ({"frames": 20}, {"clip": 0}, {"gae": 1.5}, {"minibatch": 3}):
        with pytest.raises(ValueError):
            Settings(**wrong)
    with pytest.raises(ValueError, match="episodes, steps, never, released"):
        Agent(memory="always")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="layer: "):
        Agent("gru")


def test_whoever_has_no_episodes_left_remembers_nothing() -> None:
    """Else the memory of all would grow until the last has ended."""
    long, slots, worlds = 12, [], []

    class Lasting:
        """The second world has one episode of one step; the first has two long ones."""

        def __init__(self) -> None:
            worlds.append(self)

        def reset(self, seed: int) -> Any:
            self.left = 1 if self is worlds[1] else long
            return np.zeros(VIEW, dtype=np.uint8)

        def step(self, action: int) -> tuple[Any, float, bool]:
            self.left -= 1
            return np.zeros(VIEW, dtype=np.uint8), 0.0, self.left == 0

    class Watched(Agent):
        def step(self, images: torch.Tensor, begins: torch.Tensor, state: Any) -> Any:
            found = super().step(images, begins, state)
            slots.append(found[2].buffer.shape[1])
            return found

    returns_of(Watched("mem_lstm", 4), Lasting, 3, 0, processes=2)
    assert len(slots) == 2 * long and max(slots) == long
