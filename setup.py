"""The native kernels. Everything else about the package is in setup.cfg."""

from setuptools import Extension, setup

SPAN = "sb3_span/nn/native"
SPAN_HEADERS = [f"{SPAN}/span_{name}.h" for name in ("kernel", "kernel_forward", "kernel_backward", "spline", "exp")]
UPDATES = "sb3_span/algorithms/native"
UPDATES_HEADERS = [
    f"{UPDATES}/{name}.h"
    for name in ("arrays", "updates", "kernel_any", "functions", "networks", "adam", "sac_update", "ppo_update")
]
WIDTHS = ("avx512", "avx2", "baseline")


def make_extension(name: str, sources: list[str], depends: list[str]) -> Extension:
    return Extension(
        name,
        sources=sources,
        depends=depends,
        # No -ffast-math: NaN, infinity, the order of sums and the processor's mode stay as they are.
        extra_compile_args=["-std=gnu99", "-O3", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"],
        # Without a C compiler the package installs all the same, and runs on torch.
        optional=True,
    )


setup(
    ext_modules=[
        make_extension(
            "sb3_span.nn.native._native",
            [f"{SPAN}/module.c", *(f"{SPAN}/span_kernel_{width}.c" for width in WIDTHS)],
            SPAN_HEADERS,
        ),
        make_extension(
            "sb3_span.algorithms.native._updates",
            [f"{UPDATES}/module.c", *(f"{UPDATES}/kernel_{width}.c" for width in WIDTHS)],
            [*SPAN_HEADERS, *UPDATES_HEADERS],
        ),
    ]
)
