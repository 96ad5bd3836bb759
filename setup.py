"""The native kernels, and the files next to the package that a wheel contains. Everything else is in setup.cfg."""

import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

SPAN = "sb3_span/nn/native"
SPAN_HEADERS = [
    f"{SPAN}/span_{name}.h" for name in ("kernel", "vectors", "kernel_forward", "kernel_backward", "spline", "exp")
]
UPDATES = "sb3_span/algorithms/native"
UPDATES_HEADERS = [
    f"{UPDATES}/{name}.h"
    for name in (
        "arrays",
        "plans",
        "transitions",
        "statistics",
        "updates",
        "kernel_any",
        "functions",
        "mlp",
        "networks",
        "adam",
        "sac_update",
        "ppo_update",
    )
]
WIDTHS = ("avx512", "avx2", "baseline")


# In a clone they are next to the package; a wheel has copies of them inside it (sb3_span/shipped.py).
SHIPPED = {"hyperparams": "*.yml", "zoo_configs": "**/*.yml", "examples/agents": "**/*"}
# One wheel for this version of Python and all later ones.
OLDEST = (3, 11)


class BuildWithShippedFiles(build_py):
    """Copies the files next to the package that a wheel contains."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib, "sb3_span", "shipped_files")
        shutil.rmtree(target, ignore_errors=True)
        for folder, pattern in SHIPPED.items():
            for file in sorted(Path(folder).glob(pattern)):
                if file.is_file() and file.suffix not in (".py", ".pyc"):
                    (target / file.parent).mkdir(parents=True, exist_ok=True)
                    shutil.copy(file, target / file)


def make_extension(name: str, sources: list[str], depends: list[str]) -> Extension:
    return Extension(
        name,
        sources=sources,
        depends=depends,
        # No -ffast-math: NaN, infinity, the order of sums and the processor's mode stay as they are.
        extra_compile_args=["-std=gnu99", "-O3", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"],
        define_macros=[("Py_LIMITED_API", f"0x{OLDEST[0]:02x}{OLDEST[1]:02x}0000")],
        py_limited_api=True,
        # Without a C compiler the package installs all the same, and runs on torch.
        optional=True,
    )


setup(
    cmdclass={"build_py": BuildWithShippedFiles},
    options={"bdist_wheel": {"py_limited_api": f"cp{OLDEST[0]}{OLDEST[1]}"}},
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
    ],
)
