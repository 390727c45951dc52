import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from eec.nets.compressor import Compressor
from eec.training import muon
from eec.training.muon import Muon, MuonAdam, filters_of, orthogonal


@pytest.mark.parametrize("shape", [(8, 27), (27, 8), (16, 16)])
def test_all_directions_count_alike(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    left, _, right = torch.linalg.svd(torch.randn(shape), full_matrices=False)
    sizes = torch.linspace(1.0, 0.1, min(shape))
    (made,) = orthogonal([left * sizes @ right])
    assert made.shape == shape
    found = torch.linalg.svdvals(made)
    assert float(found.min()) > 0.5 and float(found.max()) < 1.3
    # The directions themselves stay: what is made is aligned with each of them.
    along = (left.T @ made @ right.T).diagonal()
    assert torch.allclose(along.sort().values, found.sort().values, atol=1e-3)


def test_a_gradient_of_zeros_moves_nothing() -> None:
    assert orthogonal([torch.zeros(4, 9)])[0].abs().max() == 0


def test_rounds_on_the_products_of_rows_are_rounds_on_each_matrix() -> None:
    shapes = [(8, 27), (27, 8), (64, 576), (8, 8), (1, 9)]  # three of one side, in one batch
    random = torch.Generator().manual_seed(0)
    matrices = [(i + 1) * torch.randn(s, generator=random) for i, s in enumerate(shapes)]
    for matrix, made in zip(matrices, orthogonal(matrices), strict=True):
        now = matrix / matrix.norm()
        for _ in range(muon.ROUNDS):
            square = now @ now.T
            now = muon.FIRST * now + (muon.THIRD * square + muon.FIFTH * square @ square) @ now
        torch.testing.assert_close(made, now, atol=1e-5, rtol=1e-4)


def test_the_layout_of_filters_makes_no_difference() -> None:
    moved = []
    for layout in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(0)
        net = nn.Conv2d(3, 8, 3, bias=False).to(memory_format=layout)  # type: ignore[call-overload]
        images = torch.randn(4, 3, 9, 9).contiguous(memory_format=layout)
        optimizer = Muon(net.parameters(), lr=0.05)
        for _ in range(3):
            net(images).square().mean().backward()
            optimizer.step()
        moved.append(net.weight.detach().contiguous())
    torch.testing.assert_close(*moved, atol=1e-5, rtol=1e-4)


def net_and_images() -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(144, 3),
    )
    return net, torch.randn(30, 1, 8, 8), torch.arange(30) % 3


def test_filters_keep_their_length_and_others_move_as_by_plain_sgd() -> None:
    net, images, targets = net_and_images()
    cross_entropy(net(images), targets).backward()
    head = net[-1].weight
    assert isinstance(head, torch.Tensor) and head.grad is not None
    expected = head.detach() - 0.01 * head.grad
    optimizer = Muon(net.parameters(), lr=0.01)
    optimizer.step()
    torch.testing.assert_close(head.detach(), expected)
    filters = net[0].weight
    assert isinstance(filters, torch.Tensor)
    assert filters.detach().norm() == pytest.approx(2.0, abs=0.1)  # four filters


def test_training_learns() -> None:
    net, images, targets = net_and_images()
    optimizer = Muon(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, fused=True)
    for _ in range(40):
        optimizer.zero_grad()
        loss = cross_entropy(net(images), targets)
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.1


def test_a_frozen_filter_stays() -> None:
    net, images, targets = net_and_images()
    first = net[0].weight
    assert isinstance(first, torch.Tensor)
    first.requires_grad_(False)
    before = first.clone()
    optimizer = Muon([w for w in net.parameters() if w.requires_grad], lr=0.1)
    cross_entropy(net(images), targets).backward()
    optimizer.step()
    assert torch.equal(first, before)


def test_filters_are_those_of_convolutions_alone() -> None:
    net = Compressor((3, 32, 32))
    named = {id(weight): name for name, weight in net.named_parameters()}
    found = {named[id(weight)] for weight in filters_of(net)}
    # Neither the prior's weights nor those of divisive normalisation, though these are 4-D, too.
    layers = (part for side in ("encoder", "decoder") for part in (f"{side}.0", f"{side}.2"))
    assert found == {f"{layer}.weight" for layer in layers}


def test_muon_adam_turns_filters_and_moves_the_rest_as_adam_does() -> None:
    net, images, targets = net_and_images()
    twin, _, _ = net_and_images()
    ours = MuonAdam(net.parameters(), filters=filters_of(net), lr=0.01)
    adam = torch.optim.Adam(twin.parameters(), lr=0.01)
    before = filters_of(net)[0].detach().clone()
    for trained, optimizer in ((net, ours), (twin, adam)):
        cross_entropy(trained(images), targets).backward()
        optimizer.step()
    others = zip(net[1:].parameters(), twin[1:].parameters(), strict=True)
    assert all(torch.equal(mine, theirs) for mine, theirs in others)
    moved = (filters_of(net)[0].detach() - before).flatten(1)  # four filters of nine numbers
    assert torch.linalg.svdvals(moved).min() > 0.5 * 0.01 * muon.REACH * 3
    assert moved.square().mean().sqrt() == pytest.approx(0.01 * muon.REACH, rel=0.4)


def test_muon_adam_goes_on_with_the_momentum_it_had() -> None:
    net, images, targets = net_and_images()
    optimizer = MuonAdam(net.parameters(), filters=filters_of(net), lr=0.01)
    for _ in range(2):
        cross_entropy(net(images), targets).backward()
        optimizer.step()
    first = next(iter(net.parameters()))
    assert set(optimizer.state[first]) == {"momentum_buffer"}
