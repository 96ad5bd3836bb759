"""From basis values to modes."""

import torch as th


def combine(values: th.Tensor, coefficients: th.Tensor, latent_dim: int, group_size: int) -> th.Tensor:
    """
    The weighted sum of basis functions for each dimension, and the products of the sums of each group of dimensions.

    :param values: Shape (C, B, D, N), or (1, B, D, N) for all networks alike
    :param coefficients: Shape (C, D, N, M)
    :param latent_dim: D as a number, since shapes are not numbers while they are traced
    :param group_size: Number of dimensions of a group; the last group may have fewer
    :return: Modes of one group after the other, shape (C, B, W)
    """
    values = values.expand(coefficients.shape[0], -1, -1, -1)
    factors = th.einsum("cbdn,cdnm->cdbm", values, coefficients)
    if group_size == latent_dim:
        return product(factors, latent_dim)
    groups, rest = divmod(latent_dim, group_size)
    whole = factors[:, : latent_dim - rest].unflatten(1, (groups, group_size)).transpose(1, 2)  # (C, group size, groups, B, M)
    modes = product(whole, group_size).transpose(1, 2).flatten(2)
    if rest > 0:
        modes = th.cat([modes, product(factors[:, latent_dim - rest :], rest)], dim=2)
    return modes


def product(factors: th.Tensor, latent_dim: int) -> th.Tensor:
    """
    Multiply over the latent dimensions, in a tree.

    The gradient of a factor is then a product of the other factors, without the division in ``torch.prod``'s:
    it is right when a factor is zero or the product underflows.

    :param factors: Shape (C, D, ...)
    :param latent_dim: D
    :return: Shape (C, ...)
    """
    while latent_dim > 1:
        half, odd = divmod(latent_dim, 2)
        first, second, rest = factors.split([half, half, odd], dim=1)
        factors = first * second
        if odd:
            factors = th.cat([factors, rest], dim=1)
        latent_dim = half + odd
    return factors.squeeze(1)
