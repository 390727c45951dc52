import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from eec.errors import UserError
from eec.nets.autoencoder import Autoencoder, Enlarged, parse_code
from eec.nets.classifiers import Shape


def run(image: Shape, code: str, output: str = "norm") -> tuple[Autoencoder, torch.Tensor]:
    net = Autoencoder(image, code, output)
    return net, torch.randn(2, *image)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("side", "code", "wanted"),
    [
        (32, "16x4x4", (16, 4, 4)),
        (32, "16x8x8", (16, 8, 8)),
        (28, "16x4x4", (16, 4, 4)),
        (28, "16x8x8", (16, 7, 7)),
        (48, "16x4x4", (16, 3, 3)),
        (48, "16x8x8", (16, 6, 6)),
        (64, "16x4x4", (16, 4, 4)),
        (64, "16x8x8", (16, 8, 8)),
        (32, "8x16x16", (8, 16, 16)),
    ],
)
def test_code_has_the_shape_that_was_asked_for_or_the_nearest(
    channels: int, side: int, code: str, wanted: Shape
) -> None:
    net, images = run((channels, side, side), code)
    assert net.code_shape == wanted
    assert net.encoder(images).shape == (2, *wanted)
    assert net(images).shape == images.shape


@given(
    height=st.sampled_from([28, 30, 33, 45, 50]),
    width=st.sampled_from([28, 30, 33, 45, 50]),
    code=st.sampled_from(["16x4x4", "16x8x8", "4x5x5"]),
    output=st.sampled_from(["norm", "tanh"]),
)
@settings(deadline=None, max_examples=25)
def test_what_comes_out_is_as_large_as_what_went_in(
    height: int, width: int, code: str, output: str
) -> None:
    net, images = run((1, height, width), code, output)
    codes = net.encoder(images)
    assert codes.shape[1:] == net.code_shape
    assert net.decoder(codes).shape == images.shape


def convolutions(part: nn.Module) -> list[nn.Module]:
    return [m for m in part.modules() if isinstance(m, nn.Conv2d | nn.ConvTranspose2d)]


@pytest.mark.parametrize(("side", "depth"), [(28, 3), (32, 3), (64, 4), (128, 5)])
def test_larger_pictures_get_more_layers(side: int, depth: int) -> None:
    net = Autoencoder((3, side, side), "16x4x4")
    assert len(convolutions(net.encoder)) == len(convolutions(net.decoder)) == depth


def test_published_net_has_64_32_16_channels_and_50_thousand_parameters() -> None:
    net = Autoencoder((3, 32, 32), "16x4x4")
    encoder, decoder = (
        [m.out_channels for m in part.modules() if isinstance(m, nn.Conv2d | nn.ConvTranspose2d)]
        for part in (net.encoder, net.decoder)
    )
    assert (encoder, decoder) == ([64, 32, 16], [32, 64, 3])
    count = sum(weight.numel() for weight in net.parameters())
    assert 49_000 < count < 51_000 and round(4 * count / 1e6, 1) == 0.2
    half = sum(weight.numel() for weight in net.decoder.parameters())
    assert 0.45 < half / count < 0.55


def test_published_decoder_ends_in_a_norm_and_ours_in_tanh() -> None:
    published, ours = (Autoencoder((1, 28, 28), "16x4x4", end) for end in ("norm", "tanh"))
    assert isinstance(published.decoder[-1], nn.BatchNorm2d)
    assert isinstance(ours.decoder[-1], nn.Tanh)
    images = 100 * torch.randn(4, 1, 28, 28)
    assert ours(images).abs().max() <= 1 < published(images).abs().max()


def test_a_last_norm_can_begin_at_the_mean_and_spread_of_the_images() -> None:
    net = Autoencoder((3, 32, 32), "16x4x4", "norm")
    mean, spread = torch.tensor([-0.5, 0.0, 0.25]), torch.tensor([0.1, 0.2, 0.4])
    net.start_at(mean, spread)
    out = net(torch.randn(16, 3, 32, 32))
    assert torch.allclose(out.mean((0, 2, 3)), mean, atol=1e-4)
    assert torch.allclose(out.std((0, 2, 3)), spread, rtol=1e-2)


def test_tanh_begins_where_it_is() -> None:
    net = Autoencoder((1, 32, 32), "16x4x4", "tanh")
    before = [weight.detach().clone() for weight in net.parameters()]
    net.start_at(torch.tensor([-0.5]), torch.tensor([0.1]))
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


@pytest.mark.parametrize("training", [True, False])
def test_codes_are_never_negative_and_not_all_zero(training: bool) -> None:
    net, images = run((3, 32, 32), "16x4x4")
    codes = net.train(training).encoder(images)
    assert codes.min() == 0 and codes.max() > 0


def test_parse_code() -> None:
    assert parse_code("16x4x4") == (16, 4)
    assert parse_code("3x11x11") == (3, 11)


@pytest.mark.parametrize(
    "code", ["", "16", "16x8", "16x8x4", "0x8x8", "16x0x0", "-1x8x8", "16X8X8", "16x8x8x8", "axbxc"]
)
def test_a_code_that_is_none_is_refused(code: str) -> None:
    with pytest.raises(UserError, match="not of the form"):
        Autoencoder((1, 32, 32), code)


@pytest.mark.parametrize(("image", "code"), [((1, 32, 32), "16x32x32"), ((3, 28, 64), "16x28x28")])
def test_a_code_as_large_as_the_image_is_refused(image: Shape, code: str) -> None:
    with pytest.raises(UserError, match="not smaller than images"):
        Autoencoder(image, code)


@pytest.mark.parametrize("more", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_dropped_rows_and_columns_leave_the_transposed_convolution(more: tuple[int, int]) -> None:
    torch.manual_seed(0)
    layer, values = Enlarged(5, 3, 3, 2, 1, more), torch.randn(2, 5, 3, 4)
    usual = nn.ConvTranspose2d.forward(layer, values)
    assert usual.shape == (2, 3, 5 + more[0], 7 + more[1])
    torch.testing.assert_close(layer(values), usual)
