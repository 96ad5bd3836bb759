"""What one update does: made on a copy of the agent, by the algorithm itself."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_span.diagnose.parts import find_networks
from sb3_span.diagnose.returns import estimates
from sb3_span.diagnose.transitions import Transitions
from sb3_span.diagnose.twin import copy_agent
from sb3_span.policies.optimizers import optimizers_of

# What Adam, SGD and RMSprop keep of earlier batches' gradients.
MOMENTA = ("exp_avg", "momentum_buffer")


@dataclass(frozen=True)
class Update:
    """
    :param twin: The copy of the agent, after the update
    :param gradients: The gradients of the optimizers' steps, clipped where they clip; by the copy's parameters
    """

    twin: Any
    gradients: dict[th.nn.Parameter, th.Tensor]


class _OnlyBatch:
    """Replaces a buffer and always returns one batch."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        if hasattr(batch, "returns"):  # for the explained variance that is logged
            self.values, self.returns = batch.old_values.cpu().numpy(), batch.returns.cpu().numpy()

    def sample(self, *_: Any, **__: Any) -> Any:
        return self._batch

    def get(self, *_: Any, **__: Any) -> Iterator[Any]:
        yield self._batch


def update(model: BaseAlgorithm, batch: Transitions, with_momentum: bool = True) -> Update:
    """
    :param model: The agent, which does not change
    :param batch: What to learn from
    :param with_momentum: Whether the step includes the momentum of earlier batches, as in training, or only the
        share that comes from this batch
    """
    twin = copy_agent(model)
    gradients: dict[th.nn.Parameter, th.Tensor] = {}

    def remember(optimizer: th.optim.Optimizer, *_: Any) -> None:
        params = (param for group in optimizer.param_groups for param in group["params"])
        gradients.update((param, param.grad.clone()) for param in params if param.grad is not None)

    for optimizer in optimizers_of(twin.policy):
        optimizer.register_step_pre_hook(remember)
        if not with_momentum:
            for state in optimizer.state.values():
                for name in MOMENTA:
                    if isinstance(state.get(name), th.Tensor):
                        state[name].zero_()
    twin._n_updates = -1  # TD3 updates its actor only in some updates: in this one
    if isinstance(model, OnPolicyAlgorithm):
        twin.rollout_buffer, twin.n_epochs = _OnlyBatch(batch.samples), 1
        if len(batch) == 1:  # one advantage has no spread to divide by; PPO handles it, A2C and TRPO do not
            twin.normalize_advantage = False
        twin.train()
    else:
        twin.replay_buffer = _OnlyBatch(batch.samples)
        twin.train(gradient_steps=1, batch_size=len(batch))
    twin.policy.set_training_mode(False)
    return Update(twin, gradients)


@th.no_grad()
def expected(model: Any, transitions: Transitions) -> th.Tensor:
    """What the critic expects of transitions, shape (B,)."""
    return estimates(model.policy, transitions.observations, transitions.actions).double()


def interference(model: BaseAlgorithm, batches: list[tuple[Transitions, Transitions]]) -> float:
    """
    How far an update moves the critic's values outside its batch, relative to inside: 0 for a table, 1 if every state moves as
    far as those in the batch. The root mean square over all batches, without momentum.

    :param model: The agent, which does not change
    :param batches: Each with transitions that are not in it
    """
    inside, outside = 0.0, 0.0
    before = copy_agent(model)
    before.policy.set_training_mode(False)
    for batch, others in batches:
        if len(others) == 0:
            continue
        after = update(model, batch, with_momentum=False).twin
        inside += float((expected(after, batch) - expected(before, batch)).square().mean())
        outside += float((expected(after, others) - expected(before, others)).square().mean())
    return (outside / inside) ** 0.5 if inside > 0 else float("nan")


@dataclass(frozen=True)
class Step:
    """
    What an update does to one part of a network.

    :param gradient: Norm of its gradient
    :param change: How far the network's outputs move when this part alone is updated: root mean square over the batch
    """

    gradient: float
    change: float


def steps(model: BaseAlgorithm, batch: Transitions) -> dict[str, dict[str, Step]]:
    """
    :param model: The agent, which does not change
    :param batch: What to learn from
    :return: By role (``critic``, ``actor``) and part. The critic's outputs are its values, the actor's its best actions
        (between -1 and 1 for SAC and similar algorithms) or, for Discrete ones, their probabilities
    """
    made, before = update(model, batch), copy_agent(model)
    before.policy.set_training_mode(False)
    outputs: dict[str, Callable[[], th.Tensor]] = {
        "critic": lambda: expected(before, batch),
        "actor": lambda: decisions(before.policy, batch.observations).double(),
    }
    found: dict[str, dict[str, Step]] = {}
    after = find_networks(made.twin.policy)
    for role, network in find_networks(before.policy).items():
        first = outputs[role]()
        found[role] = {}
        for (name, olds), news in zip(network.parts().items(), after[role].parts().values(), strict=True):
            grads = [new.of(made.gradients[new.parameter]) for new in news if new.parameter in made.gradients]
            kept = [old.of(old.parameter).clone() for old in olds]
            for old, new in zip(olds, news, strict=True):
                old.of(old.parameter).copy_(new.of(new.parameter))
            change = (outputs[role]() - first).square().mean().sqrt()
            for old, was in zip(olds, kept, strict=True):
                old.of(old.parameter).copy_(was)
            norm = sum(float(grad.double().square().sum()) for grad in grads) ** 0.5
            found[role][name] = Step(norm, float(change))
    return found


@th.no_grad()
def decisions(policy: Any, observations: Any) -> th.Tensor:
    """
    :param policy: A policy with an actor
    :param observations: As its networks expect them, B of them
    :return: The best action, or the probabilities of Discrete ones; shape (B, A)
    """
    distribution = policy.get_distribution(observations).distribution if hasattr(policy, "get_distribution") else None
    if isinstance(distribution, th.distributions.Categorical):
        return distribution.probs
    return policy._predict(observations, deterministic=True).float().flatten(start_dim=1)
