"""The paper's IQL: its networks, its policy, its losses."""

import dataclasses

import d3rlpy
import numpy as np
import pytest
import torch as th
import yaml
from d3rlpy.algos.qlearning.torch.iql_impl import IQLImpl
from d3rlpy.models import VectorEncoderFactory
from d3rlpy.torch_utility import TorchMiniBatch

from sb3_span.nn.native.choice import IS_NATIVE
from sb3_span.offline import SPANEncoderFactory, SPANIQLConfig, make_config
from sb3_span.offline.iql import MAX_LOGSTD, MIN_LOGSTD, count_parameters
from tests.offline.test_encoder import make_batch
from tests.test_hyperparams import HYPERPARAMS

# Task: observations, actions, widths of the MLPs (actor, critic, value), parameters of SPAN and of the MLPs.
PAPER = {
    "Door": (39, 28, (36, 64, 45), 17449, 17337),
    "Hammer": (46, 26, (41, 68, 50), 20448, 20509),
    "Pen": (45, 24, (41, 66, 50), 19469, 19634),
    "Relocate": (39, 30, (35, 66, 45), 17909, 17845),
}
needs_native = pytest.mark.skipif(not IS_NATIVE, reason="the native kernel is not in use")


def build(config, observation_dim, action_dim):
    algo = config.create()
    algo.create_impl((observation_dim,), action_dim)
    return algo


@pytest.mark.parametrize("task", PAPER)
def test_parameter_counts(task):
    observation_dim, action_dim, widths, span_params, mlp_params = PAPER[task]
    assert count_parameters(build(SPANIQLConfig(), observation_dim, action_dim)) == span_params
    pi, qf, vf = (VectorEncoderFactory([width, width]) for width in widths)
    mlp = SPANIQLConfig(actor_encoder_factory=pi, critic_encoder_factory=qf, value_encoder_factory=vf)
    assert count_parameters(build(mlp, observation_dim, action_dim)) == mlp_params


@pytest.mark.parametrize("method", ["span", "mlp"])
@pytest.mark.parametrize("task", PAPER)
def test_hyperparameter_files_are_the_papers(task, method):
    observation_dim, action_dim, widths, span_params, mlp_params = PAPER[task]
    entry = yaml.safe_load((HYPERPARAMS / f"offline_{method}.yml").read_text())[f"AdroitHand{task}-v1"]
    assert entry.pop("n_timesteps") == 20_000
    config = make_config(entry)
    assert count_parameters(build(config, observation_dim, action_dim)) == (span_params if method == "span" else mlp_params)
    if method == "span":
        assert config == SPANIQLConfig()  # the defaults are the paper's
    else:
        assert config.actor_encoder_factory.hidden_units == [widths[0]] * 2
    assert (config.batch_size, config.expectile, config.weight_temp, config.tau, config.gamma) == (256, 0.7, 3.0, 0.005, 0.99)
    assert config.actor_learning_rate == config.critic_learning_rate == 3e-4 and config.n_critics == 1


def test_mean_and_deviation_depend_on_the_state():
    algo = build(SPANIQLConfig(), 5, 2)
    out = algo.impl.modules.policy(th.randn(6, 5))
    for values in (out.mu, out.logstd):
        assert values.shape == (6, 2) and len(th.unique(values[:, 0])) == 6


def make_hard_batch():
    """Ends, longer intervals, and actions far from the mean."""
    batch = make_batch("IQL")
    generator = np.random.default_rng(1)
    terminals = generator.integers(2, size=batch.terminals.shape).astype(np.float32)
    intervals = generator.integers(1, 4, size=batch.intervals.shape).astype(np.float32)
    return dataclasses.replace(batch, terminals=terminals, intervals=intervals, actions=0.999 * np.sign(batch.actions))


def gradients(algo):
    modules = algo.impl.modules
    parts = (modules.policy, modules.value_func, *modules.q_funcs)
    return [param.grad for part in parts for param in part.parameters()]


@pytest.mark.parametrize(
    "encoder",
    [
        SPANEncoderFactory(nmodes=5),
        SPANEncoderFactory(basis="bspline"),
        SPANEncoderFactory(nmodes=3, nelems=4, latent_dim=9, group_size=2),
        VectorEncoderFactory([8]),
    ],
)
@pytest.mark.parametrize("n_critics", [1, 3])
def test_updates_are_those_of_d3rlpy(encoder, n_critics):
    """Saved work must not change what is learned."""
    factories = {f"{role}_encoder_factory": encoder for role in ("actor", "critic", "value")}
    algos = []
    for kind in ("ours", "theirs"):
        d3rlpy.seed(0)
        algo = build(SPANIQLConfig(n_critics=n_critics, **factories), 5, 2)
        with th.no_grad():  # one deviation is clipped above, the other one for some states below
            algo.impl.modules.policy._logstd.bias.copy_(th.tensor([MAX_LOGSTD + 9.0, MIN_LOGSTD]))
        if kind == "theirs":
            algo.impl.__class__ = IQLImpl
        algos.append(algo)
    for step in range(3):
        ours, theirs = (algo.update(make_hard_batch()) for algo in algos)
        assert ours == pytest.approx(theirs, rel=1e-4)
        if step == 0:  # later Adam blows up what rounding has done
            for our, their in zip(*map(gradients, algos), strict=True):
                assert th.allclose(our, their, rtol=1e-4, atol=1e-5 * float(their.abs().max()))


