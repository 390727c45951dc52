"""The conditional GAN: shapes, and who learns from what."""

import pytest
import torch
from torch import nn

from eec.nets.classifiers import Shape
from eec.nets.gan import GAN, NOISE, Generator


@pytest.mark.parametrize("image", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 27, 33), (3, 9, 70)])
def test_images_of_any_size_are_made_and_judged(image: Shape) -> None:
    net = GAN(image, 3)
    classes = torch.tensor([0, 1, 2, 2])
    made = net.generator(torch.randn(4, NOISE), classes)
    assert made.shape == (4, *image) and made.abs().max() <= 1
    assert net.discriminator(made, classes).shape == (4,)


def test_class_and_noise_both_decide_the_image() -> None:
    net = Generator((1, 8, 8), 2).eval()
    noise = torch.randn(1, NOISE).repeat(2, 1)
    one, other = net(noise, torch.tensor([0, 1]))
    assert not torch.allclose(one, other)
    one, other = net(torch.randn(2, NOISE), torch.tensor([0, 0]))
    assert not torch.allclose(one, other)


def gradients(net: nn.Module) -> torch.Tensor:
    return torch.cat([w.grad.flatten() for w in net.parameters() if w.grad is not None])


def test_each_part_learns_from_its_own_half_of_the_loss() -> None:
    """As if the judge were trained on what was made, and the generator against a frozen judge."""
    torch.manual_seed(0)
    net = GAN((1, 8, 8), 2).eval()  # so that a second pass sees the same weights
    images, classes, noise = torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 0, 1]), torch.randn(4, 64)
    net.loss(images, classes, noise).backward()
    generator, judge = gradients(net.generator), gradients(net.discriminator)
    assert all(w.requires_grad for w in net.parameters())

    net.zero_grad()
    made = net.generator(noise, classes).detach()
    hinge = (1 - net.discriminator(images, classes)).clamp_min(0)
    hinge = hinge + (1 + net.discriminator(made, classes)).clamp_min(0)
    hinge.mean().backward()
    assert torch.allclose(gradients(net.discriminator), judge, atol=1e-6)

    net.zero_grad()
    (-net.discriminator(net.generator(noise, classes), classes)).mean().backward()
    assert torch.allclose(gradients(net.generator), generator, atol=1e-6)
