"""Gradients assembled from Cor. 1 and Lemmas 1, 5-8 against automatic differentiation of the real network."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lib.models import AttentiveRNN
from lib.report import claims
from lib.theory import attentive_rnn_gradient
from lib.theory.gradients.blocks import COROLLARY, SLIPS, blocks, glance, gradient_by_blocks, recurrent
from lib.theory.gradients.network import (
    alignment_gradient,
    gradients_by_glances,
    gradients_from,
    recurrent_gradient,
    total_gradients,
)
from lib.theory.gradients.recursion import terms_by_degree
from lib.theory.gradients.states import read_states

TIME, HIDDEN = 8, 4
SPARSE = [[1], [1, 2], [], [1, 4], [5], [2, 3, 6], [1, 7], [2, 5, 8]]


def wiggly(h, c):
    return torch.tanh(h) * torch.exp(c / 3) + torch.roll(h, 1, dims=-1) * c


COMBINATIONS = {"sum": "sum", "mean": "mean", "gated": "gated", "function": wiggly}


def sequence(time=TIME, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((time, 3)))


def network_of(combination="sum", activation="tanh", attention="learned", pattern=None, sharpness=3.0):
    network = AttentiveRNN(
        3,
        HIDDEN,
        activation=activation,
        combination=COMBINATIONS[combination],
        attention=attention,
        attended=pattern,
        alignment_size=5,
        gain=0.9,
        seed=3,
    )
    with torch.no_grad():
        network.v_a *= sharpness  # weights that are far from equal
        network.b += 0.1
    return network


def automatic(network, x, t):
    """ds_{t+k}/dh_t for k = 0, 1, ... by automatic differentiation of the whole network."""
    h = network.trace(x).h[t - 1].detach()
    return torch.func.jacrev(lambda h: network.trace(x, replace={t: h}).s[t - 1 :])(h).detach().numpy()


def relative(measured, expected):
    """Largest error of each matrix over its largest entry, the worst of them."""
    axes = tuple(range(1, np.ndim(expected)))
    return float(np.max(np.abs(measured - expected).max(axis=axes) / np.abs(expected).max(axis=axes)))


@pytest.mark.parametrize("pattern", [None, SPARSE], ids=["full", "sparse"])
@pytest.mark.parametrize("attention", ["learned", "uniform", "none"])
@pytest.mark.parametrize("activation", ["tanh", "linear", "relu", torch.nn.functional.softplus])
@pytest.mark.parametrize("combination", COMBINATIONS)
def test_the_gradient_is_the_jacobian_of_the_real_network(combination, activation, attention, pattern):
    network, x = network_of(combination, activation, attention, pattern), sequence()
    for t in (1, 2, 5, TIME):
        k = np.arange(TIME - t + 1)
        assert relative(attentive_rnn_gradient(network, x, t, k), automatic(network, x, t)) < 1e-12


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize("pattern", [None, SPARSE], ids=["full", "sparse"])
def test_the_blocks_of_corollary_one_give_the_fast_gradient(combination, pattern):
    states = read_states(network_of(combination, pattern=pattern), sequence())
    for t in (1, 3, TIME):
        fast = gradients_from(states, t)
        for k in range(TIME - t + 1):
            assert relative(gradient_by_blocks(states, t, k)[None], fast[k : k + 1]) < 1e-13
            by_degree = terms_by_degree(*blocks(states, t, k))[k]
            assert len(by_degree) == k + 1 and relative(sum(by_degree)[None], fast[k : k + 1]) < 1e-13


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_lemmas_five_and_six_are_the_partial_derivatives_of_one_step_of_the_network(combination):
    network, x = network_of(combination), sequence()
    trace, states = network.trace(x), read_states(network, x)
    for t in (1, 2, 6):
        previous = trace.s[t - 2].detach() if t > 1 else torch.zeros(HIDDEN, dtype=torch.float64)
        by_hidden, by_previous = torch.func.jacrev(network.state, argnums=(0, 1))(trace.h[:t].detach(), previous)
        for j in range(1, t + 1):  # Lemma 6; for j = t > 1 the state also moves alone
            lemma = states.alpha[j, t] * glance(states, j, j, t, t) + (j == t) * states.first[t]
            np.testing.assert_allclose(lemma, by_hidden[:, j - 1].detach().numpy(), rtol=0, atol=1e-14)
        lemma = recurrent(states, 1, t - 2) - states.first[t] @ states.J(t - 1) if t > 1 else np.zeros((HIDDEN, HIDDEN))
        np.testing.assert_allclose(lemma, by_previous.detach().numpy(), rtol=0, atol=1e-14)  # Lemma 5, also at t = 1


def test_the_gradient_reads_any_object_with_the_weights():
    network, x = network_of("gated", pattern=SPARSE), sequence()
    names = ("V", "U", "b", "W_a", "U_a", "v_a", "G_h", "G_c")
    plain = SimpleNamespace(**{name: getattr(network, name).detach().numpy().tolist() for name in names})
    plain.combination, plain.attended = "gated", SPARSE
    expected = attentive_rnn_gradient(network, x, 2, 4)
    np.testing.assert_array_equal(attentive_rnn_gradient(plain, x.numpy().tolist(), 2, 4), expected)
    with pytest.raises(ValueError, match="missing V"):
        attentive_rnn_gradient(SimpleNamespace(U=1), x, 1, 1)


def test_later_inputs_and_the_shape_of_k_do_not_change_the_gradient():
    network, x = network_of(), sequence()
    several = attentive_rnn_gradient(network, x, 2, [[0, 3], [5, 3]])
    assert several.shape == (2, 2, HIDDEN, HIDDEN) and several.dtype == np.float64
    np.testing.assert_array_equal(several[0, 1], attentive_rnn_gradient(network, x[:5], 2, 3))
    np.testing.assert_array_equal(several[0, 1], several[1, 1])


def test_float32_networks_are_differentiated_in_float64():
    network = network_of().float()
    x = sequence()
    gradient = attentive_rnn_gradient(network, x.float(), 1, 7)
    assert relative(gradient[None], automatic(network.double(), x.float().double(), 1)[-1:]) < 1e-12


@pytest.mark.parametrize("slip", SLIPS)
def test_every_slip_is_visible_in_a_nonlinear_network_with_learned_attention(slip):
    x = sequence()
    for combination in COMBINATIONS:
        states = read_states(network_of(combination), x)
        right = gradients_from(states, 2)[5][None]
        assert relative(gradient_by_blocks(states, 2, 5, SLIPS[slip])[None], right) > 0.01


def test_equal_weights_and_a_linear_step_hide_all_slips_but_three():
    states = read_states(network_of(activation="linear", attention="uniform"), sequence())
    right = gradients_from(states, 2)[5][None]
    errors = {name: relative(gradient_by_blocks(states, 2, 5, rule)[None], right) for name, rule in SLIPS.items()}
    visible = {name for name, error in errors.items() if error > 1e-12}
    assert visible == {"weight of the step before", "recurrent term in every F", "recurrent term left out"}


def parameter_gradients(states, partial):
    """Lemmas 7 and 8 together."""
    totals = total_gradients(states, partial)
    gradients = recurrent_gradient(states, totals)
    if states.W_a is not None:
        gradients |= {name: parts.sum(axis=0) for name, parts in alignment_gradient(states, totals).items()}
    return gradients


def test_weights_of_attention_have_gradients_by_lemmas_seven_and_eight():
    for combination in COMBINATIONS:
        network, loss, states, partial = with_loss(combination)
        loss.backward()
        for name, gradient in parameter_gradients(states, partial).items():
            assert relative(gradient[None], getattr(network, name).grad.numpy()[None]) < 1e-12, name


def test_the_transposed_recursion_sums_the_gradients_of_proposition_one():
    _, _, states, partial = with_loss("gated", SPARSE)
    totals = total_gradients(states, partial)
    for t in range(1, TIME):
        C = gradients_from(states, t)[: TIME - t]
        direct = sum(partial[t - 1 + k] @ C[k] for k in range(TIME - t))
        np.testing.assert_allclose(totals.h[t], direct, rtol=1e-12, atol=1e-14)


def test_a_loss_that_reads_hidden_states_has_the_gradient_of_autograd():
    network, x = network_of("mean"), sequence()
    read = torch.from_numpy(np.random.default_rng(5).standard_normal((TIME, HIDDEN)))
    zeros = torch.zeros(TIME, HIDDEN, dtype=torch.float64, requires_grad=True)
    trace = network.trace(x, replace={1: network.trace(x).h[0].detach() + zeros[0]})
    (expected,) = torch.autograd.grad((trace.h * read).sum(), zeros)
    found = total_gradients(read_states(network, x), np.zeros((TIME, HIDDEN)), read.numpy())
    np.testing.assert_allclose(found.h[1], expected[0].numpy(), rtol=1e-11)
    without = total_gradients(read_states(network, x), np.zeros((TIME, HIDDEN)))
    assert not without.h.any()  # negative control: nothing is read


@pytest.mark.parametrize("pattern", [None, SPARSE])
def test_paths_by_glances_are_the_coefficients_in_the_strength_of_attention(pattern):
    _, _, states, partial = with_loss("mean", pattern)
    read = np.random.default_rng(6).standard_normal(partial.shape)
    split = gradients_by_glances(states, partial, read, most=TIME)
    for strength in (1.0, 0.5, -1.3):  # d2f times z: every glance has one factor z
        whole = total_gradients(replace(states, second=strength * states.second), partial, read)
        powers = strength ** np.arange(TIME + 1)
        np.testing.assert_allclose(np.tensordot(powers, split.h, axes=1), whole.h, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(np.tensordot(powers, split.s, axes=1), whole.s, rtol=1e-11, atol=1e-13)
    few = gradients_by_glances(states, partial, read, most=2, rest=True).h
    np.testing.assert_allclose(few[:2], split.h[:2], rtol=1e-12)
    np.testing.assert_allclose(few[2], split.h[2:].sum(axis=0), rtol=1e-11, atol=1e-13)
    assert np.abs(gradients_by_glances(states, partial, read, most=2).h[2] - few[2]).max() > 1e-6  # without the rest
    with pytest.raises(ValueError, match="hidden_gradient: 7 steps"):
        gradients_by_glances(states, partial, read[:-1], most=2)


def test_attention_to_an_ignored_state_adds_exactly_nothing():
    ignored = [[i for i in range(1, t + 1) if i != 3] for t in range(1, TIME + 1)]
    _, _, states, partial = with_loss("sum", ignored)
    totals = total_gradients(states, partial)
    for parts in alignment_gradient(states, totals).values():
        assert not parts[3].any() and parts[2].any()
    np.testing.assert_allclose(totals.h[3], totals.s[3] @ states.first[3], rtol=1e-14)
    assert np.linalg.norm(totals.h[3]) > 0.01  # the recurrence still carries it


def test_equal_weights_have_no_parameters_to_learn():
    _, _, states, partial = with_loss("sum", attention="uniform")
    assert set(parameter_gradients(states, partial)) == {"V", "U", "b"}
    with pytest.raises(ValueError, match="alignment"):
        alignment_gradient(states, total_gradients(states, partial))


@pytest.mark.parametrize(
    ("t", "k", "message"),
    [
        *((t, 1, "t: ") for t in (0, -1, 1.5, True, "1")),
        *((1, k, "k: ") for k in (-1, 1.5, [0, -1], True, "1")),
        *((1, k, "t, k") for k in (TIME, [0, TIME])),
        (TIME + 1, 0, "t, k"),
    ],
)
def test_times_outside_the_sequence_are_refused(t, k, message):
    with pytest.raises(ValueError, match=message):
        attentive_rnn_gradient(network_of(), sequence(), t, k)


def test_whole_floats_are_steps_and_no_steps_have_no_gradients():
    network, x = network_of(), sequence()
    assert np.array_equal(attentive_rnn_gradient(network, x, 1, 2.0), attentive_rnn_gradient(network, x, 1, 2))
    assert attentive_rnn_gradient(network, x, 1, []).shape == (0, network.hidden, network.hidden)


def test_wrong_shapes_and_numbers_that_are_not_finite_are_refused():
    x = sequence()
    for wrong in (
        x[:, :2],
        x[0],
        x[None],
        torch.full_like(x, torch.nan),
        torch.full_like(x, torch.inf),
        [["a"] * 3] * 8,
    ):
        with pytest.raises(ValueError, match="inputs"):
            attentive_rnn_gradient(network_of(), wrong, 1, 2)
    for name, shape in (("V", (4, 3)), ("U", (3, 3)), ("b", (3,)), ("W_a", (5, 3)), ("U_a", (4, 4)), ("v_a", (5, 1))):
        network = network_of()
        setattr(network, name, torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64)))
        with pytest.raises(ValueError, match=name):
            attentive_rnn_gradient(network, x, 1, 2)
    for name, value in (
        ("activation", "sine"),
        ("activation", [1]),
        ("combination", "max"),
        ("combination", ["sum"]),
        ("attention", "hard"),
        *(("attended", times) for times in ([[1]] * 3, 5, [5, 5])),
    ):
        network = network_of()
        setattr(network, name, value)
        with pytest.raises(ValueError, match=name):
            attentive_rnn_gradient(network, x, 1, 5)
    for times in ([[2]] * 8, [[1, 1]] * 8, [[0]] * 8):
        network = network_of()
        network.attended = times
        with pytest.raises(ValueError, match="attended"):
            attentive_rnn_gradient(network, x, 1, 5)
    exploding = network_of(activation="linear")
    with torch.no_grad():
        exploding.V *= 1e200
    with pytest.raises(ValueError, match="overflow"):
        attentive_rnn_gradient(exploding, x, 1, 5)
    weights = {"V": np.eye(2), "U": np.ones((2, 1)), "b": np.zeros(2), "attention": "uniform", "combination": "gated"}
    with pytest.raises(ValueError, match="missing G_h, G_c"):
        attentive_rnn_gradient(SimpleNamespace(**weights), np.ones((3, 1)), 1, 1)
    with pytest.raises(ValueError, match="inputs: real numbers"):
        attentive_rnn_gradient(SimpleNamespace(**weights | {"combination": "sum"}), np.ones((3, 1)) * 1j, 1, 1)
    for times in (5, [5, 5]):
        with pytest.raises(ValueError, match="attended"):
            AttentiveRNN(1, 1, attended=times)


def test_gradients_beyond_the_floats_are_refused_where_states_are_finite():
    """V = 1e160 I from states that stay zero: ds_{1+k}/dh_1 = 1e160^k."""
    weights = {"V": 1e160 * np.eye(2), "U": np.zeros((2, 1)), "b": np.zeros(2), "attention": "none"}
    network, x = SimpleNamespace(**weights, activation="linear"), np.ones((4, 1))
    assert np.array_equal(attentive_rnn_gradient(network, x, 1, 1), 1e160 * np.eye(2))
    with pytest.raises(ValueError, match="overflow of ds_3/dh_1"):
        attentive_rnn_gradient(network, x, 1, 3)
    states = read_states(network, x)
    for most in (0, 2):
        with pytest.raises(ValueError, match="overflow of dL/ds_"):
            gradients_by_glances(states, np.ones((4, 2)), most=most)
    assert np.isfinite(total_gradients(states, [[1.0, 0.0]]).h).all()


def test_tensors_of_any_kind_are_read():
    network, x = network_of(), sequence()
    expected = attentive_rnn_gradient(network, x, 2, 3)
    assert np.array_equal(attentive_rnn_gradient(network, x.clone().requires_grad_(), 2, torch.tensor(3)), expected)
    rounded = network.to(torch.bfloat16)
    found = attentive_rnn_gradient(rounded, x.bfloat16(), 2, [3])
    assert np.array_equal(found[0], attentive_rnn_gradient(rounded.double(), x.bfloat16().double(), 2, 3))


def test_bad_losses_forms_and_rules_are_refused():
    _, _, states, partial = with_loss()
    for wrong in (partial[:, :2], np.zeros((TIME + 1, HIDDEN)), partial * np.nan, np.zeros((0, HIDDEN))):
        with pytest.raises(ValueError, match="loss_gradient"):
            total_gradients(states, wrong)
    totals = total_gradients(states, np.ones((TIME, HIDDEN)))
    with pytest.raises(ValueError, match="needs x_9"):
        recurrent_gradient(states, totals, "printed")
    with pytest.raises(ValueError, match="form"):
        recurrent_gradient(states, totals, "scanned")
    for k, rule in ((TIME, COROLLARY), (TIME - 1, SLIPS["J one step late"])):
        with pytest.raises(ValueError, match="k: "):
            blocks(states, 1, k, rule)
    with pytest.raises(ValueError, match="t: "):
        blocks(states, 0, 1)


def with_loss(combination="sum", pattern=None, attention="learned"):
    """A network, a loss of all states but the last, what the theory knows, and the rows dL/ds_t."""
    network, x = network_of(combination, attention=attention, pattern=pattern), sequence()
    weights = torch.from_numpy(np.random.default_rng(1).standard_normal((TIME - 1, HIDDEN)))
    s = network(x[None])[0, :-1]
    partial = (torch.cos(s) * weights).detach().numpy()
    return network, (torch.sin(s) * weights).sum(), read_states(network, x), partial


def test_the_check_of_the_jacobian_fails_for_every_slip():
    network, x = network_of("gated"), sequence()
    states, expected = read_states(network, x), automatic(network, x, 2)[5]
    claims.check("kerg-lemma5-6", relative(gradient_by_blocks(states, 2, 5)[None], expected[None]), at_most=1e-12)
    for rule in SLIPS.values():
        with pytest.raises(claims.ClaimFailed):
            error = relative(gradient_by_blocks(states, 2, 5, rule)[None], expected[None])
            claims.check("kerg-lemma5-6", error, at_most=1e-12)


def test_the_check_that_slips_are_visible_fails_under_equal_weights():
    states = read_states(network_of(attention="uniform"), sequence())
    right = gradients_from(states, 2)[5][None]
    errors = [relative(gradient_by_blocks(states, 2, 5, rule)[None], right) for rule in SLIPS.values()]
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-lemma5-6", min(errors), at_least=0.01)


def test_the_check_of_the_first_block_fails_with_a_trailing_factor_as_printed():
    network, x = network_of(activation="linear", attention="uniform"), sequence()
    V, right = network.V.detach().numpy(), automatic(network, x, 4)[0]
    claims.check("kerg-thm2", right, 1.25 * np.eye(4), 1e-12, outcome="misprint", printed=1.25 * V, erratum=27)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-thm2", right, 1.25 * V, 1e-12)


def test_the_check_of_lemma_seven_fails_for_uncentred_states():
    network, loss, states, partial = with_loss()
    loss.backward()
    totals = total_gradients(states, partial)
    right = alignment_gradient(states, totals)["W_a"].sum(axis=0)
    expected = network.W_a.grad.numpy()
    claims.check("kerg-lemma7-8", right, expected, 1e-12)
    uncentred = np.zeros_like(right)  # h_i in the place of h_i - c_t
    for t in range(1, states.time + 1):
        by_score = states.alpha[1 : t + 1, t] * (states.h[1 : t + 1] @ totals.s[t])
        uncentred += np.outer(by_score @ states.alignment(t)[1], states.s[t - 1])
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-lemma7-8", uncentred, expected, 1e-12)


def test_the_check_of_lemma_eight_fails_as_printed_but_not_in_a_linear_network():
    network, loss, states, partial = with_loss()
    loss.backward()
    totals = total_gradients(states, partial)
    right, printed = (recurrent_gradient(states, totals, form)["V"] for form in ("corrected", "printed"))
    expected = network.V.grad.numpy()
    claims.check("kerg-lemma7-8", expected, right, 1e-12, outcome="misprint", printed=printed, erratum=27)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-lemma7-8", expected, printed, 1e-12)
    linear = read_states(network_of(activation="linear"), sequence())
    totals = total_gradients(linear, partial)
    both = [recurrent_gradient(linear, totals, form)["V"] for form in ("corrected", "printed")]
    np.testing.assert_array_equal(*both)


def test_the_check_of_an_ignored_state_fails_where_it_is_attended_to():
    _, _, states, partial = with_loss()
    totals = total_gradients(states, partial)
    alone = [[2] if t > 1 else [] for t in range(1, TIME + 1)]  # nobody attends to h_1
    _, _, ignoring, partial = with_loss(pattern=alone)
    left = total_gradients(ignoring, partial)
    false = {"outcome": "false", "printed": np.zeros_like(left.h[1]), "erratum": 40}
    claims.check("kerg-lemma7-8", left.h[1], left.s[1] @ ignoring.first[1], 1e-12, **false)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-lemma7-8", np.abs(alignment_gradient(states, totals)["W_a"][3]).max(), at_most=0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-lemma7-8", totals.h[3], totals.s[3] @ states.first[3], 1e-12)


def one_step(network, x, t):
    """Partial derivatives of s_t in h_1 ... h_t and in s_{t-1}, by automatic differentiation."""
    trace = network.trace(x)
    both = torch.func.jacrev(network.state, argnums=(0, 1))(trace.h[:t].detach(), trace.s[t - 2].detach())
    return both[0].detach().movedim(1, 0).numpy(), both[1].detach().numpy()


def test_the_checks_of_one_step_fail_with_a_slip():
    network, x, t = network_of("gated"), sequence(), 6
    states = read_states(network, x)
    by_hidden, by_state = one_step(network, x, t)
    for slip in ("X left out", "sums without i = t", "scores of the present state"):
        rule = SLIPS[slip]
        lemma = [
            states.alpha[j, t] * glance(states, 1, j, t, t, rule) + (j == t) * states.first[t] for j in range(1, t + 1)
        ]
        with pytest.raises(claims.ClaimFailed):
            claims.check("kerg-lemma5-6", np.array(lemma), by_hidden, 1e-13)
    for slip in ("Y left out", "sums without i = t", "scores of the present state"):
        lemma = recurrent(states, 1, t - 2, SLIPS[slip]) - states.first[t] @ states.J(t - 1)
        with pytest.raises(claims.ClaimFailed):
            claims.check("kerg-lemma5-6", lemma, by_state, 1e-13)


def test_the_check_of_small_glances_fails_for_weights_of_the_next_state():
    network, x = network_of(sharpness=40.0), sequence()
    alpha = network.trace(x).alpha.detach().numpy()
    v_a, U_a = network.v_a.detach().numpy(), network.U_a.detach().numpy()
    bound = 1 + 2 * np.sqrt(HIDDEN) * np.linalg.norm(v_a) * np.linalg.norm(U_a, 2)
    glances = [np.linalg.norm(one_step(network, x, t)[0], 2, axis=(1, 2))[: t - 2] for t in range(3, TIME + 1)]
    right = [alpha[t - 1, : t - 2] for t in range(3, TIME + 1)]
    wrong = [alpha[t - 1, 1 : t - 1] for t in range(3, TIME + 1)]
    claims.check("kerg-lemma7-8", np.max(np.concatenate(glances) / np.concatenate(right)), at_most=bound)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-lemma7-8", np.max(np.concatenate(glances) / np.concatenate(wrong)), at_most=bound)


def error_without_moving_weights(sharpness, **settings):
    """Of ds_{1+k}/dh_1 without X and Y, relative, k = 1 ... 6."""
    states = read_states(network_of(sharpness=sharpness, **settings), sequence())
    fixed = replace(COROLLARY, keys=False, queries=False)
    exact = gradients_from(states, 1)[1:7]
    assumed = np.array([gradient_by_blocks(states, 1, k, fixed) for k in range(1, 7)])
    return np.linalg.norm(assumed - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))


@pytest.mark.parametrize("settings", [{}, {"activation": "linear"}, {"pattern": SPARSE}], ids=str)
def test_moving_weights_may_be_left_out_near_equal_weights_and_not_elsewhere(settings):
    small, smaller = (error_without_moving_weights(scale, **settings) for scale in (1e-2, 1e-3))
    told = smaller > 1e-12  # on a pattern the first glances may have nothing to move
    claims.check("kerg-remark8", (small / np.maximum(smaller, 1e-300))[told], 10.0, 0.1, relative=True)
    sharp = error_without_moving_weights(10.0, **settings)
    claims.check("kerg-remark8", sharp.max(), at_least=0.1)
    with pytest.raises(claims.ClaimFailed):  # sharp weights: the error is no longer proportional to the scores
        claims.check("kerg-remark8", sharp[told] / small[told], 1000.0, 0.1, relative=True)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-remark8", small.max(), at_least=0.1)


def test_weights_that_are_equal_may_still_move():
    """h_1 = (1, 0) and h_2 = (-1, 0), both with the score 0 = c tanh of the second unit; s_2 = h_2 + c_2, V = 0."""
    network = AttentiveRNN(1, 2, activation="linear").double()
    added = {}
    for gain in (0.0, 1.0, 10.0):
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                parameter.zero_()
                if name == "U_a":
                    parameter[0, 1] = 1.0
                if name == "v_a":
                    parameter[0] = gain
        both = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)

        def looks(h_1, both=both):
            states = torch.stack([h_1, both[1]])
            weights = torch.softmax(torch.tanh(states @ network.U_a.T) @ network.v_a, dim=0)
            return both[1] + weights @ states

        added[gain] = torch.autograd.functional.jacobian(looks, both[0]).detach().numpy() - np.eye(2) / 2
        assert np.allclose(added[gain], [[0, gain / 2], [0, 0]], atol=1e-15)
    sizes = [np.linalg.norm(added[gain]) for gain in (1.0, 10.0)]
    claims.check("kerg-remark8", sizes, at_most=0.1, outcome="differs", remark=True, note="they do not")
    with pytest.raises(claims.ClaimFailed):  # scores that do not depend on the states
        claims.check(
            "kerg-remark8", np.linalg.norm(added[0.0]), at_most=0.1, outcome="differs", remark=True, note="they do not"
        )
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-remark8", sizes, at_most=0.1)
