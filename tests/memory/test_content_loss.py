from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from eec.memory import codec as module
from eec.memory.codec import CodecOptions, ContentLoss, judge, train_codec
from eec.nets.classifiers import CLASSIFIERS, Classifier
from eec.training.batches import to_float
from eec.training.recipes import Plan
from eec.training.runtime import Runtime, seeded

SHAPE = (1, 32, 32)


class Louder(nn.Module):
    def __init__(self, times: float) -> None:
        super().__init__()
        self.times = times

    def forward(self, features: Tensor) -> Tensor:
        return self.times * features


def classifier(times: float = 1.0) -> Classifier:
    """Always the same net, but its features are `times` as large."""
    with seeded(3):
        net = CLASSIFIERS["tiny"](SHAPE)
        net.grow(2)
    loud = Classifier(nn.Sequential(net.stages, Louder(times)), net.pool, SHAPE)
    loud.head = net.head
    return loud


@pytest.fixture(scope="module")
def images(digit_images: Callable[..., Tensor]) -> Tensor:
    return torch.cat([digit_images(3, 6), digit_images(7, 6)])


@pytest.fixture(scope="module")
def blurred(images: Tensor) -> Tensor:
    return nn.functional.avg_pool2d(to_float(images), 3, 1, 1)


INDEX = torch.arange(12)


@pytest.mark.parametrize("normalised", [True, False])
def test_images_have_no_distance_from_themselves(
    images: Tensor, blurred: Tensor, cpu: Runtime, normalised: bool
) -> None:
    content = ContentLoss(classifier(), images, cpu, normalised)
    real = to_float(images)
    assert content(real, real, INDEX).mean().item() == pytest.approx(0, abs=1e-9)
    assert content(blurred, real, INDEX).mean().item() > 1e-4


def test_it_is_the_mean_square_distance_of_the_features(
    images: Tensor, blurred: Tensor, cpu: Runtime
) -> None:
    net, real = classifier().eval(), to_float(images)
    with torch.no_grad():
        wanted, got = net.features(real), net.features(blurred)
    raw = ContentLoss(net, images, cpu, False)(blurred, real, INDEX).mean().item()
    assert raw == pytest.approx((wanted - got).square().mean().item(), rel=1e-4)
    share = ContentLoss(net, images, cpu, True)(blurred, real, INDEX).mean().item()
    assert share == pytest.approx(raw / wanted.square().mean().item(), rel=1e-4)


def test_only_the_raw_one_grows_with_the_features(
    images: Tensor, blurred: Tensor, cpu: Runtime
) -> None:
    def loss(times: float, normalised: bool) -> float:
        content = ContentLoss(classifier(times), images, cpu, normalised)
        return content(blurred, to_float(images), INDEX).mean().item()

    assert loss(100, True) == pytest.approx(loss(1, True), rel=1e-4)
    assert loss(100, False) == pytest.approx(1e4 * loss(1, False), rel=1e-4)


@pytest.mark.parametrize("normalised", [True, False])
def test_kept_features_and_features_on_the_fly_are_the_same(
    images: Tensor,
    blurred: Tensor,
    cpu: Runtime,
    monkeypatch: pytest.MonkeyPatch,
    normalised: bool,
) -> None:
    index = torch.tensor([5, 0, 9])
    kept = ContentLoss(classifier(), images, cpu, normalised)
    monkeypatch.setattr(module, "FEATURE_CACHE_BYTES", 0)
    fly = ContentLoss(classifier(), images, cpu, normalised)
    assert kept.real is not None and fly.real is None
    batch = blurred[index], to_float(images)[index], index
    assert kept(*batch).mean().item() == pytest.approx(fly(*batch).mean().item(), rel=1e-4)


@pytest.mark.parametrize("cache", [0, 1 << 30])
def test_gradients_flow_through_the_classifier_and_not_into_it(
    images: Tensor, blurred: Tensor, cpu: Runtime, monkeypatch: pytest.MonkeyPatch, cache: int
) -> None:
    monkeypatch.setattr(module, "FEATURE_CACHE_BYTES", cache)
    net = classifier()
    content = ContentLoss(net, images, cpu, True)
    decoded, real = blurred.clone().requires_grad_(), to_float(images).requires_grad_()
    content(decoded, real, INDEX).mean().backward()
    assert decoded.grad is not None and decoded.grad.abs().sum() > 0
    assert real.grad is None
    assert all(weight.grad is None for weight in net.parameters())


def test_training_an_autoencoder_leaves_the_classifier_as_it_was(
    images: Tensor, cpu: Runtime
) -> None:
    net = classifier().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    plan = Plan("adam", rate=2e-3, batch=6, steps=4)
    options = CodecOptions("16x8x8", "tanh", content=0.7, content_scale="raw")
    targets = (INDEX > 5).long()

    def train(content: float) -> float:
        codec = train_codec(
            images,
            replace(options, content=content),
            plan,
            cpu,
            seed=0,
            classifier=net,
            targets=targets,
            warn=lambda text: None,
        )
        quality = judge(codec, images, net, targets)
        assert quality.recognised is not None
        return quality.pixel_error

    assert train(0.7) != train(0.0)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