@needs_native
def test_the_kernel_does_the_update_where_it_can(monkeypatch):
    algo = build(SPANIQLConfig(), 5, 2)
    assert algo.native_status() == "IQL runs in C."
    monkeypatch.setattr(th.Tensor, "backward", None)  # autograd is not asked
    algo.update(make_batch("IQL"))
    assert algo.native_status() == "IQL runs in C."


def freeze(algo, batch):
    algo.impl.modules.policy._encoder.span.coefficients.requires_grad_(False)


def make_double(algo, batch):
    for module in vars(algo.impl.modules).values():
        if isinstance(module, th.nn.Module):
            module.double()
    tensors = {name: value for name, value in vars(batch).items() if isinstance(value, th.Tensor)}
    return dataclasses.replace(batch, **{name: tensor.double() for name, tensor in tensors.items()})


def transpose_in_memory(algo, batch):
    return dataclasses.replace(batch, observations=batch.observations.T.contiguous().T)


def transpose_what_comes_next(algo, batch):
    return dataclasses.replace(batch, next_observations=batch.next_observations.T.contiguous().T)


def hook(algo, batch):
    algo.impl.modules.policy._mu.register_forward_hook(lambda module, args, out: out.mul(1.0))


def hook_gradient(algo, batch):
    algo.impl.modules.policy._mu.weight.register_hook(lambda grad: grad.mul(2.0))


def normalize_weights(algo, batch):
    th.nn.utils.parametrizations.weight_norm(algo.impl.modules.policy._mu)


REASONS = {
    freeze: "a parameter is frozen (requires_grad is False)",
    make_double: "a tensor is of torch.float64, and native code has float32",
    transpose_in_memory: "a tensor is not contiguous",
    transpose_what_comes_next: "a tensor is not contiguous",
    hook: "Linear has a hook",
    hook_gradient: "a parameter's gradient has a hook",
    normalize_weights: "ParametrizedLinear is in the place of Linear",
}


@pytest.mark.parametrize("change", REASONS, ids=lambda change: change.__name__)
def test_what_the_kernel_cannot_do_is_torchs(change, caplog):
    """
    The same losses and gradients as d3rlpy's own update, whatever somebody has done to networks and batch; and it says why.
    """
    found = []
    for kind in ("ours", "theirs"):
        d3rlpy.seed(0)
        algo = build(SPANIQLConfig(), 5, 2)
        batch = TorchMiniBatch.from_batch(make_batch("IQL"), 0.99, False, "cpu:0")
        batch = change(algo, batch) or batch
        if kind == "theirs":
            algo.impl.__class__ = IQLImpl
        found.append((algo.impl.update(batch, 0), gradients(algo)))
        if kind == "ours" and IS_NATIVE:
            assert algo.native_status() == f"IQL runs in PyTorch: {REASONS[change]}."
            records = [record for record in caplog.records if record.name == "sb3_span"]
            assert [(record.message, record.levelname) for record in records] == [(algo.native_status(), "WARNING")]
    (our_losses, ours), (their_losses, theirs) = found
    assert our_losses == pytest.approx(their_losses, rel=1e-5)
    for our, their in zip(ours, theirs, strict=True):
        assert (our is None and their is None) or th.allclose(our, their, rtol=1e-4, atol=1e-6)


@needs_native
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (dict(critic_encoder_factory=VectorEncoderFactory([8])), "VectorEncoderWithAction is in the place of SPANEncoder"),
        (dict(actor_encoder_factory=SPANEncoderFactory(preprocess="layernorm")), "preprocess='layernorm'"),
        (dict(value_encoder_factory=SPANEncoderFactory(basis="bspline", degree=4)), "degree=4"),
    ],
)
def test_the_reason_is_logged_once(options, reason, caplog):
    algo = build(SPANIQLConfig(**options), 5, 2)
    for _ in range(2):
        algo.update(make_batch("IQL"))
    (record,) = [record for record in caplog.records if record.name == "sb3_span"]
    assert record.message == algo.native_status() and record.levelname == "WARNING"
    assert record.message.startswith("IQL runs in PyTorch: ") and reason in record.message


@needs_native
def test_the_reason_goes_with_its_cause():
    algo = build(SPANIQLConfig(), 5, 2)
    hook = algo.impl.modules.policy._mu.register_forward_hook(lambda *_: None)
    algo.update(make_batch("IQL"))
    assert algo.native_status() == "IQL runs in PyTorch: Linear has a hook."
    hook.remove()
    assert algo.native_status() == "IQL runs in C."


def test_without_networks_there_is_nothing_to_say():
    with pytest.raises(ValueError, match=r"no networks yet.*Call build_with_dataset or create_impl"):
        SPANIQLConfig().create().native_status()


