"""From basis values to modes."""

import torch as th

# What layer normalisation adds to the variance of the modes. The kernels in C have the same number.
NORM_EPSILON = 1e-5


def combine(values: th.Tensor, coefficients: th.Tensor, latent_dim: int) -> th.Tensor:
    """
    The weighted sum of basis functions for each dimension, and the product of all sums.

    :param values: Shape (C, B, D, N), or (1, B, D, N) for all networks alike
    :param coefficients: Shape (C, D, N, M)
    :param latent_dim: D as a number, which the shapes do not hold while they are traced
    :return: Modes, shape (C, B, M)
    """
    values = values.expand(coefficients.shape[0], -1, -1, -1)
    return product(th.einsum("cbdn,cdnm->cdbm", values, coefficients), latent_dim)


def product(factors: th.Tensor, latent_dim: int) -> th.Tensor:
    """
    Multiply over the latent dimensions, in a tree.

    The gradient of a factor is then a product of the other factors, without the division of ``torch.prod``'s:
    it stays right when a factor is zero or the product underflows.

    :param factors: Shape (C, D, B, M)
    :param latent_dim: D
    :return: Shape (C, B, M)
    """
    while latent_dim > 1:
        half, odd = divmod(latent_dim, 2)
        first, second, rest = factors.split([half, half, odd], dim=1)
        factors = first * second
        if odd:
            factors = th.cat([factors, rest], dim=1)
        latent_dim = half + odd
    return factors.squeeze(1)


def normalize(modes: th.Tensor, epsilon: float = NORM_EPSILON) -> th.Tensor:
    """
    Layer normalisation without parameters: what a sample's modes tell is which of them are large, not how large all are.

    :param modes: Shape (..., M)
    :param epsilon: Added to the variance
    :return: The same shape, with mean 0 and variance 1 over the modes
    """
    return th.nn.functional.layer_norm(modes, modes.shape[-1:], eps=epsilon)
