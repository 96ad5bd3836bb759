"""(b) to (d): the networks alone."""

import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch as th
from stable_baselines3 import SAC
from torch import nn

from sb3_span.nn import SPAN, StackedLinear, kernel_info
from sb3_span.nn.native import choice
from sb3_span.speed.kan import make_kan
from sb3_span.speed.timing import take_turns
from sb3_span.speed.training import drift_scales
from sb3_span.zoo import make_agent

# Hopper's critics: 11 observations and 3 actions, two networks, the paper's sizes.
INPUTS, CRITICS = 14, 2
SPAN_ARCH = dict(nmodes=10, nelems=8)
MLP_WIDTH = 29
KAN_WIDTH = 10
BATCHES = (64, 128, 256, 1024)


class StackedMLP(nn.Module):
    """The two MLP critics as one: what stacking alone gives."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [(INPUTS, MLP_WIDTH), (MLP_WIDTH, MLP_WIDTH), (MLP_WIDTH, 1)]
        self.layers = nn.ModuleList(StackedLinear(inputs, outputs, CRITICS) for inputs, outputs in sizes)

    def forward(self, x: th.Tensor) -> th.Tensor:
        first, second, last = self.layers
        return last(second(first(x).relu()).relu())


class Separate(nn.Module):
    """Critics one after the other, as in SB3."""

    def __init__(self, critics: list[nn.Module]) -> None:
        super().__init__()
        self.critics = nn.ModuleList(critics)

    def forward(self, x: th.Tensor) -> th.Tensor:
        return th.stack([critic(x) for critic in self.critics])


def make_mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(INPUTS, MLP_WIDTH), nn.ReLU(), nn.Linear(MLP_WIDTH, MLP_WIDTH), nn.ReLU(), nn.Linear(MLP_WIDTH, 1)
    )


def make_critics() -> dict[str, nn.Module]:
    """The contenders, with about the same number of parameters each."""
    span = SPAN(INPUTS, SPAN_ARCH, n_stack=CRITICS, output_dim=1)
    drift_scales(span)
    contenders: dict[str, nn.Module] = {
        "MLP": Separate([make_mlp() for _ in range(CRITICS)]),
        "MLP, stacked": StackedMLP(),
        "SPAN, torch": OnTorch(span),
        "B-spline KAN": Separate([make_kan(INPUTS, KAN_WIDTH, 1) for _ in range(CRITICS)]),
    }
    if kernel_info()["kernel"] == "native":
        contenders["SPAN, native"] = span
    try:
        from kan import KAN  # its own package, not ours
    except ImportError:  # pip install pykan
        return contenders
    contenders["pykan"] = Separate(
        [KAN(width=[INPUTS, KAN_WIDTH, 1], grid=5, k=3, auto_save=False).speed() for _ in range(CRITICS)]
    )
    return contenders


class OnTorch(nn.Module):
    """A SPAN network without the native kernel."""

    def __init__(self, span: SPAN) -> None:
        super().__init__()
        self.span = span

    def forward(self, x: th.Tensor) -> th.Tensor:
        with mock.patch.object(choice, "IS_NATIVE", False):
            return self.span(x)


def step(network: nn.Module, x: th.Tensor) -> None:
    network(x).sum().backward()


def look(network: nn.Module, x: th.Tensor) -> None:
    with th.no_grad():
        network(x)


def time_critics(rounds: int) -> list[dict[str, Any]]:
    """(b) Forward and backward of Hopper's critics, and forward for one observation."""
    rows = []
    critics = make_critics()
    for batch, action in [(1, look), *((batch, step) for batch in BATCHES)]:
        x = th.randn(batch, INPUTS)
        timings = take_turns({name: partial(action, net, x) for name, net in critics.items()}, rounds, calls=20)
        for name, timing in timings.items():
            lower, middle, upper = timing.quartiles(timings["MLP"])
            rows.append(
                {
                    "network": name,
                    "parameters": sum(param.numel() for param in critics[name].parameters() if param.requires_grad),
                    "batch": batch,
                    "pass": "forward" if action is look else "forward and backward",
                    "us": 1e6 * timing.median,
                    "ratio": middle,
                    "ratio_lower": lower,
                    "ratio_upper": upper,
                }
            )
    return rows


