"""Proximal policy optimisation of an agent with memory, with the settings that the code of Kerg et al. (2020) has.

One update: all processes act for some frames; advantages by generalised estimation; then some epochs over the frames in
windows of `recurrence` steps, whose gradient goes back to the state that acting had at their beginning. A batch is one
window of all processes, 16 x 16 frames. The authors' code draws the windows of a batch from all times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor
from tqdm.auto import tqdm

from experiments.minigrid.acting import ACTING, Environment, Processes, as_tensor, number
from experiments.minigrid.agent import Agent
from lib.runs.training import RunParameters
from lib.training.checkpoint import load_checkpoint, optimizer_tensors, restore_optimizer, save_checkpoint
from lib.training.settings import has_fused_step


class Settings(RunParameters):
    """Every choice of the algorithm by name; the defaults are those of the authors' recorded commands."""

    processes: int = Field(16, ge=1)  # worlds that are acted in side by side
    frames: int = Field(128, ge=1)  # of each process between two updates
    recurrence: int = Field(16, ge=1)  # steps of a window, through which gradients go back
    epochs: int = Field(4, ge=1)  # passes over the frames of an update
    discount: float = Field(0.99, ge=0, le=1)  # gamma, of a reward one step later
    gae: float = Field(0.95, ge=0, le=1)  # lambda of the generalised advantage estimation
    learning_rate: float = Field(0.001, gt=0)  # of Adam
    epsilon: float = Field(1e-8, gt=0)  # of Adam
    clip: float = Field(0.2, gt=0)  # of the ratio of probabilities, and of the step of the value
    entropy: float = Field(0.01, ge=0)  # weight of the entropy, which is to be large
    value: float = Field(0.5, ge=0)  # weight of the loss of the value
    largest_norm: float = Field(0.5, gt=0)  # of all gradients together

    @model_validator(mode="after")
    def _whole_windows(self) -> Settings:
        if self.frames % self.recurrence:
            raise ValueError(f"frames: a multiple of recurrence = {self.recurrence} is allowed, got {self.frames}")
        return self


class Frames(NamedTuple):
    """What was seen, done and got: (frames, processes) each, images with three axes more."""

    images: Tensor
    begins: Tensor  # whether an episode begins with this frame
    actions: Tensor
    log_probabilities: Tensor
    values: Tensor
    rewards: Tensor
    ends: Tensor  # whether the episode ended with the action


@dataclass
class Course:
    """The course of one training: sums over the episodes that ended in each update."""

    episodes: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    successes: list[int] = field(default_factory=list)
    seconds: float = 0.0  # of wall time, over all starts


def advantages(rewards: Tensor, values: Tensor, ends: Tensor, last: Tensor, discount: float, gae: float) -> Tensor:
    """A_t = sum_k (gamma lambda)^k delta_{t+k} up to the end of the episode, (frames, processes).

    delta_t = r_t + gamma V_{t+1} - V_t, with V_{t+1} = 0 where the episode ends at t; last: V after the last frame.
    """
    found, following = torch.zeros_like(values), torch.zeros_like(last)
    for t in reversed(range(len(values))):
        after = last if t == len(values) - 1 else values[t + 1]
        goes_on = 1 - ends[t].to(values.dtype)
        following = rewards[t] + discount * goes_on * after - values[t] + discount * gae * goes_on * following
        found[t] = following
    return found


def loss_of(logits: Tensor, values: Tensor, before: Frames, advantage: Tensor, settings: Settings) -> Tensor:
    """Mean over frames of -min(r A, clip(r) A) - entropy H + value max((V - R)^2, (V_clip - R)^2).

    r: ratio of the probabilities of the action now and when it was done; R = A + V when it was done; V_clip: V with its
    step clipped. logits (..., actions); all others (...,).
    """
    logs = F.log_softmax(logits, dim=-1)
    entropy = -(logs.exp() * logs).sum(-1)
    ratio = (logs.gather(-1, before.actions[..., None])[..., 0] - before.log_probabilities).exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - settings.clip, 1 + settings.clip) * advantage)
    wanted = advantage + before.values
    near = before.values + (values - before.values).clamp(-settings.clip, settings.clip)
    error = torch.maximum((values - wanted) ** 2, (near - wanted) ** 2)
    return (settings.value * error - gain - settings.entropy * entropy).mean()


