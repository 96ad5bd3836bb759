"""An algorithm's greedy policy as a file that works without d3rlpy."""

from pathlib import Path

import torch as th
from d3rlpy.algos.qlearning.base import QLearningAlgoBase
from torch import nn

from sb3_span.atomic_files import written_whole


class _GreedyPolicy(nn.Module):
    """
    From observations to actions, scalers included.

    :param algo: The algorithm, whose networks are built
    """

    def __init__(self, algo: QLearningAlgoBase) -> None:
        super().__init__()
        self._algo = algo
        modules = vars(algo.impl.modules).items()
        self.networks = nn.ModuleDict({name: module for name, module in modules if isinstance(module, nn.Module)})

    def forward(self, *inputs: th.Tensor) -> th.Tensor:
        (x,) = inputs
        config = self._algo.config
        if config.observation_scaler:
            x = config.observation_scaler.transform(x)
        action = self._algo.impl.inner_predict_best_action(x)
        return config.action_scaler.reverse_transform(action) if config.action_scaler else action


_save_policy_of_d3rlpy = QLearningAlgoBase.save_policy


def save_policy(algo: QLearningAlgoBase, fname: Path | str) -> None:
    """
    ``algo.save_policy`` of d3rlpy's Q-learning algorithms, once ``sb3_span.offline`` is imported. d3rlpy's own passes a kind
    of function to torch's ONNX exporter that this no longer supports. This one supports batches of any size, and needs the
    extra ``deploy``.

    :param algo: Any of d3rlpy's algorithms, its networks built
    :param fname: ``.pt`` for TorchScript, ``.onnx`` for ONNX
    """
    if Path(fname).suffix != ".onnx":
        _save_policy_of_d3rlpy(algo, str(fname))
        return
    from sb3_span.deploy.onnx_export import trace

    shape = algo.observation_shape
    if algo.impl is None or shape is None or not all(isinstance(size, int) for size in shape):
        raise ValueError(
            f"The algorithm's networks are made for observations of shape {shape}; ONNX export needs an algorithm that is "
            "built (by fit or build_with_dataset) for observations that are one array."
        )
    example = th.zeros(2, *shape, device=algo._device)
    algo.predict(example.cpu().numpy())  # scalers create their tensors when first used, which must not happen while tracing
    algo.impl.modules.set_eval()
    graph = trace(_GreedyPolicy(algo), (example,), ["input_0"], ["output_0"])  # d3rlpy's names
    with written_whole(Path(fname)) as temporary:
        temporary.write_bytes(graph.SerializeToString())


QLearningAlgoBase.save_policy = save_policy
