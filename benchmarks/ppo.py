"""PPO with an LSTM in a grid world: ours beside RecurrentPPO of sb3-contrib, with the same network and settings.

    python benchmarks/ppo.py                  # prints a table, writes results/benchmarks/ppo.json; half an hour

Both learn in DoorKey-5x5 for as many frames, with as many processes, windows, epochs and the same rates, from several
seeds, and are tested by drawn actions on the same episodes. They differ in their starts (biases, kernels), in how the
frames of an update are drawn into batches, and in what else a library does. Times are those of the training alone, of
the clock and of the processor. So returns are to agree within the spread of seeds, and no closer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import gymnasium
import numpy as np
import torch
from timing import as_in_a_sweep

from experiments.minigrid.acting import TESTING, number, returns_of
from experiments.minigrid.agent import Agent
from experiments.minigrid.environments import ACTIONS, VIEW, World
from experiments.minigrid.ppo import Settings, train
from experiments.minigrid.tables import BESIDE
from lib.information.intervals import seed_mean
from lib.report import benchmarks

PLACE = "DoorKey-5x5"
OURS, THEIRS = "ours", "sb3-contrib"


class Channels(gymnasium.Env):  # type: ignore[misc]
    """The place as Gymnasium has environments, channels first; episodes have seeds one after the other."""

    def __init__(self, seed: int) -> None:
        self.world, self.seeds = World(PLACE), np.random.default_rng(seed)
        self.observation_space = gymnasium.spaces.Box(0, 255, (VIEW[2], *VIEW[:2]), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(ACTIONS))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return channels_first(self.world.reset(int(self.seeds.integers(2**31)))), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        image, reward, ended = self.world.step(int(action))
        return channels_first(image), reward, ended, False, {}


def channels_first(image: Any) -> Any:
    return np.ascontiguousarray(image.transpose(2, 0, 1))


def our_agent(settings: Settings, frames: int, seed: int) -> tuple[Callable[[int], Any], Callable[[], None]]:
    """How it is tested, by a number of episodes, and how it is trained."""
    agent, updates = Agent("lstm", seed=seed), frames // (settings.processes * settings.frames)

    def learn() -> None:
        train(agent, partial(World, PLACE), settings, updates, seed)

    return lambda episodes: returns_of(agent, partial(World, PLACE), episodes, 0), learn


def their_agent(settings: Settings, frames: int, seed: int) -> tuple[Callable[[int], Any], Callable[[], None]]:
    """The same of RecurrentPPO."""
    try:
        from sb3_contrib import RecurrentPPO
        from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
        from stable_baselines3.common.vec_env import DummyVecEnv
    except ModuleNotFoundError as missing:
        raise SystemExit(f"{missing}; run: pip install -r requirements-benchmarks.txt") from missing

    class Convolutions(BaseFeaturesExtractor):  # type: ignore[misc]
        def __init__(self, space: Any) -> None:
            super().__init__(space, 64)
            self.layers = Agent("lstm", seed=seed).convolutions

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.layers(images)

    learner = RecurrentPPO(
        "MlpLstmPolicy",
        DummyVecEnv([partial(Channels, number(seed, process)) for process in range(settings.processes)]),
        learning_rate=settings.learning_rate,
        n_steps=settings.frames,
        batch_size=settings.processes * settings.recurrence,
        n_epochs=settings.epochs,
        gamma=settings.discount,
        gae_lambda=settings.gae,
        clip_range=settings.clip,
        clip_range_vf=settings.clip,
        normalize_advantage=False,
        ent_coef=settings.entropy,
        vf_coef=settings.value,
        max_grad_norm=settings.largest_norm,
        seed=seed,
        device="cpu",
        policy_kwargs={
            "features_extractor_class": Convolutions,
            "normalize_images": False,
            "lstm_hidden_size": 64,
            "shared_lstm": True,
            "enable_critic_lstm": False,
            "net_arch": {"pi": [64], "vf": [64]},
            "activation_fn": torch.nn.Tanh,
            "optimizer_kwargs": {"eps": settings.epsilon},
        },
    )

    def tested(episodes: int) -> Any:
        world, found = World(PLACE), np.zeros(episodes)
        torch.manual_seed(seed)
        for episode in range(episodes):
            image, state, begins, ended = world.reset(number(0, TESTING, episode)), None, np.ones(1, dtype=bool), False
            while not ended:
                action, state = learner.predict(channels_first(image)[None], state, begins, deterministic=False)
                image, reward, ended = world.step(int(action[0]))
                found[episode] += reward
                begins = np.zeros(1, dtype=bool)
        return found

    return tested, lambda: learner.learn(frames)


def measured(way: str, settings: Settings, frames: int, seed: int, episodes: int) -> dict[str, Any]:
    test, learn = {OURS: our_agent, THEIRS: their_agent}[way](settings, frames, seed)
    start, busy = time.perf_counter(), time.process_time()
    learn()
    clock, processor = time.perf_counter() - start, time.process_time() - busy
    returns = test(episodes)
    return {
        "way": way,
        "seed": seed,
        "mean return": float(returns.mean()),
        "share of successes": float((returns > 0).mean()),
        "frames a second": frames / clock,
        "frames a second of the processor": frames / processor,
    }


@click.command(help=__doc__)
@click.option("--frames", default=100 * 2048, show_default=True, help="Of each training, in whole updates of 2048.")
@click.option("--seeds", default=3, show_default=True, help="Trainings of each way.")
@click.option("--episodes", default=200, show_default=True, help="Of each test.")
@click.option("--threads", default=1, show_default=True, help="Threads of both ways.")
def main(frames: int, seeds: int, episodes: int, threads: int) -> None:
    as_in_a_sweep(threads)
    settings = Settings()
    if frames < 2048 or frames % 2048:
        raise click.BadParameter(f"whole updates of 2048 frames are allowed, got {frames}", param_hint="--frames")
    rows = []
    for seed in range(seeds):
        for way in (OURS, THEIRS):
            rows.append(measured(way, settings, frames, seed, episodes))
            click.echo(str(rows[-1]))
    kinds = ("mean return", "frames a second", "frames a second of the processor")
    means = [
        {"way": way} | {kind: str(seed_mean([row[kind] for row in rows if row["way"] == way])) for kind in kinds}
        for way in (OURS, THEIRS)
    ]
    recorded = benchmarks.record(
        benchmarks.FOLDER / "ppo.json",
        BESIDE,
        f"{PLACE}, {frames} frames of 16 processes, the same network and settings; mean return of {episodes} episodes "
        "after the training, and speed of the training, the environments included.",
        {"Mean and 95 % interval over seeds": means, "Every seed": rows},
        packages=["torch", "minigrid", "gymnasium", "sb3-contrib"],
        threads=torch.get_num_threads(),
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
