import hashlib
import os
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from eec.errors import UserError
from eec.memory import entropy
from eec.memory.entropy import IntegerPrior, Symbols, cost, decode, encode, frequencies
from eec.nets.compressor import LEVELS, Prior, laplace_bits, step_of

LIMITS = {  # of a prior's weights; a scale is never less than 1 when it was learned
    "mean_weight": (np.int8, -128, 127),
    "mean_offset": (np.int16, -32768, 32767),
    "scale_weight": (np.uint8, 0, 255),
    "scale_offset": (np.int16, 1, 32767),
}


@st.composite
def priors(draw: st.DrawFn, channels: int) -> IntegerPrior:
    weights = []
    for field in fields(IntegerPrior):
        kind, least, most = LIMITS[field.name]
        shape = (channels, 5 * channels) if "weight" in field.name else (channels,)
        weights.append(draw(arrays(kind, shape, elements=st.integers(least, most))))
    return IntegerPrior(*weights)


@st.composite
def coded(draw: st.DrawFn) -> tuple[IntegerPrior, Symbols, int]:
    images, channels, high, wide = (draw(st.integers(k, 3)) for k in (0, 1, 1, 1))
    elements = st.integers(-entropy.MOST, entropy.MOST)
    symbols = draw(arrays(np.int8, (images, channels, high, wide), elements=elements))
    return draw(priors(channels)), symbols, draw(st.integers(0, LEVELS - 1))


def pattern(
    images: int, channels: int = 8, high: int = 3, wide: int = 2, level: int = 0
) -> Symbols:
    """Symbols that look like a compressor's: mostly small, some channels larger, by arithmetic."""
    values = np.arange(images * channels * high * wide, dtype=np.int64)
    mixed = (values * 2654435761 % 2**32 >> 7) % 1009 / 1009 - 0.5
    drawn = -np.sign(mixed) * np.log(1 - 1.998 * np.abs(mixed)) * 1.5
    sizes = 1 + np.arange(channels)[:, None, None] % 4
    codes = drawn.reshape(images, channels, high, wide) * sizes
    return (codes / step_of(level)).round().astype(np.int8)


def pattern_prior(channels: int = 8) -> IntegerPrior:
    place = np.arange(5 * channels * channels).reshape(channels, -1)
    return IntegerPrior(
        (place * 7 % 9 - 4).astype(np.int8),
        np.arange(-channels, channels, 2).astype(np.int16),
        (place * 5 % 7).astype(np.uint8),
        (300 + 600 * (np.arange(channels) % 4)).astype(np.int16),
    )


# --- there and back ---


