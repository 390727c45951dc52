import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from eec.errors import UserError
from eec.nets.classifiers import Shape
from eec.nets.compressor import (
    LEVELS,
    SMALLEST_SCALE,
    BlocksToImage,
    Compressor,
    Prior,
    laplace_bits,
    step_of,
)

WIDTH = 6  # of the nets here: shapes are the same with any


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("image", "side"),
    [
        ((4, 4), (1, 1)),
        ((8, 8), (2, 2)),
        ((28, 28), (4, 4)),
        ((32, 32), (4, 4)),
        ((64, 64), (8, 8)),
        ((224, 224), (14, 14)),
        ((33, 47), (4, 6)),
        ((8, 100), (2, 25)),
        ((65, 24), (8, 3)),
        ((97, 65), (6, 4)),
    ],
)
def test_codes_are_an_eighth_or_so_of_the_image_and_give_it_back_in_its_size(
    channels: int, image: tuple[int, int], side: tuple[int, int]
) -> None:
    net = Compressor((channels, *image), "5x{0}x{0}".format(min(side)), WIDTH)
    images = torch.rand(2, channels, *image)
    codes = net.encoder(images)
    assert codes.shape[1:] == net.code_shape == (5, *side)
    assert net.decoder(codes).shape == images.shape


@pytest.mark.parametrize(("channels", "finer"), [(20, 0), (32, 0), (64, 1), (128, 2)])
def test_codes_of_more_channels_have_finer_steps(channels: int, finer: float) -> None:
    assert Compressor((3, 32, 32), width=WIDTH, channels=channels).finer == finer


@given(st.integers(4, 80), st.integers(4, 80))
@settings(deadline=None, max_examples=40)
def test_any_size_is_coded(high: int, wide: int) -> None:
    net = Compressor((1, high, wide), width=WIDTH)
    codes = net.encoder(torch.rand(1, 1, high, wide))
    assert codes.shape[1:] == net.code_shape
    assert net.decoder(codes).shape == (1, 1, high, wide)


@pytest.mark.parametrize(("side", "more"), [(2, 0), (2, 1), (4, 0), (4, 3)])
def test_images_made_of_blocks_are_those_of_the_transposed_convolution(
    side: int, more: int
) -> None:
    torch.manual_seed(0)
    blocks = BlocksToImage(5, 3, 2 * side, side, side // 2, (more, 0))
    values = torch.randn(2, 5, 3, 4)
    usual = torch.nn.ConvTranspose2d.forward(blocks, values)
    assert usual.shape == (2, 3, 3 * side + more, 4 * side)
    torch.testing.assert_close(blocks(values), usual)


def test_a_code_whose_side_does_not_fit_is_refused_with_the_one_that_does() -> None:
    fitting = r"code 16x8x8: images of 32x40 are coded to a side of 4 .*: use 16x4x4, or auto$"
    with pytest.raises(UserError, match=fitting):
        Compressor((3, 32, 40), "16x8x8")
    assert Compressor((3, 32, 40), "16x4x4", WIDTH).code_shape == (16, 4, 5)
    with pytest.raises(UserError, match="'16x4' is not of the form"):
        Compressor((3, 32, 32), "16x4")


def test_images_that_are_too_small_are_refused() -> None:
    with pytest.raises(UserError, match="images of 3x9 are too small to be coded: use 4x4"):
        Compressor((1, 3, 9))


def test_training_begins_with_the_mean_colour() -> None:
    net = Compressor((3, 32, 32), width=WIDTH)
    net.start_at(torch.tensor([0.1, -0.2, 0.3]), torch.ones(3))
    for weight in net.decoder[0].requires_grad_(False).parameters():
        weight.zero_()
    wanted = torch.tensor([0.1, -0.2, 0.3])[:, None, None].expand(3, 32, 32)
    torch.testing.assert_close(net.decoder(torch.zeros(1, 32, 4, 4))[0], wanted)


def test_every_weight_is_trained_by_rate_and_distortion() -> None:
    net = Compressor((1, 32, 32), width=WIDTH)
    images, steps = torch.rand(4, 1, 32, 32), torch.tensor([1.0, 2.0, 4.0, 8.0])
    rng = torch.Generator().manual_seed(0)
    # Codes of a net that was never trained all round to zero, and zero tells nothing of its scale.
    torch.nn.init.normal_(net.encoder.get_parameter("2.weight"))
    decoded, size = net(20 * images, steps[:, None, None, None], rng)
    assert decoded.shape == images.shape and size.shape == (4,)
    assert (size > 0).all() and size[0] > size[3]  # a larger step takes fewer bytes
    ((decoded - images).square().mean() + size.mean()).backward()
    for name, weight in net.named_parameters():
        assert weight.grad is not None and weight.grad.any() and weight.grad.isfinite().all(), name


def test_a_step_doubles_in_four_levels() -> None:
    steps = [step_of(level) for level in range(LEVELS)]
    assert steps[0] == 1 and steps[4] == 2 and steps == sorted(set(steps))


# --- the prior ---


def prior_of(channels: int) -> Prior:
    prior = Prior(channels).double()
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in prior.parameters():
            weight.copy_(torch.randn(weight.shape, generator=rng).double())
    return prior


@given(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3))
@settings(deadline=None, max_examples=30)
def test_a_prediction_sees_only_what_is_coded_before(c: int, y: int, x: int) -> None:
    prior, step = prior_of(3), torch.ones(1, 1, 1, 1, dtype=torch.float64)
    symbols = torch.randn(1, 3, 4, 4, generator=torch.Generator().manual_seed(2)).double() * 4
    other = symbols.clone()
    other[0, c, y, x] += 50.0
    place = (y * 4 + x) * 3 + c  # positions row by row, and at each its channels
    for one, two in zip(prior(symbols, step), prior(other, step), strict=True):
        same = (one == two).permute(0, 2, 3, 1).flatten()
        assert same[: place + 1].all()
        if place < len(same) - 1:
            assert not same[place + 1 :].all()  # and those after it do see it


