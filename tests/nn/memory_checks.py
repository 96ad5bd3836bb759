"""
The native kernel under AddressSanitizer and UndefinedBehaviorSanitizer, and under valgrind: make memory-checks.

Not collected by pytest: it compiles the kernel again, and valgrind takes minutes.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "sb3_span" / "nn" / "native"
SOURCES = [str(path) for path in sorted(NATIVE.glob("span_kernel_*.c"))]

# Every kernel that runs here, on odd shapes, with buffers of exactly the size they should have.
DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include "span_kernel.h"
static float *floats(size_t n) {
    float *p = malloc(n ? n * sizeof(float) : 1);
    for (size_t i = 0; i < n; i++) p[i] = (float)rand() / (float)RAND_MAX * 4.0f - 2.0f;
    return p;
}
int main(void) {
    const SpanKernel *kernels[] = {span_kernel_best(), &span_kernel_baseline};
    double sum = 0;
    for (int run = 0; run < 200; run++) {
        const SpanKernel *kernel = kernels[run % 2];
        int degree = run / 2 % 4, basis = (degree ? degree + 3 : 2) + rand() % 9;
        SpanShape s = {.stack = 1 + rand() % 3, .inputs = 1 + rand() % 21, .latent = 1 + rand() % 21};
        s.batch = run % 7 ? rand() % 40 : 300;
        s.basis = basis, s.modes = 1 + rand() % 37, s.outputs = rand() % 4, s.degree = degree;
        s.group = run % 3 ? s.latent : 1 + rand() % s.latent;
        size_t C = s.stack, B = s.batch, I = s.inputs, D = s.latent, N = s.basis, M = s.modes, O = s.outputs;
        size_t W = (D + s.group - 1) / s.group * M;
        size_t sizes[] = {B * I, C * D * I, C * D, C * D, C * D * N * M, C * O * W, C * O};
        float *p[7], *g[7];
        for (int i = 0; i < 7; i++) p[i] = floats(sizes[i]), g[i] = floats(sizes[i]);
        for (size_t i = 0; i < C * D; i++) p[3][i] *= (float)(1 + rand() % 20);
        float *out = floats(C * B * (O ? O : W)), *z = malloc(C * 2 * D * span_round_up(B, kernel->lanes) * sizeof(float) + 1);
        SpanInputs in = {p[0], p[1], p[2], p[3], p[4], p[5], p[6]};
        SpanGradients grads = {run % 3 ? g[0] : NULL, run % 5 ? g[1] : NULL, g[2], g[3], g[4], g[5], g[6]};
        if (kernel->forward(&s, &in, out, z) || kernel->backward(&s, &in, z, out, &grads)) return 1;
        for (size_t i = 0; i < sizes[4] && run % 5; i++) sum += g[4][i];
        if (kernel->forward(&s, &in, out, NULL)) return 1;
        for (int i = 0; i < 7; i++) free(p[i]), free(g[i]);
        free(out), free(z);
    }
    printf("200 runs of %s and %s, checksum %.5g\n", kernels[0]->name, kernels[1]->name, sum);
    return 0;
}
"""


def run(*command: object, **environment: str) -> None:
    print("$", " ".join(map(str, command)), flush=True)
    subprocess.run([str(word) for word in command], check=True, cwd=ROOT, env={**os.environ, **environment})


def main() -> None:
    flags = ["-std=gnu99", "-g", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        driver = folder / "driver.c"
        driver.write_text(DRIVER)
        sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        run("gcc", *flags, "-O1", *sanitizers, "-I", NATIVE, driver, *SOURCES, "-lm", "-o", folder / "sanitized")
        run(folder / "sanitized")

        # The extension with AddressSanitizer, in a copy of the package, through the kernel's own tests.
        copy = folder / "package"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "build", "logs", "*.so", "results", "docs"))
        subprocess.run(
            [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
            check=True,
            cwd=copy,
            env={**os.environ, "CFLAGS": "-fsanitize=address -g -O1"},
        )
        # With libstdc++ beside it: without, the first C++ exception that torch throws would end the process.
        libraries = [
            subprocess.run(["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
            for name in ("libasan.so", "libstdc++.so.6")
        ]
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "tests/nn/test_native.py",
                "tests/algorithms/test_same_as_sb3.py",
                "tests/algorithms/test_predict.py",
                "tests/algorithms/test_predict_changed.py",
                "-k",
                "not compile and not torch_for",
            ],
            check=True,
            cwd=copy,
            env={**os.environ, "LD_PRELOAD": " ".join(libraries), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(copy)},
        )

        run("gcc", *flags, "-O2", "-I", NATIVE, driver, *SOURCES, "-lm", "-o", folder / "plain")
        run("valgrind", "--quiet", "--error-exitcode=1", "--leak-check=full", folder / "plain")
    print("No errors.")


if __name__ == "__main__":
    main()
