"""Muon (Jordan et al., 2024): the momentum of a layer's filters, made orthogonal before it is used.

A gradient is mostly along few directions; with all of them alike, a step teaches a net of
convolutions more, and takes a tenth longer (`benchmarks/recipe.py` measures it). `Muon` is for
classifiers, `MuonAdam` for what codes images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.6  # of filters: directions that are alike need less smoothing
# A polynomial that brings all singular values near 1 in few rounds (Jordan et al.): near is enough.
ROUNDS = 3
FIRST, THIRD, FIFTH = 3.4445, -4.7750, 2.0315


class Muon(torch.optim.SGD):
    """Plain SGD, but for filters of convolutions, which keep their length: one a filter.

    BatchNorm behind a convolution undoes any length (where there is none, as behind the first of
    `dcgan`, what follows makes up for it), and a step means the same at all times.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.ndim == 4 and weight.grad is not None:
                    self._move(weight, weight.grad, group["lr"])
                    weight.grad = None  # plain SGD passes over it, then
        return super().step(closure)

    def _move(self, weight: Tensor, gradient: Tensor, rate: float) -> None:
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        momentum = state["momentum_buffer"].mul_(MOMENTUM).add_(gradient)
        ahead = gradient.add(momentum, alpha=MOMENTUM)
        weight.mul_(len(weight) ** 0.5 / weight.norm().clamp_min(1e-12))
        weight.add_(_turned(ahead), alpha=-rate)


# Momentum of filters without BatchNorm, and how far one of their numbers moves on average, in
# rates. With 0.08, 0.2, 0.4, 0.5 and 1 held-out images of CIFAR-10 took 78, 77, 75, 74 and 77 bytes
# at the same error, by Adam alone 79.
STEADY = 0.95
REACH = 0.5


class MuonAdam(torch.optim.Adam):
    """Adam, but for `filters`, whose length is free: nothing behind them would undo it.

    By Adam alone a compressor needs twice the steps for as few bytes (docs/codec.md).
    """

    def __init__(
        self, weights: Iterable[Tensor], *, filters: Iterable[Tensor], **options: Any
    ) -> None:
        super().__init__(weights, **options)
        self.filters = {id(weight) for weight in filters}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        for group in self.param_groups:
            for weight in group["params"]:
                if id(weight) in self.filters and weight.grad is not None:
                    self._move(weight, weight.grad, group["lr"])
                    weight.grad = None  # Adam passes over it, then
        return super().step(closure)

    def _move(self, weight: Tensor, gradient: Tensor, rate: float) -> None:
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        momentum = state["momentum_buffer"].lerp_(gradient, 1 - STEADY)
        ahead = gradient.lerp(momentum, STEADY)
        longer = max(len(weight), weight[0].numel())
        weight.add_(_turned(ahead), alpha=-rate * REACH * longer**0.5)


def filters_of(net: nn.Module) -> list[Tensor]:
    """Those of convolutions, not other weights that lie in four dimensions."""
    kinds = (nn.Conv2d, nn.ConvTranspose2d)
    return [part.weight for part in net.modules() if isinstance(part, kinds)]


def _turned(filters: Tensor) -> Tensor:
    """Filters [out, in, h, w], made orthogonal."""
    # Numbers as they lie in memory, channels last: the order of a filter's is all the same.
    rows, high, wide = filters.permute(0, 2, 3, 1), *filters.shape[2:]
    turned = orthogonal(rows.flatten(1)).view(len(filters), high, wide, -1)
    return turned.permute(0, 3, 1, 2)


def orthogonal(matrix: Tensor) -> Tensor:
    """Nearly the orthogonal matrix next to this one: all singular values about 1.

    Each round multiplies it from the left by a polynomial of `square`, the products of its rows. So
    the rounds are done with that alone, which is far smaller, and the matrix is multiplied once.
    """
    tall = matrix.shape[0] > matrix.shape[1]
    rows: Tensor = matrix.T if tall else matrix
    rows = rows / (rows.norm() + 1e-7)
    square = rows @ rows.T
    now = factor = _one_round(square)
    for _ in range(ROUNDS - 1):
        square = now @ square @ now
        now = _one_round(square)
        factor = now @ factor
    near = factor @ rows
    return near.T if tall else near


def _one_round(square: Tensor) -> Tensor:
    """What a round multiplies by."""
    factor = torch.addmm(square, square, square, beta=THIRD, alpha=FIFTH)
    factor.diagonal().add_(FIRST)
    return factor
