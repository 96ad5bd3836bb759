"""Wrong options say what came in, what is allowed and what to do."""

import math

import pytest

from sb3_span.nn import SPAN, SPANArch


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(modes=3), r"unknown key 'modes'; allowed are \['nmodes', 'nelems', .*Remove or rename"),
        (dict(nmodes=0), r"span_arch\['nmodes'\] is 0; it must be an integer of at least 1. Try 10"),
        (dict(nmodes=2.5), r"span_arch\['nmodes'\] is 2.5; it must be an integer"),
        (dict(nmodes=True), r"span_arch\['nmodes'\] is True; it must be an integer"),
        (dict(nmodes="10"), r"span_arch\['nmodes'\] is '10'; it must be an integer"),
        (dict(nelems=1), r"span_arch\['nelems'\] is 1; .* at least 2. Try 4 or 8, or basis='bspline', which accepts 1"),
        (dict(nelems=0, basis="bspline"), r"span_arch\['nelems'\] is 0; .* at least 1"),
        (dict(basis="fourier"), r"span_arch\['basis'\] is 'fourier'; choose one of \['kernel', 'bspline'\]"),
        (dict(degree=3), r"span_arch\['degree'\] is 3; the kernel basis is quadratic .* choose basis='bspline'"),
        (dict(degree=2.0), r"span_arch\['degree'\] is 2.0; the kernel basis is quadratic"),
        (dict(degree=0, basis="bspline"), r"span_arch\['degree'\] is 0; .* at least 1"),
        (dict(degree=1.5, basis="bspline"), r"span_arch\['degree'\] is 1.5"),
        *(
            (dict(slope=slope), r"span_arch\['slope'\] is .*; it must be a positive number")
            for slope in (0, -1, math.nan, math.inf, True, "2")
        ),
        *(
            (dict(group_size=size), rf"span_arch\['group_size'\] is {size!r}; it must be an integer of at least 1. Try 2")
            for size in (0, 2.5, True, -1, "2")
        ),
        (dict(latent_dim=0), r"span_arch\['latent_dim'\] is 0; .* at least 1"),
        (dict(latent_dim=3, preprocess="minmax"), r"only the dense preprocessing can change the number of dimensions"),
        (dict(preprocess="softmax"), r"span_arch\['preprocess'\] is 'softmax'; choose one of \['dense', "),
        ([64, 64], r"span_arch is \[64, 64\]; it must be a dict .* for instance span_arch=dict\(nmodes=10, nelems=8\)"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        SPAN(4, options)


def test_defaults():
    arch = SPANArch.make()
    assert arch.basis == "kernel" and arch.degree == 2
    assert SPANArch.make(arch) is arch
    assert SPANArch.make(dict(basis="bspline", nelems=1)).n_basis == 5
