import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from eec.memory import codec as module
from eec.memory.codec import (
    Codec,
    CodecOptions,
    Quality,
    judge,
    new_autoencoder,
    patched,
    train_codec,
)
from eec.nets.classifiers import CLASSIFIERS, Classifier, GlobalPool
from eec.training.batches import to_float
from eec.training.loop import train
from eec.training.recipes import Plan
from eec.training.runtime import Runtime, seeded

OURS = CodecOptions("16x8x8", "tanh", content=0.7, content_scale="normalised")
ENOUGH = Plan("adam", rate=2e-3, batch=16, steps=150, clip=1.0)
FEW = replace(ENOUGH, steps=3)


@pytest.fixture(scope="module")
def images(digit_images: Callable[..., Tensor]) -> Tensor:
    """Threes and sevens in turn, so that any even spread has both."""
    return torch.stack([digit_images(3, 20), digit_images(7, 20)], 1).flatten(0, 1)


@pytest.fixture(scope="module")
def trained(images: Tensor, cpu: Runtime) -> Codec:
    warnings = list[str]()
    codec = train_codec(images, OURS, ENOUGH, cpu, seed=0, warn=warnings.append)
    assert not warnings
    return codec


def untrained(images: Tensor, cpu: Runtime, seed: int = 0) -> Codec:
    with seeded(seed):
        return Codec(new_autoencoder((1, *images.shape[2:]), OURS), cpu)


# --- a codec in use ---


def test_a_trained_codec_knows_far_more_than_the_mean_image(trained: Codec, images: Tensor) -> None:
    real = to_float(images)
    mean = mse_loss(real.mean(0, keepdim=True).expand_as(real), real)
    assert mse_loss(to_float(trained(images)), real) < 0.5 * mean
    quality = judge(trained, images, None, None)
    assert quality.good and not quality.diverged
    assert (trained.attempts, trained.steps) == (1, 150)


def test_codes_are_floats_never_negative_and_images_are_bytes(
    trained: Codec, images: Tensor
) -> None:
    codes = trained.encode(images)
    assert (codes.dtype, codes.shape) == (torch.float32, (40, 16, 8, 8))
    assert codes.is_contiguous() and codes.min() >= 0 and not codes.requires_grad
    decoded = trained.decode(codes)
    assert (decoded.dtype, decoded.shape) == (torch.uint8, images.shape)
    assert decoded.is_contiguous()
    assert torch.equal(decoded, trained(images))


def test_an_image_is_coded_alike_alone_and_among_others(trained: Codec, images: Tensor) -> None:
    alone = torch.cat([trained.encode(image[None]) for image in images[:5]])
    assert torch.allclose(alone, trained.encode(images)[:5], atol=1e-4)


def test_many_images_are_coded_in_parts(trained: Codec, images: Tensor) -> None:
    many = images.repeat(8, 1, 1, 1)  # 320: more than one part
    assert torch.equal(trained.decode(trained.encode(many))[-40:], trained(images))


# --- the judgement ---


def test_pixel_error_and_unexplained_variance_are_what_they_say(
    trained: Codec, images: Tensor
) -> None:
    quality = judge(trained, images, None, None)
    real, decoded = to_float(images), to_float(trained(images))
    error = (decoded - real).square().mean().item()
    assert quality.pixel_error == pytest.approx(error, rel=1e-5)
    assert quality.unexplained == pytest.approx(error / real.var(correction=0).item(), rel=1e-5)
    assert (quality.recognised, quality.recognised_real) == (None, None)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_net_with_weights_that_are_no_numbers_has_diverged(
    trained: Codec, images: Tensor, cpu: Runtime, poison: float
) -> None:
    codec = untrained(images, cpu)
    codec.net.load_state_dict(trained.net.state_dict())
    with torch.no_grad():
        next(iter(codec.net.parameters())).view(-1)[0] = poison
    quality = judge(codec, images, None, None)
    assert quality.diverged and not quality.good and math.isnan(quality.unexplained)


def test_an_untrained_net_is_not_good(images: Tensor, cpu: Runtime) -> None:
    assert not judge(untrained(images, cpu), images, None, None).good


def test_flat_images_can_be_judged(trained: Codec) -> None:
    flat = torch.zeros(3, 1, 32, 32, dtype=torch.uint8)
    assert math.isfinite(judge(trained, flat, None, None).unexplained)