def train(
    agent: Agent,
    make: Callable[[], Environment],
    settings: Settings,
    updates: int,
    seed: int,
    *,
    checkpoint: Path | None = None,
    configuration: Mapping[str, Any] | None = None,
    label: str = "",
    progress: bool = False,
) -> Course:
    """Train the agent in place on environments that `make` gives.

    checkpoint: a file, written after every update; if it is there, training goes on from it, and ends with the very
    numbers of a run that was never stopped (on a CPU with the same number of threads): random numbers are those of the
    update, and episodes under way are brought back by their actions. Raises CheckpointError for a file of another
    configuration. Cost: updates x processes x frames x (epochs + 1) steps of the network.
    """
    processes = Processes([make() for _ in range(settings.processes)], seed)
    parameters = list(agent.parameters())
    fused = has_fused_step(parameters)
    optimizer = torch.optim.Adam(parameters, lr=settings.learning_rate, eps=settings.epsilon, fused=fused)
    described = {**(configuration or {}), "settings": settings.model_dump(), "seed": seed}
    course, device = Course(), agent.device
    begins = torch.ones(settings.processes, dtype=torch.bool, device=device)
    state = agent.initial_state(settings.processes)
    if checkpoint is not None and checkpoint.exists():
        tensors, kept = load_checkpoint(checkpoint, described)
        agent.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
        restore_optimizer(optimizer, tensors)
        held = {name[6:]: tensor.to(device) for name, tensor in tensors.items() if name.startswith("state.")}
        state, begins = type(state)(**held, **kept["state"]), tensors["begins"].to(device)
        course = Course(**kept["course"])
        processes.restore(kept["numbers"], kept["actions"])
    done = len(course.episodes)
    with tqdm(total=updates, initial=done, desc=label or "training", unit="update", disable=not progress) as bar:
        for update in range(done, updates):
            started = time.perf_counter()
            random = torch.Generator().manual_seed(number(seed, ACTING, update))
            state, begins = _update(agent, processes, optimizer, settings, state, begins, random, course)
            course.seconds += time.perf_counter() - started
            bar.update()
            bar.set_postfix_str(f"return {course.returns[-1] / max(1, course.episodes[-1]):.3f}")
            if checkpoint is not None:
                tensors = {f"model.{name}": tensor for name, tensor in agent.state_dict().items()}
                tensors |= {f"state.{name}": tensor for name, tensor in _tensors(state).items()}
                given = {name: value for name, value in state._asdict().items() if not isinstance(value, Tensor)}
                kept = {"course": asdict(course), "state": given}
                kept |= {"numbers": processes.numbers, "actions": processes.actions}
                save_checkpoint(
                    checkpoint, tensors | {"begins": begins} | optimizer_tensors(optimizer), kept, described
                )
    return course


def _update(
    agent: Agent,
    processes: Processes,
    optimizer: torch.optim.Optimizer,
    settings: Settings,
    state: Any,
    begins: Tensor,
    random: torch.Generator,
    course: Course,
) -> tuple[Any, Tensor]:
    """Act, then learn; the state after the last frame, and whose episode begins with the next one."""
    device = agent.device
    rows, starts, finished = [], [], list[float]()
    # Laid out as after a restart: sums of numbers that lie elsewhere may be rounded otherwise.
    laid_out = {name: value.clone(memory_format=torch.contiguous_format) for name, value in _tensors(state).items()}
    state = state._replace(**laid_out)
    with torch.no_grad():
        for t in range(settings.frames):
            if t % settings.recurrence == 0:
                starts.append(state)
            images = as_tensor(processes.images).to(device)
            logits, values, state = agent.step(images, begins, state)
            logs = F.log_softmax(logits, dim=-1)
            drawn = torch.multinomial(logs.exp().cpu(), 1, generator=random)[:, 0]
            rewards, ends, over = processes.step(drawn.tolist())
            actions = drawn.to(device)
            finished += over
            chosen = logs.gather(1, actions[:, None])[:, 0]
            got = (
                torch.tensor(rewards, dtype=values.dtype, device=device),
                torch.tensor(ends, device=device),
            )
            rows.append(Frames(images, begins, actions, chosen, values, *got))
            begins = got[1]
        last = agent.step(as_tensor(processes.images).to(device), begins, state)[1]
    frames = Frames(*(torch.stack(column) for column in zip(*rows, strict=True)))
    advantage = advantages(frames.rewards, frames.values, frames.ends, last, settings.discount, settings.gae)
    for _ in range(settings.epochs):
        for window in torch.randperm(len(starts), generator=random).tolist():
            part = slice(window * settings.recurrence, (window + 1) * settings.recurrence)
            before = Frames(*(column[part] for column in frames))
            optimizer.zero_grad(set_to_none=True)
            logits, values = agent.window(before.images, before.begins, starts[window])
            loss_of(logits, values, before, advantage[part], settings).backward()
            torch.nn.utils.clip_grad_norm_(agent.parameters(), settings.largest_norm)
            optimizer.step()
    course.episodes.append(len(finished))
    course.returns.append(sum(finished))
    course.successes.append(sum(value > 0 for value in finished))
    return state, begins


def _tensors(state: Any) -> dict[str, Tensor]:
    return {name: value for name, value in state._asdict().items() if isinstance(value, Tensor)}