GROWTH: dict[str, tuple[tuple[int, ...], Callable[[int], tuple[dict[str, Any], int, int, int]]]] = {
    # What grows: its values, and for a value the network's shape, its inputs, the stack and the batch.
    "D": ((4, 12, 40, 120, 400), lambda n: (dict(latent_dim=n), n, 2, 128)),
    "inputs, latent_dim=16": ((4, 12, 40, 120, 400), lambda n: (dict(latent_dim=16), n, 2, 128)),
    "nmodes": ((4, 8, 16, 32, 64), lambda n: (dict(nmodes=n), INPUTS, 2, 128)),
    "nelems": ((4, 8, 16, 32, 64), lambda n: (dict(nelems=n), INPUTS, 2, 128)),
    "stack": ((1, 2, 4, 8, 16), lambda n: ({}, INPUTS, n, 128)),
    "batch": ((32, 128, 512, 2048, 8192), lambda n: ({}, INPUTS, 2, n)),
}


def time_growth(rounds: int) -> list[dict[str, Any]]:
    """(c) Forward and backward against each size."""
    rows = []
    for what, (values, shape) in GROWTH.items():
        for value in values:
            arch, inputs, stack, batch = shape(value)
            net = SPAN(inputs, {**SPAN_ARCH, **arch}, n_stack=stack, output_dim=1)
            drift_scales(net)
            x = th.randn(batch, inputs)
            seconds = take_turns({"span": partial(step, net, x)}, rounds, calls=3)["span"].seconds
            lower, middle, upper = statistics.quantiles(seconds, n=4, method="inclusive")
            rows.append({"grows": what, "value": value, "us": 1e6 * middle, "us_lower": 1e6 * lower, "us_upper": 1e6 * upper})
    return rows


@contextmanager
def _silenced() -> Iterator[None]:
    """Torch's profiler writes directly to the process's standard error."""
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def measure_memory(hyperparams: Path) -> list[dict[str, Any]]:
    """(d) Peak of what a step allocates: torch's tensors, and the kernel's scratch memory while it runs."""
    rows = []
    for method, name in (("mlp", "Hopper's SAC, MLP"), ("span", "Hopper's SAC, SPAN")):
        agent = make_agent(hyperparams / f"{method}.yml", "Hopper-v5", seed=0, sb3=True, buffer_size=1000, learning_starts=200)
        assert isinstance(agent, SAC)
        agent.learn(300)  # optimizers have their states then
        peak = peak_allocation(partial(agent.train, gradient_steps=1, batch_size=128))
        rows.append({"network": name, "what": "update", "batch": 128, "peak_kB": peak / 1000, "scratch_kB": 0.0})
        if method == "span":
            rows[-1]["scratch_kB"] = scratch(128) / 1000
    for batch in (128, 1024):
        for name, net in make_critics().items():
            if name == "pykan":
                continue
            x = th.randn(batch, INPUTS)
            step(net, x)
            net.zero_grad()
            peak = peak_allocation(partial(step, net, x))
            inside = scratch(batch) if name == "SPAN, native" else 0
            row = {"network": name, "what": "forward and backward", "batch": batch, "peak_kB": peak / 1000}
            rows.append({**row, "scratch_kB": inside / 1000})
    return rows


def scratch(batch: int) -> int:
    """Bytes that the native kernel allocates for the critics' backward pass, its largest."""
    if choice.extension is None or not choice.IS_NATIVE:
        return 0
    sizes = (CRITICS, batch, INPUTS, INPUTS, SPAN_ARCH["nelems"], SPAN_ARCH["nmodes"], 1, 0, 0, INPUTS)
    return choice.extension.scratch(0, *sizes)


def peak_allocation(call: Callable[[], object]) -> int:
    """The most bytes of torch's tensors that were allocated by a call at one time."""
    with (
        _silenced(),
        th.profiler.profile(profile_memory=True, activities=[th.profiler.ProfilerActivity.CPU]) as profile,
    ):
        call()
    peak = now = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak
