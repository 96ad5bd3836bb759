"""The native kernel. Everything else about the package is in setup.cfg."""

from setuptools import Extension, setup

FOLDER = "sb3_span/nn/native"
HEADERS = ["span_kernel", "span_kernel_forward", "span_kernel_backward", "span_spline", "span_exp"]
SOURCES = ["module", "span_kernel_avx512", "span_kernel_avx2", "span_kernel_baseline"]

setup(
    ext_modules=[
        Extension(
            "sb3_span.nn.native._native",
            sources=[f"{FOLDER}/{name}.c" for name in SOURCES],
            depends=[f"{FOLDER}/{name}.h" for name in HEADERS],
            # No -ffast-math: NaN, infinity, the order of sums and the processor's mode stay as they are.
            extra_compile_args=["-std=gnu99", "-O3", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"],
            # Without a C compiler the package installs all the same, and runs on torch.
            optional=True,
        )
    ]
)