def bright_or_dark(threshold: float) -> Classifier:
    """Calls an image 1 if it is brighter in the mean than `threshold`, else 0."""
    net = Classifier(nn.Identity(), GlobalPool("mean"), (1, 32, 32))
    net.head = nn.Linear(1, 2)
    with torch.no_grad():
        net.head.weight.copy_(torch.tensor([[0.0], [1.0]]))
        net.head.bias.copy_(torch.tensor([0.0, -threshold]))
    return net.eval()


def test_recognised_is_the_percentage_that_the_classifier_calls_by_name(
    trained: Codec, images: Tensor
) -> None:
    brightness = to_float(images).mean((1, 2, 3))
    threshold = brightness.median().item()
    targets = (brightness > threshold).long()
    targets[:4] = 1 - targets[:4]  # four of 40 that the classifier cannot get right
    quality = judge(trained, images, bright_or_dark(threshold), targets)
    assert quality.recognised_real == pytest.approx(90)
    calls = to_float(trained(images)).mean((1, 2, 3)) > threshold
    assert quality.recognised == pytest.approx(
        100 * (calls.long() == targets).float().mean().item()
    )


@pytest.mark.parametrize(
    ("unexplained", "recognised", "good", "diverged"),
    [
        (0.15, (None, None), True, False),
        (0.16, (None, None), False, False),
        (0.61, (None, None), False, True),
        (math.nan, (None, None), False, True),
        (0.1, (80.0, 100.0), True, False),
        (0.1, (79.0, 100.0), False, False),
        (0.1, (40.0, 50.0), True, False),
        (0.1, (0.0, 0.0), True, False),
    ],
)
def test_what_is_good_enough(
    unexplained: float, recognised: tuple[float | None, float | None], good: bool, diverged: bool
) -> None:
    quality = Quality(0.01, unexplained, *recognised)
    assert (quality.good, quality.diverged) == (good, diverged)
    assert quality.record()["good"] is good


# --- attempts ---


def weights(net: nn.Module) -> Tensor:
    return torch.cat([w.detach().flatten() for w in net.parameters()])


class Attempts:
    """Watches `train` from within the codec module: the weights before and after each call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before: list[Tensor] = []
        self.after: list[Tensor] = []
        original = train

        def watched(net: nn.Module, *rest: object) -> int:
            self.before.append(weights(net))
            steps = original(net, *rest)  # type: ignore[arg-type]
            self.after.append(weights(net))
            return steps

        monkeypatch.setattr(module, "train", watched)


def judged(monkeypatch: pytest.MonkeyPatch, *unexplained: float) -> None:
    """Let the judgements come out as given, whatever the nets are like."""
    verdicts = iter(unexplained)

    def verdict(*rest: object) -> Quality:
        return Quality(0.01, next(verdicts), None, None)

    monkeypatch.setattr(module, "judge", verdict)


def test_a_net_that_is_good_is_kept_though_another_lost_less(
    images: Tensor, cpu: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = iter([Quality(0.01, 0.10, 20.0, 90.0), Quality(0.01, 0.12, 85.0, 90.0)])
    monkeypatch.setattr(module, "judge", lambda *_: next(verdicts))
    warnings: list[str] = []
    codec = train_codec(images, OURS, FEW, cpu, seed=0, warn=warnings.append)
    assert codec.attempts == 2 and not warnings


def test_a_starved_net_is_tried_three_times_told_of_once_and_still_given(
    images: Tensor, cpu: Runtime
) -> None:
    warnings, calls = list[str](), list[tuple[int, int]]()
    codec = train_codec(
        images,
        OURS,
        FEW,
        cpu,
        seed=0,
        progress=lambda done, total: calls.append((done, total)),
        warn=warnings.append,
    )
    assert calls == [(1, 3), (2, 3), (3, 3)] * 3
    assert len(warnings) == 1 and "after 3 attempts (9 steps)" in warnings[0]
    assert not judge(codec, images, None, None).good
    assert codec(images).shape == images.shape


def test_a_starved_net_is_trained_on(
    images: Tensor, cpu: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts, warnings = Attempts(monkeypatch), list[str]()
    judged(monkeypatch, 0.5, 0.3, 0.1)
    codec = train_codec(images, OURS, FEW, cpu, seed=0, warn=warnings.append)
    assert torch.equal(attempts.before[1], attempts.after[0])
    assert torch.equal(attempts.before[2], attempts.after[1])
    assert torch.equal(weights(codec.net), attempts.after[2])
    assert (codec.steps, codec.attempts) == (9, 3)
    assert warnings == []


def test_a_diverged_net_is_begun_anew_from_another_seed(
    images: Tensor, cpu: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts, warnings = Attempts(monkeypatch), list[str]()
    wild = replace(FEW, rate=1e30, clip=None)
    codec = train_codec(images, OURS, wild, cpu, seed=0, warn=warnings.append)
    assert judge(codec, images, None, None).diverged
    assert len(attempts.before) == 3 and len(warnings) == 1
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert not torch.equal(attempts.before[i], attempts.before[j])
    # fresh weights, not the wreck of the attempt before
    assert all(before.isfinite().all() and before.abs().max() < 10 for before in attempts.before)


def test_the_best_attempt_is_given_and_a_later_one_does_not_touch_it(
    images: Tensor, cpu: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts, warnings = Attempts(monkeypatch), list[str]()
    judged(monkeypatch, 0.4, 0.2, 0.3)
    codec = train_codec(images, OURS, FEW, cpu, seed=0, warn=warnings.append)
    assert (codec.steps, codec.attempts) == (9, 3)  # all that it took
    assert torch.equal(weights(codec.net), attempts.after[1])
    assert len(warnings) == 1 and "20 %" in warnings[0]


def test_a_number_beats_no_number(
    images: Tensor, cpu: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = Attempts(monkeypatch)
    judged(monkeypatch, math.nan, 0.9, math.nan)
    codec = train_codec(images, OURS, FEW, cpu, seed=0, warn=lambda text: None)
    assert torch.equal(weights(codec.net), attempts.after[1])


def test_training_starts_from_the_net_that_is_given_and_leaves_that_alone(
    trained: Codec, images: Tensor, cpu: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts, before = Attempts(monkeypatch), weights(trained.net)
    codec = train_codec(images, OURS, FEW, cpu, seed=0, start=trained.net)
    assert torch.equal(attempts.before[0], before)
    assert torch.equal(weights(trained.net), before)
    assert not torch.equal(weights(codec.net), before)


def test_the_same_seed_gives_the_same_codec(images: Tensor, cpu: Runtime) -> None:
    def learned(seed: int) -> Tensor:
        return weights(train_codec(images, OURS, FEW, cpu, seed=seed, warn=lambda text: None).net)

    first = learned(0)
    torch.rand(1)
    assert torch.equal(first, learned(0)) and not torch.equal(first, learned(1))


@pytest.mark.parametrize("scale", ["raw", "normalised"])
def test_the_content_loss_has_a_say_only_with_a_classifier_and_a_share(
    images: Tensor, cpu: Runtime, scale: str
) -> None:
    classifier = cpu.place(CLASSIFIERS["dcgan"]((1, 32, 32)))

    def learned(content: float, net: Classifier | None) -> Tensor:
        options = replace(OURS, content=content, content_scale=scale)
        one = replace(FEW, steps=1)
        codec = train_codec(images, options, one, cpu, 0, classifier=net, warn=lambda text: None)
        return weights(codec.net)

    pixels = learned(0.7, None)
    assert torch.equal(learned(0.0, classifier), pixels)
    assert not torch.equal(learned(0.7, classifier), pixels)


def test_pieces_of_other_images_make_new_ones_of_the_same_pixels() -> None:
    batch = torch.arange(4.0)[:, None, None, None].expand(4, 3, 9, 7).contiguous()
    rng = torch.Generator().manual_seed(0)
    seen = set()
    for _ in range(20):
        made = patched(batch, rng)
        assert made.shape == batch.shape and made.unique().tolist() == [0, 1, 2, 3]
        assert all(image.unique().numel() <= 2 for image in made)
        seen.add(int((made != batch).sum()))
    assert len(seen) > 10  # of many sizes
    assert batch[:, 0, 0, 0].tolist() == [0, 1, 2, 3]  # and what was given is left alone
