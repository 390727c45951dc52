from itertools import product

import pytest
import torch
from torch import nn

from eec.nets.classifiers import CLASSIFIERS, BasicBlock, DiscriminatorBlock, Shape


def ceil_eighth(side: int) -> int:
    return -(-side // 8)


# Name -> channels of the last convolutional stage, and what becomes of the picture's side in it.
STAGES = {
    "dcgan": (128, ceil_eighth),
    "wgan": (128, lambda side: side // 4),
    "resnet18": (512, ceil_eighth),
    "small": (128, lambda side: side // 8),
    "tiny": (64, lambda side: side // 8),
}
QUICK = [
    (name, (channels, side, side))
    for name, channels, side in product(("dcgan", "small", "tiny"), (1, 3), (28, 32, 48, 64))
]
SLOW: list[tuple[str, Shape]] = [
    ("wgan", (1, 28, 28)),
    ("wgan", (3, 32, 32)),
    ("resnet18", (3, 32, 32)),
    ("resnet18", (1, 28, 28)),
]
ODD: list[tuple[str, Shape]] = [(name, (3, 33, 40)) for name in ("dcgan", "small", "tiny")]


def test_every_classifier_is_tried() -> None:
    assert set(STAGES) == set(CLASSIFIERS)


@pytest.mark.parametrize(("name", "image"), QUICK + SLOW + ODD)
def test_logits_and_features_have_the_shapes_that_follow_from_the_image(
    name: str, image: Shape
) -> None:
    channels, shrink = STAGES[name]
    net = CLASSIFIERS[name](image)
    net.grow(7)
    images = torch.randn(2, *image)
    assert net(images).shape == (2, 7)
    assert net.features(images).shape == (2, channels, shrink(image[1]), shrink(image[2]))


@pytest.mark.parametrize("name", ["dcgan", "small", "tiny"])
def test_logits_are_the_head_over_the_pooled_features(name: str) -> None:
    net = CLASSIFIERS[name]((1, 28, 28)).eval()
    net.grow(3)
    images = torch.randn(4, 1, 28, 28)
    assert net.head is not None
    assert torch.allclose(net(images), net.head(net.pool(net.features(images))))


@pytest.mark.parametrize("name", ["dcgan", "small", "tiny"])
def test_gradients_reach_the_image_through_the_features(name: str) -> None:
    net = CLASSIFIERS[name]((1, 28, 28)).eval()
    images = torch.randn(2, 1, 28, 28, requires_grad=True)
    net.features(images).square().mean().backward()
    assert images.grad is not None and images.grad.abs().sum() > 0


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_those_that_say_so_take_images_of_another_size(name: str) -> None:
    net = CLASSIFIERS[name]((1, 32, 32)).eval()
    net.grow(3)
    with torch.no_grad():
        if net.any_size:
            assert net(torch.rand(2, 1, 24, 24)).shape == (2, 3)
        else:
            with pytest.raises(RuntimeError):
                net(torch.rand(2, 1, 24, 24))


def test_head_grows_and_keeps_the_rows_of_old_classes() -> None:
    net = CLASSIFIERS["tiny"]((1, 28, 28))
    net.grow(3)
    assert net.head is not None
    old = net.head.weight.detach().clone(), net.head.bias.detach().clone()
    net.grow(5)
    assert net.head.out_features == 5
    assert torch.equal(net.head.weight[:3], old[0]) and torch.equal(net.head.bias[:3], old[1])
    assert len(net.head.weight.unique(dim=0)) == 5  # new rows are neither copies nor zeros
    assert net.head.weight[3:].abs().sum() > 0


def test_growing_to_the_same_number_changes_nothing() -> None:
    net = CLASSIFIERS["tiny"]((1, 28, 28))
    net.grow(3)
    head = net.head
    net.grow(3)
    assert net.head is head


@pytest.mark.parametrize("classes", [3, 5])
def test_without_keep_the_whole_head_is_new(classes: int) -> None:
    net = CLASSIFIERS["tiny"]((1, 28, 28))
    net.grow(3)
    assert net.head is not None
    old = net.head.weight.detach().clone()
    net.grow(classes, keep=False)
    assert net.head.out_features == classes
    assert not (net.head.weight[:3] == old).any()


def test_measuring_the_shape_leaves_the_running_statistics_alone() -> None:
    net = CLASSIFIERS["dcgan"]((1, 28, 28))
    norms = [part for part in net.modules() if isinstance(part, nn.BatchNorm2d)]
    assert all(norm.training and norm.num_batches_tracked == 0 for norm in norms)


# --- what ALGORITHM.md, section 7, says of each ---


def parameters(net: nn.Module) -> int:
    return sum(weight.numel() for weight in net.parameters())


def test_resnet18_has_11_million_parameters_in_44_megabytes() -> None:
    net = CLASSIFIERS["resnet18"]((3, 32, 32))
    net.grow(10)
    assert parameters(net) == 11_173_962
    assert round(4 * parameters(net) / 1e6, 1) == 44.7
    assert not any(isinstance(part, nn.MaxPool2d) for part in net.modules())
    assert sum(isinstance(part, BasicBlock) for part in net.modules()) == 8


def test_dcgan_is_three_strided_5x5_convolutions_with_two_norms() -> None:
    parts = list(CLASSIFIERS["dcgan"]((1, 32, 32)).modules())
    convolutions = [part for part in parts if isinstance(part, nn.Conv2d)]
    assert [(c.out_channels, c.kernel_size, c.stride) for c in convolutions] == [
        (width, (5, 5), (2, 2)) for width in (32, 64, 128)
    ]
    assert [p.num_features for p in parts if isinstance(p, nn.BatchNorm2d)] == [64, 128]
    assert [p.negative_slope for p in parts if isinstance(p, nn.LeakyReLU)] == [0.2] * 3


def test_wgan_is_four_residual_blocks_of_128_channels() -> None:
    net = CLASSIFIERS["wgan"]((3, 32, 32))
    blocks = [part for part in net.modules() if isinstance(part, DiscriminatorBlock)]
    widths = {c.out_channels for c in net.modules() if isinstance(c, nn.Conv2d)}
    assert len(blocks) == 4 and widths == {128}


def test_small_nets_are_as_small_as_they_say() -> None:
    assert 0.4e6 < parameters(CLASSIFIERS["small"]((3, 32, 32))) < 0.75e6
    assert parameters(CLASSIFIERS["tiny"]((1, 28, 28))) < 0.2e6


@pytest.mark.parametrize("name", ["resnet18", "small", "tiny"])
def test_large_images_are_quartered_before_the_blocks(name: str) -> None:
    small, large = (CLASSIFIERS[name]((3, side, side)) for side in (64, 256))
    with torch.no_grad():
        assert small.eval().features(torch.zeros(1, 3, 64, 64)).shape[2:] == (8, 8)
        assert large.eval().features(torch.zeros(1, 3, 256, 256)).shape[2:] == (8, 8)


def test_resnet18_at_224_is_the_one_that_everybody_knows() -> None:
    net = CLASSIFIERS["resnet18"]((3, 224, 224))
    net.grow(1000)
    assert sum(weight.numel() for weight in net.parameters()) == 11_689_512
    with torch.no_grad():
        assert net.eval()(torch.zeros(1, 3, 224, 224)).shape == (1, 1000)
