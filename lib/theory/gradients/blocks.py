"""The matrices E_k and F_{k+1,j} of an attentive network (Kerg et al. 2020, Cor. 1, Prop. 2), and slips in them.

    E_k       = alpha_{t,t+k} d2f (I + X_{t,t+k})  +  [k = 0] d1f                          (Eq. 73)
    F_{k+1,j} = alpha_{t+j+1,t+k+1} d2f (I + X_{t+j+1,t+k+1}) J_{t+j}
                +  [k = j] (d1f J_{t+j} + d2f sum_i alpha_{i,t+k+1} Y_{i,t+k+1})            (Eq. 74, 75)

with f at (h_{t+k+1}, c_{t+k+1}), at (h_{t+k}, c_{t+k}) in E_k. Written matrix by matrix, so that every index stands
where the formula has it; `lib.theory.gradients.network` computes the same sum faster. A `Rule` holds the choices that
are easily got wrong, and `SLIPS` are wrong ones by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lib.checks import whole_number
from lib.theory.gradients.recursion import recursion
from lib.theory.gradients.states import Array, AttentiveStates


@dataclass(frozen=True)
class Rule:
    """Indices and factors of Cor. 1; the defaults are the right ones."""

    weight: tuple[int, int] = (1, 1)  # (a, b) in alpha_{t+j+a,t+k+b} of F_{k+1,j}
    deviation: tuple[int, int] = (1, 1)  # (a, b) in X_{t+j+a,t+k+b} of F_{k+1,j}
    jacobian: int = 0  # a in J_{t+j+a}
    query: int = -1  # a in e_{i,t} = a(s_{t+a}, h_i), where scores are differentiated
    summed: str = "all"  # i = 1 ... t in the sums of Lemmas 5 and 6; "past" leaves out i = t, "later" all up to h_t
    keys: bool = True  # whether X is there: the weights move with h_i
    queries: bool = True  # whether Y is there: the weights move with s_{t-1}
    recurrence: str = "k = j"  # where the last line of F stands; "every j", "never"
    latest: str = "left"  # which end of a product the latest factor takes; "right"


COROLLARY = Rule()

SLIPS: dict[str, Rule] = {
    "weight of the step before": replace(COROLLARY, weight=(0, 0)),
    "weight of the state before": replace(COROLLARY, weight=(0, 1)),
    "J one step late": replace(COROLLARY, jacobian=1),
    "X of the step before": replace(COROLLARY, deviation=(0, 0)),
    "X left out": replace(COROLLARY, keys=False),
    "Y left out": replace(COROLLARY, queries=False),
    "scores of the present state": replace(COROLLARY, query=0),
    "sums without i = t": replace(COROLLARY, summed="past"),
    "sums over later states only": replace(COROLLARY, summed="later"),
    "recurrent term in every F": replace(COROLLARY, recurrence="every j"),
    "recurrent term left out": replace(COROLLARY, recurrence="never"),
    "latest factor right": replace(COROLLARY, latest="right"),
}


def blocks(states: AttentiveStates, t: int, k: int, rule: Rule = COROLLARY) -> tuple[list[Array], list[list[Array]]]:
    """E_0 ... E_k and rows F[0] ... F[k], F[n][j] = F_{n,j} for j < n, all (m, m): input of `gradient_recursion`.

    Needs t >= 1 and t + k <= states.time, one step more for a rule that reads later ones, else ValueError.
    Cost O(k^2 (m^3 + t m^2)), for clarity.
    """
    whole_number(t, "t", 1)
    most = states.time - t - max(rule.jacobian, rule.query, 0)
    if whole_number(k, "k", 0) > most:
        raise ValueError(f"k: 0 .. {most} are allowed for t = {t}, {states.time} steps and this rule, got {k}")
    E = []
    for n in range(k + 1):
        block = states.alpha[t, t + n] * glance(states, t, t, t + n, t + n, rule)
        E.append(block + states.first[t] if n == 0 else block)
    F: list[list[Array]] = [[]]
    for n in range(k):  # the k of Cor. 1
        row = []
        for j in range(n + 1):
            weight = states.alpha[t + j + rule.weight[0], t + n + rule.weight[1]]
            key, time = t + j + rule.deviation[0], t + n + rule.deviation[1]
            block = weight * glance(states, t, key, time, t + n + 1, rule) @ states.J(t + j + rule.jacobian)
            if rule.recurrence == "every j" or (rule.recurrence == "k = j" and n == j):
                block = block + recurrent(states, t, n, rule)
            row.append(block)
        F.append(row)
    return E, F


def gradient_by_blocks(states: AttentiveStates, t: int, k: int, rule: Rule = COROLLARY) -> Array:
    """C_k = ds_{t+k}/dh_t by the recursion of Eq. 19 over `blocks`, (m, m)."""
    E, F = blocks(states, t, k, rule)
    if rule.latest == "left":
        return np.asarray(recursion(E, F)[k])
    return np.asarray(recursion([e.T for e in E], [[f.T for f in row] for row in F])[k].T)


def glance(states: AttentiveStates, t: int, key: int, time: int, at: int, rule: Rule = COROLLARY) -> Array:
    """d2 f(h_at, c_at) (I + X_{key,time}): D of Eq. 89, and D of Eq. 87 before its factor J. Shape (m, m)."""
    bracket = np.eye(states.hidden)
    if rule.keys:
        bracket = bracket + deviation(states, t, key, time, rule)
    return np.asarray(states.second[at] @ bracket)


def deviation(states: AttentiveStates, t: int, key: int, time: int, rule: Rule = COROLLARY) -> Array:
    """X_{j,k} = (h_j - sum_i alpha_{i,k} h_i) de_{j,k}/dh_j, with j = key and k = time (Eq. 65), (m, m)."""
    if key > time:
        return np.zeros((states.hidden, states.hidden))
    chosen = _summed(t, time, rule)
    mean = states.alpha[chosen, time] @ states.h[chosen]
    return np.outer(states.h[key] - mean, _score_gradients(states, time, rule)[0][key - 1])


def recurrent(states: AttentiveStates, t: int, k: int, rule: Rule = COROLLARY) -> Array:
    """R_{k+1} = d1f J_{t+k} + d2f sum_i alpha_{i,t+k+1} Y_{i,t+k+1} (Eq. 88), (m, m)."""
    time = t + k + 1
    result = states.first[time] @ states.J(t + k + rule.jacobian)
    if rule.queries:
        chosen = _summed(t, time, rule)
        gradients = _score_gradients(states, time, rule)[1][chosen - 1]
        weights = states.alpha[chosen, time]
        Y = [
            np.outer(states.h[i], row - weights @ gradients) for i, row in zip(chosen, gradients, strict=True)
        ]  # Eq. 57
        result = result + states.second[time] @ np.tensordot(weights, np.reshape(Y, (-1, *result.shape)), axes=1)
    return np.asarray(result)


def _summed(t: int, time: int, rule: Rule) -> np.ndarray:
    """The i that the sums of Lemmas 5 and 6 run over at this time."""
    return np.arange(t + 1 if rule.summed == "later" else 1, time if rule.summed == "past" else time + 1)


def _score_gradients(states: AttentiveStates, time: int, rule: Rule) -> tuple[Array, Array]:
    """de_{i,time}/dh_i and de_{i,time}/ds (Eq. 96, 97), at the right state s_{time-1} or at a wrong one."""
    if rule.query == -1:
        return states.score_gradients(time)
    by_key, by_query = states.score_gradients(time + rule.query + 1)
    return by_key[:time], by_query[:time]