@given(coded())
@settings(deadline=None, max_examples=60)
def test_symbols_come_back_exactly(given: tuple[IntegerPrior, Symbols, int]) -> None:
    prior, symbols, level = given
    content = encode(prior, symbols, level)
    back = decode(prior, content, symbols.shape[1:], len(symbols), level)
    assert back.dtype == np.int8 and np.array_equal(back, symbols)
    assert (cost(prior, symbols, level) > 0).all()


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
def test_any_number_of_blocks(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = encode(pattern_prior(), pattern(count), 3)
    monkeypatch.setattr(entropy, "BLOCK", 4 * 8 * 3 * 2 + 5)  # symbols of four images, and a rest
    content = encode(pattern_prior(), pattern(count), 3)
    assert (content == whole) == (count <= 4)  # else there were several
    back = decode(pattern_prior(), content, (8, 3, 2), count, 3)
    assert np.array_equal(back, pattern(count)) and back.shape == (count, 8, 3, 2)


def test_channels_are_gathered_in_groups_without_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng, channels = np.random.default_rng(0), 2 * entropy.GROUP + 3
    known = np.tri(channels, k=-1, dtype=np.int8)  # of a position, the channels before
    mean, scale = (rng.integers(0, 4, (channels, 5 * channels)) for _ in range(2))
    for weight in (mean, scale):
        weight[:, 4 * channels :] *= known
    prior = IntegerPrior(
        mean.astype(np.int8),
        rng.integers(-50, 50, channels).astype(np.int16),
        scale.astype(np.uint8),
        rng.integers(1, 500, channels).astype(np.int16),
    )
    symbols = rng.integers(-3, 4, (5, channels, 2, 3)).astype(np.int8)
    content, spent = encode(prior, symbols, 3), cost(prior, symbols, 3)
    monkeypatch.setattr(entropy, "GROUP", 1)
    assert encode(prior, symbols, 3) == content
    assert np.array_equal(cost(prior, symbols, 3), spent)
    assert np.array_equal(decode(prior, content, (channels, 2, 3), 5, 3), symbols)


@pytest.mark.parametrize("size", [-127, 127])
def test_the_largest_symbols_under_the_worst_prior(size: int) -> None:
    """Which expects the opposite, and small ones only."""
    prior = replace(
        pattern_prior(),
        mean_weight=np.full((8, 40), -128, np.int8),
        scale_weight=np.zeros((8, 40), np.uint8),
        scale_offset=np.ones(8, np.int16),
    )
    symbols = np.full((3, 8, 3, 2), size, np.int8)
    content = encode(prior, symbols, 0)
    assert np.array_equal(decode(prior, content, (8, 3, 2), 3, 0), symbols)


def test_floats_are_as_small_as_the_largest_sum_allows() -> None:
    """Both kinds give the same distributions, up to where the smaller would begin to round."""
    rng = np.random.default_rng(0)
    for channels, kind in ((8, np.float32), (64, np.float64)):
        weight = np.full((channels, 5 * channels), 127)
        ones = np.ones(channels, np.int16)
        prior = IntegerPrior(weight.astype(np.int8), ones, weight.astype(np.uint8), ones)
        assert prior.exact_floats is kind
        symbols = (127 * rng.choice([-1, 1], (2, channels, 3, 3))).astype(np.int8)
        walks = [entropy._Walk(prior, symbols.shape, 3) for _ in range(2)]
        other = walks[1]
        other.known, other.sizes = other.known.astype(np.float64), other.sizes.astype(np.float64)
        other.weights = other.weights.astype(np.float64)
        other.spreads = other.spreads.astype(np.float64)
        for one, two in zip(walks[0].stops(), walks[1].stops(), strict=True):
            assert one[:3] == two[:3]
            np.testing.assert_array_equal(one[3], two[3])
            np.testing.assert_array_equal(one[4], two[4])
            y, x, c = one[:3]
            for walk in walks:
                walk.set(y, x, c, symbols[:, c, y, x])


def test_symbols_without_context_are_coded_by_their_own_mean_and_scale() -> None:
    symbols = pattern(50)
    prior = IntegerPrior.flat(symbols)
    told = IntegerPrior.flat_of(prior.mean_offset, prior.scale_offset)
    back = decode(told, encode(prior, symbols, 0), (8, 3, 2), 50, 0)
    assert np.array_equal(back, symbols)
    assert cost(prior, symbols, 0).sum() < cost(pattern_prior(), symbols, 0).sum()


def test_a_flat_scale_is_as_large_as_it_gets() -> None:
    """Half at one end and half at the other: a scale of 127, more than is ever told."""
    symbols = np.full((40, 1, 1, 1), 127, np.int8)
    symbols[::2] = -127
    prior = IntegerPrior.flat(symbols)
    assert prior.scale_offset.item() == 32767
    assert cost(prior, symbols, 0).mean() < 1.5


# --- what it takes ---


@pytest.mark.parametrize("level", [0, 6, LEVELS - 1])
def test_the_estimate_is_within_2_percent_of_what_is_written(level: int) -> None:
    symbols = pattern(300, level=level)
    real = len(encode(pattern_prior(), symbols, level))
    assert cost(pattern_prior(), symbols, level).sum() == pytest.approx(real, rel=0.02)


def test_the_cost_of_an_image_is_its_own() -> None:
    symbols = pattern(20)
    alone = [cost(pattern_prior(), symbols[i : i + 1], 2).item() for i in range(20)]
    np.testing.assert_allclose(cost(pattern_prior(), symbols, 2), alone)


@pytest.mark.parametrize("level", [0, 5, 10])
def test_whole_numbers_cost_what_the_net_was_trained_for(level: int) -> None:
    """The net's prior and the coder's are the same: same context, same mean, same scale."""
    prior, symbols = Prior(8), pattern(100, level=level)
    pattern_prior().put_into(prior)
    step = torch.tensor(step_of(level)).reshape(1, 1, 1, 1)
    values = torch.from_numpy(symbols).float()
    with torch.no_grad():
        wanted = laplace_bits(values, *prior(values, step)).sum((1, 2, 3)).numpy() / 8
    found = cost(IntegerPrior.of(prior), symbols, level)
    assert found.sum() == pytest.approx(wanted.sum(), rel=0.01)
    np.testing.assert_allclose(found, wanted, rtol=0.08)


# --- tables ---


def test_every_symbol_is_possible_and_far_ones_are_rarer() -> None:
    rows = frequencies()
    assert rows.shape == (entropy.SCALES * entropy.PARTS, 2 * entropy.REACH + 1)
    assert rows.min() >= 1
    assert (np.diff(rows[:, : entropy.REACH + 1]) >= 0).all()
    assert (np.diff(rows[:, entropy.REACH + 1 :]) <= 0).all()


def test_tables_are_symmetric_about_the_mean() -> None:
    rows = frequencies().reshape(entropy.SCALES, entropy.PARTS, -1)
    assert np.array_equal(rows[:, 0], rows[:, 0, ::-1])
    for part in range(1, entropy.PARTS):  # a mean of 1/4 mirrors one of 3/4, seen from 1
        mirrored = rows[:, entropy.PARTS - part, :0:-1]
        assert np.array_equal(rows[:, part, 1:], mirrored)


# The two constants below are the format of files: they must never change, or what was stored before
# is lost. The second also holds the coder, the order of coding and the prior's arithmetic; the
# checksum before the words is left out.
TABLES = "81b3ebd5b599470fbbf265a2d4c7b8137978456e58e02a9948a43dd6ed85ad60"
WORDS = "0e8efb3c7586990f4d3fd054145dcf35f63203a75e464b227dfc75dce54c6ef6"


def test_tables_are_the_same_everywhere_and_for_ever() -> None:
    assert hashlib.sha256(frequencies().astype("<i8").tobytes()).hexdigest() == TABLES


def test_bytes_are_the_same_everywhere_and_for_ever() -> None:
    content = encode(pattern_prior(), pattern(100), 5)
    assert hashlib.sha256(content[entropy.HEAD :]).hexdigest() == WORDS


OTHER = """
import hashlib, sys
import numpy as np, torch
from eec.memory.entropy import IntegerPrior, decode, encode
torch.set_num_threads(int(sys.argv[1]))
size = [int(n) for n in sys.stdin.buffer.readline().split()]
weights, symbols, content = (sys.stdin.buffer.read(n) for n in size)
parts, start = [], 0
for kind, shape in (("i1", (8, 40)), ("<i2", (8,)), ("u1", (8, 40)), ("<i2", (8,))):
    count = int(np.prod(shape))
    parts.append(np.frombuffer(weights, kind, count, start).reshape(shape))
    start += parts[-1].nbytes
prior = IntegerPrior(*parts)
symbols = np.frombuffer(symbols, np.int8).reshape(-1, 8, 3, 2)
assert np.array_equal(decode(prior, content, (8, 3, 2), len(symbols), 5), symbols)
sys.stdout.buffer.write(encode(prior, symbols, 5))
"""


def test_another_process_with_other_threads_writes_and_reads_the_same() -> None:
    prior, symbols = pattern_prior(), pattern(200)
    threads = "2" if torch.get_num_threads() == 1 else "1"
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    content = encode(prior, symbols, 5)
    weights = b"".join(getattr(prior, field.name).tobytes() for field in fields(prior))
    sent = [weights, symbols.tobytes(), content]
    told = " ".join(str(len(part)) for part in sent).encode() + b"\n"
    done = subprocess.run(
        [sys.executable, "-c", OTHER, threads],
        input=told + b"".join(sent),
        env=os.environ | dict.fromkeys(names, threads),
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert np.array_equal(decode(prior, done.stdout, (8, 3, 2), 200, 5), symbols)
    assert done.stdout == content


# --- damage ---


SMALL, SYMBOLS = pattern_prior(2), pattern(10, 2, 2, 2)


def refused(content: bytes, count: int, prior: IntegerPrior = SMALL, level: int = 2) -> None:
    with pytest.raises(UserError, match=r"coded episodes .*: restore a copy$"):
        decode(prior, content, (2, 2, 2), count, level)


@pytest.fixture(scope="module")
def content() -> bytes:
    """Three blocks: of four, four and two images."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entropy, "BLOCK", 4 * 2 * 2 * 2)
        return encode(SMALL, SYMBOLS, 2)


@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_a_byte_that_changed_is_refused(data: st.DataObject, content: bytes) -> None:
    place = data.draw(st.integers(0, len(content) - 1))
    other = bytearray(content)
    other[place] ^= data.draw(st.integers(1, 255))
    refused(bytes(other), 10)


@given(data=st.data())
@settings(deadline=None, max_examples=30)
def test_bytes_that_are_missing_or_too_many_are_refused(
    data: st.DataObject, content: bytes
) -> None:
    refused(content[: data.draw(st.integers(0, len(content) - 1))], 10)
    more = data.draw(st.binary(min_size=1, max_size=40))
    refused(content + more, 10)
    refused(more + content, 10)


def test_a_block_that_is_missing_or_there_twice_is_refused(content: bytes) -> None:
    words = int.from_bytes(content[4:8], "little")
    first = content[: entropy.HEAD + 4 * words]
    refused(content[len(first) :], 10)
    refused(first + content, 10)
    refused(content, 9)
    assert np.array_equal(decode(SMALL, content, (2, 2, 2), 10, 2), SYMBOLS)


def test_blocks_in_another_order_are_refused(content: bytes) -> None:
    words = int.from_bytes(content[4:8], "little")
    end = entropy.HEAD + 4 * words
    then = end + entropy.HEAD + 4 * int.from_bytes(content[end + 4 : end + 8], "little")
    refused(content[end:then] + content[:end] + content[then:], 10)


@pytest.mark.parametrize("name", LIMITS)
def test_a_prior_or_level_other_than_it_was_written_with_is_refused(
    name: str, content: bytes
) -> None:
    weights = getattr(SMALL, name).copy()
    weights.flat[0] += 1
    refused(content, 10, replace(SMALL, **{name: weights}))
    refused(content, 10, level=3)


# --- the prior in whole numbers ---


@given(priors(3))
@settings(deadline=None, max_examples=15)
def test_a_prior_goes_into_a_net_and_comes_back(prior: IntegerPrior) -> None:
    net, other = Prior(3), Prior(3)
    prior.put_into(net)
    first = IntegerPrior.of(net)
    first.put_into(other)
    for field in fields(IntegerPrior):
        kept, again = getattr(first, field.name), getattr(IntegerPrior.of(other), field.name)
        assert kept.dtype == LIMITS[field.name][0] and np.array_equal(kept, again)
    assert np.array_equal(first.mean_offset, prior.mean_offset)
    assert np.array_equal(first.scale_offset, prior.scale_offset)
    # From a channel to itself and to those before it nothing is told; all else is as it was.
    assert np.array_equal(first.mean_weight[:, :12], prior.mean_weight[:, :12])
    assert np.array_equal(first.scale_weight[:, 12:], np.tril(prior.scale_weight[:, 12:], -1))


@given(priors(2), st.integers(0, 10**6))
@settings(deadline=None, max_examples=20)
def test_what_a_prior_must_not_see_does_not_matter(prior: IntegerPrior, seed: int) -> None:
    rng = np.random.default_rng(seed)
    symbols = rng.integers(-9, 10, (2, 2, 2, 2)).astype(np.int8)
    other = replace(prior, mean_weight=prior.mean_weight.copy())
    other.mean_weight[:, 8:] += np.triu(rng.integers(1, 5, (2, 2))).astype(np.int8)
    assume(not np.array_equal(other.mean_weight, prior.mean_weight))
    np.testing.assert_array_equal(cost(prior, symbols, 1), cost(other, symbols, 1))


def test_weights_beyond_what_is_kept_are_cut_and_a_diverged_net_gives_a_prior() -> None:
    net = Prior(2)
    with torch.no_grad():
        net.mean_weight.fill_(-1e4)
        net.scale_weight.fill_(1e4)
        net.scale_offset.fill_(-1e4)
        net.mean_offset.fill_(float("nan"))  # judged and thrown away later: not here
    prior = IntegerPrior.of(net)
    assert prior.mean_weight.min() == -128 and prior.scale_weight.max() == 255
    assert (prior.scale_offset == 1).all() and (prior.mean_offset == 0).all()
