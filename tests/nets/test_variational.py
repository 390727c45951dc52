"""The variational form of the published autoencoder."""

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from eec.nets.autoencoder import Autoencoder, Gaussian, divergence


def test_nats_are_the_divergence_from_the_standard_normal() -> None:
    mean, log_variance = torch.randn(2, 3, 16, 4, 4)
    wanted = kl_divergence(Normal(mean, (log_variance / 2).exp()), Normal(0.0, 1.0))
    assert torch.allclose(divergence(mean, log_variance), wanted.sum((1, 2, 3)), rtol=1e-4)
    nothing = torch.zeros(2, 16, 4, 4)
    assert divergence(nothing, nothing).tolist() == [0, 0]


@pytest.fixture
def net() -> Autoencoder:
    torch.manual_seed(0)
    return Autoencoder((1, 32, 32), variational=True).eval()


def test_codes_are_the_means_and_leave_no_relu(net: Autoencoder) -> None:
    images = torch.rand(4, 1, 32, 32) * 2 - 1
    codes = net.encoder(images)
    assert codes.shape == (4, 16, 4, 4) and codes.min() < 0 and net.signed
    assert torch.equal(net(images), net.decoder(codes))
    assert not Autoencoder((1, 32, 32)).signed


def test_samples_scatter_around_the_means_as_the_variance_says(net: Autoencoder) -> None:
    images = torch.rand(4, 1, 32, 32) * 2 - 1
    seen: list[torch.Tensor] = []
    net.decoder.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    last = net.encoder[-1]
    assert isinstance(last, Gaussian) and last.log_variance.bias is not None
    with torch.no_grad():
        last.log_variance.weight.zero_()
        last.log_variance.bias.fill_(2 * torch.tensor(0.5).log())
    rng = torch.Generator().manual_seed(0)
    _, nats = net.sampled(images, rng)
    away = seen[0] - net.encoder(images)
    assert away.mean().abs() < 0.1 and away.std().item() == pytest.approx(0.5, abs=0.05)
    assert torch.allclose(nats, divergence(net.encoder(images), torch.full_like(away, -1.386294)))
    again, _ = net.sampled(images, torch.Generator().manual_seed(0))
    assert torch.equal(seen[0], seen[1]) and again.shape == images.shape