def test_a_head_that_was_replaced_is_trained():
    algo = build(SPANIQLConfig(), 5, 2)
    algo.update(make_batch("IQL"))
    policy = algo.impl.modules.policy
    policy._mu = th.nn.Linear(15, 2)
    algo.update(make_batch("IQL"))
    assert policy._mu.weight.grad is not None


@needs_native  # torch lets some of it pass
@pytest.mark.parametrize("what", ["observations", "rewards", "parameter"])
def test_what_is_not_finite(what):
    """It is an error, and the policy is as it was."""
    algo = build(SPANIQLConfig(), 5, 2)
    policy = algo.impl.modules.policy
    batch = make_batch("IQL")
    if what == "parameter":
        policy._encoder.span.coefficients.data[0, 1, 1, 1] = np.nan
    else:
        getattr(batch, what)[3] = np.nan
    before = [param.clone() for param in policy.parameters()]
    with pytest.raises(
        ValueError, match=r"The loss of the .* is nan: observations, actions, rewards or the networks' parameters"
    ):
        algo.update(batch)
    assert all(th.allclose(param, old, equal_nan=True) for param, old in zip(policy.parameters(), before, strict=True))


@pytest.mark.filterwarnings("ignore:Grad strides do not match")  # a note of torch's on its own speed
def test_distributed(tmp_path):
    """d3rlpy's wrapper around each network is not a module that the kernel knows."""
    th.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    try:
        algo = SPANIQLConfig().create(device="cpu:0", enable_ddp=True)
        algo.create_impl((5,), 2)
        assert np.isfinite(list(algo.update(make_batch("IQL")).values())).all()
        assert not IS_NATIVE or "a network is inside a DistributedDataParallel" in algo.native_status()
    finally:
        th.distributed.destroy_process_group()


@pytest.mark.parametrize("encoder", [SPANEncoderFactory(), VectorEncoderFactory([8])])
def test_a_target_that_changes_between_updates(encoder):
    """The target critic's values are kept for the batch that they were made for, and no longer."""
    algo = build(SPANIQLConfig(critic_encoder_factory=encoder), 5, 2)
    batch = make_batch("IQL")
    first = algo.update(batch)
    with th.no_grad():
        for param in algo.impl.modules.targ_q_funcs.parameters():
            param.copy_(3.0 * param)
    assert algo.update(batch)["v_loss"] > 1.5 * first["v_loss"]


def test_learns_what_the_better_actions_were():
    """Actions of all kinds in the data, rewarded by how close they are to a function of the state."""
    generator = np.random.default_rng(0)
    observations = generator.uniform(-1, 1, size=(4000, 2)).astype(np.float32)
    best = np.tanh(observations[:, :1] - observations[:, 1:])
    actions = generator.uniform(-1, 1, size=(4000, 1)).astype(np.float32)
    rewards = -np.abs(actions - best)[:, 0]
    dataset = d3rlpy.dataset.MDPDataset(observations, actions, rewards, np.ones(4000, dtype=np.float32))
    d3rlpy.seed(0)
    encoder = SPANEncoderFactory(nmodes=6, nelems=4)
    options = {f"{role}_encoder_factory": encoder for role in ("actor", "critic", "value")}
    algo = SPANIQLConfig(actor_learning_rate=3e-3, critic_learning_rate=3e-3, weight_temp=10.0, **options).create()
    algo.build_with_dataset(dataset)
    for _ in range(800):
        algo.update(dataset.sample_transition_batch(128))
    error = np.abs(algo.predict(observations[:500]) - best[:500]).mean()
    assert error < 0.15  # without learning 0.45, with the mean of all actions 0.4


@pytest.mark.parametrize(
    "hyperparams, message",
    [
        ({"learning_rate": 1e-3, "policy_kwargs": {"net_arch": [8]}}, r"unknown option 'learning_rate'; allowed are"),
        ({}, r"policy_kwargs is {}; it must have span_arch, .*or net_arch"),
        ({"policy_kwargs": {"net_arch": {"pi": [8]}}}, r"one each for \['pi', 'qf', 'vf'\]"),
        ({"policy_kwargs": {"span_arch": {"nmodes": 0}}}, r"span_arch\['nmodes'\] is 0"),
    ],
)
def test_wrong_hyperparameters(hyperparams, message):
    with pytest.raises(ValueError, match=message):
        make_config(hyperparams)


def test_one_shape_for_all_or_one_for_each():
    config = make_config({"policy_kwargs": {"span_arch": {"pi": {"nmodes": 3}, "qf": {"nmodes": 4}, "vf": {"nmodes": 5}}}})
    assert [config.actor_encoder_factory.nmodes, config.critic_encoder_factory.nmodes] == [3, 4]
    assert config.value_encoder_factory == SPANEncoderFactory(nmodes=5)
    config = make_config({"policy_kwargs": {"net_arch": [8, 9]}})
    assert config.value_encoder_factory.hidden_units == [8, 9]