def test_offsets_shrink_with_the_step_and_scales_never_vanish() -> None:
    prior = prior_of(2)
    none = torch.zeros(2, 2, 1, 1, dtype=torch.float64)
    mean, scale = prior(none, torch.tensor([1.0, 4.0]).double()[:, None, None, None])
    torch.testing.assert_close(mean[1], mean[0] / 4)
    with torch.no_grad():
        prior.scale_offset.fill_(-40)
    assert (prior(none, torch.ones(1, 1, 1, 1))[1] == SMALLEST_SCALE).all()
    torch.testing.assert_close(scale[1], scale[0] / 4)


def bits(values: Tensor, mean: float, scale: float) -> Tensor:
    return laplace_bits(values, torch.tensor(mean).double(), torch.tensor(scale).double())


@given(st.floats(-100, 100), st.floats(SMALLEST_SCALE, 50))
@settings(deadline=None, max_examples=50)
def test_bits_are_of_a_probability_distribution(mean: float, scale: float) -> None:
    numbers = torch.arange(-1500, 1501).double()
    shares = 2 ** -bits(numbers, mean, scale)
    assert shares.sum().item() == pytest.approx(1, abs=1e-5)
    # The likeliest is the whole number next to the mean.
    assert abs(numbers[shares.argmax()].item() - mean) <= 0.5 + 1e-9


def test_bits_are_alike_on_both_sides_of_the_mean_and_have_a_limit() -> None:
    away = torch.tensor([0.0, 0.3, 0.5, 2.0, 7.5], dtype=torch.float64)
    torch.testing.assert_close(bits(2.25 + away, 2.25, 0.7), bits(2.25 - away, 2.25, 0.7))
    assert bits(torch.tensor([1e6]).double(), 0.0, 1.0).item() < 30


def test_the_shape_of_codes_is_given_without_an_image() -> None:
    shapes: list[Shape] = [Compressor((1, n, n), width=WIDTH).code_shape for n in (28, 64, 65)]
    assert shapes == [(32, 4, 4), (32, 8, 8), (32, 4, 4)]
