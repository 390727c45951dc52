"""Muon (Jordan et al., 2024): the momentum of a layer's filters, made orthogonal before it is used.

A gradient is mostly along few directions; with all of them alike, a step teaches a net of
convolutions more, and takes a tenth longer (`benchmarks/recipe.py` measures it). `Muon` is for
classifiers, `MuonAdam` for what codes images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
            filters = [w for w in group["params"] if w.ndim == 4 and w.grad is not None]
            if filters:
                self._move(filters, group["lr"])
                for weight in filters:
                    weight.grad = None  # plain SGD passes over it, then
        return super().step(closure)

    def _move(self, filters: list[Tensor], rate: float) -> None:
        turned = _turned(_ahead(self, filters, MOMENTUM))
        lengths = torch.stack(torch._foreach_norm(filters)).clamp_min(1e-12)
        wanted = lengths.new_tensor([len(weight) ** 0.5 for weight in filters])
        torch._foreach_mul_(filters, (wanted / lengths).unbind())
        torch._foreach_add_(filters, turned, alpha=-rate)


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
            mine = [w for w in group["params"] if id(w) in self.filters and w.grad is not None]
            if mine:
                self._move(mine, group["lr"])
                for weight in mine:
                    weight.grad = None  # Adam passes over it, then
        return super().step(closure)

    def _move(self, filters: list[Tensor], rate: float) -> None:
        turned = _turned(_ahead(self, filters, STEADY))
        longer = [max(len(weight), weight[0].numel()) for weight in filters]
        torch._foreach_mul_(turned, [-rate * REACH * length**0.5 for length in longer])
        torch._foreach_add_(filters, turned)


def filters_of(net: nn.Module) -> list[Tensor]:
    """Those of convolutions, not other weights that lie in four dimensions."""
    kinds = (nn.Conv2d, nn.ConvTranspose2d)
    return [part.weight for part in net.modules() if isinstance(part, kinds)]


def _ahead(optimizer: torch.optim.Optimizer, filters: list[Tensor], steady: float) -> list[Tensor]:
    """Momentum after this step, seen a step ahead (Nesterov): of each layer's filters."""
    gradients = [weight.grad for weight in filters if weight.grad is not None]
    states = [optimizer.state[weight] for weight in filters]
    for state, weight in zip(states, filters, strict=True):
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
    momenta = [state["momentum_buffer"] for state in states]
    torch._foreach_lerp_(momenta, gradients, 1 - steady)
    return list(torch._foreach_lerp(gradients, momenta, steady))


def _turned(filters: Sequence[Tensor]) -> list[Tensor]:
    """Each layer's filters [out, in, h, w], made orthogonal."""
    # Numbers as they lie in memory, channels last: the order of a filter's is all the same.
    rows = [layer.permute(0, 2, 3, 1) for layer in filters]
    turned = orthogonal([layer.flatten(1) for layer in rows])
    back = zip(turned, rows, strict=True)
    return [made.view(layer.shape).permute(0, 3, 1, 2) for made, layer in back]


def orthogonal(matrices: Sequence[Tensor]) -> list[Tensor]:
    """Nearly the orthogonal matrix next to each of these: all singular values about 1.

    Each round multiplies a matrix by a polynomial of the products of its rows (of its columns, if
    those are fewer). So the rounds are done with these products alone, which are far smaller and,
    where as many, all at once, and the matrix is multiplied in the end.
    """
    made = list(matrices)
    for side in {min(matrix.shape) for matrix in matrices}:
        places = [i for i, matrix in enumerate(matrices) if min(matrix.shape) == side]
        chosen = [matrices[i] for i in places]
        squares = [m @ m.T if len(m) == side else m.T @ m for m in chosen]
        for i, factor in zip(places, _factors(torch.stack(squares)), strict=True):
            matrix = matrices[i]
            made[i] = factor @ matrix if len(matrix) == side else matrix @ factor
    return made


def _factors(square: Tensor) -> Tensor:
    """What the rounds multiply matrices by, from the products [N, side, side] of their rows."""
    length = square.diagonal(dim1=1, dim2=2).sum(1).sqrt().add(1e-7)[:, None, None]
    square = square / length.square()
    now = factor = _one_round(square)
    for _ in range(ROUNDS - 1):
        square = now @ square @ now
        now = _one_round(square)
        factor = now @ factor
    return factor / length


def _one_round(square: Tensor) -> Tensor:
    factor = torch.baddbmm(square, square, square, beta=THIRD, alpha=FIFTH)
    factor.diagonal(dim1=1, dim2=2).add_(FIRST)
    return factor
