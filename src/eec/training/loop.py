"""The one training loop: classifiers and autoencoders differ only in the loss they hand in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from eec.training.batches import Batches, smaller
from eec.training.journal import Journal
from eec.training.muon import Muon, MuonAdam, filters_of
from eec.training.recipes import Plan
from eec.training.runtime import Runtime

Loss = Callable[[Tensor, Tensor], Tensor]  # (images [B, C, H, W], their indices [B]) -> scalar
Progress = Callable[[int, int], None]  # (steps done, steps in all)


def quiet(done: int, total: int) -> None:
    """The progress callback of those who do not look."""


def train(
    net: nn.Module,
    batches: Batches,
    loss: Loss,
    plan: Plan,
    runtime: Runtime,
    generator: torch.Generator,
    progress: Progress = quiet,
    journal: Journal | None = None,
) -> int:
    """Minimise `loss` over the weights of `net`; gives the number of steps.

    `net` is left in evaluation mode. All randomness comes from `generator`, so the same inputs give
    the same weights, bit for bit, on the same machine and thread count: also where `journal` has a
    part of the training from an earlier process.
    """
    count = len(batches)
    total = plan.total_steps(count)
    weights = [w for w in net.parameters() if w.requires_grad]
    optimizer = _optimizer(net, plan)
    training = (journal or Journal()).open(net, optimizer, generator)
    step, order, done = training.at.step, training.at.order, training.at.done
    if training.finished:
        step = total
        progress(step, total)
    net.train()
    while step < total:
        if order is None:
            order = batches.epoch(generator)
        # Parts of nearly equal size, and a lone image twice: BatchNorm cannot learn from one.
        epoch = order.repeat(2) if count == 1 else order
        for index in epoch.tensor_split(plan.batches_per_epoch(count))[done:]:
            for group in optimizer.param_groups:
                group["lr"] = plan.rate_at(step, count)
            images = batches.take(index, generator)
            with runtime.autocast():
                value = loss(smaller(images) if step < plan.early * total else images, index)
            optimizer.zero_grad()
            value.backward()
            if plan.clip is not None:
                nn.utils.clip_grad_norm_(weights, plan.clip)
            optimizer.step()
            step, done = step + 1, done + 1
            progress(step, total)
            if step == total:
                break
            training.mark(step, order, done)
        order, done = None, 0
    training.finish()
    net.eval()
    return step


def _optimizer(net: nn.Module, plan: Plan) -> torch.optim.Optimizer:
    weights = [w for w in net.parameters() if w.requires_grad]
    if plan.optimizer in ("sgd", "muon"):
        kind = Muon if plan.optimizer == "muon" else torch.optim.SGD
        return kind(
            weights,
            lr=plan.rate,
            momentum=plan.momentum,
            nesterov=plan.nesterov,
            weight_decay=plan.weight_decay,
            fused=True,
        )
    adam: Callable[..., torch.optim.Optimizer] = torch.optim.Adam
    if plan.optimizer == "muon-adam":
        adam = partial(MuonAdam, filters=filters_of(net))
    return adam(
        weights,
        lr=plan.rate,
        betas=(plan.momentum, 0.999),
        weight_decay=plan.weight_decay,
        fused=True,
    )


@torch.no_grad()
def apply(
    function: Callable[[Tensor], Tensor], items: Tensor, runtime: Runtime, batch: int = 256
) -> Tensor:
    """`function` over all items in batches, gathered on the CPU; no gradients."""
    parts = []
    for part in items.split(batch):
        with runtime.autocast():
            out = function(part.to(runtime.device))
        parts.append(out.cpu())
    return torch.cat(parts)
