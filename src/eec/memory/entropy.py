"""Symbols to bytes and back: a range coder, and the prior of the compressor in whole numbers.

Reader and writer must agree on every probability to the last bit, on any machine and with any
number of threads. So nothing here depends on how floats are rounded: means and scales are sums of
whole numbers (in floats that hold them exactly), and tables of probabilities come from integer
arithmetic. Images are coded in blocks, each with a checksum: damaged bytes are refused, never
decoded to wrong pictures.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache
from typing import TypeVar

import constriction
import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController
from torch import Tensor
from torch.nn.functional import softplus

from eec.errors import UserError
from eec.nets.compressor import LEVELS, SMALLEST_SCALE, Prior

Doubles = NDArray[np.float64]
Shorts = NDArray[np.int16]
Symbols = NDArray[np.int8]
Number = TypeVar("Number", bound=np.integer)

MOST = 127  # of a symbol's size
REACH = 2 * MOST + 1  # of its distance from the predicted mean
PARTS = 4  # of a unit, to which means are rounded
SHIFT = 2  # bits that they take
GROUP = 16  # channels whose context is gathered together: fewer, larger products
SCALES = 32  # of distributions, three an octave
BITS = 24  # of a probability
MEAN_UNIT, SCALE_UNIT = 64, 512  # parts of a unit in which the prior's weights are whole
BLOCK = 10 << 20  # symbols in a block at most: coded together, they share the cost of each stop
PLACES = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1))  # in a 3x3 window, known beforehand
HEAD = 12  # bytes before the words of a block: images, words, checksum


@dataclass(frozen=True)
class IntegerPrior:
    """What `nets.compressor.Prior` has learned, in whole numbers.

    Weights are [C, 5C]: from the symbols at the upper left, above, upper right, left, and those of
    the same position (zero from a channel to itself and to those before it).
    """

    mean_weight: NDArray[np.int8]
    mean_offset: NDArray[np.int16]
    scale_weight: NDArray[np.uint8]
    scale_offset: NDArray[np.int16]

    @classmethod
    def of(cls, prior: Prior) -> IntegerPrior:
        """What was learned, rounded."""
        return cls(
            _whole(_by_place(prior.mean_weight * prior.mask), MEAN_UNIT, np.int8),
            _whole(prior.mean_offset, MEAN_UNIT, np.int16),
            _whole(_by_place(prior.scale_weight.abs() * prior.mask), SCALE_UNIT, np.uint8),
            _whole(softplus(prior.scale_offset), SCALE_UNIT, np.int16).clip(1),
        )

    @classmethod
    def flat(cls, symbols: Symbols) -> IntegerPrior:
        """For symbols [N, C, h, w] without context: one mean and one scale for each channel."""
        mean = symbols.mean((0, 2, 3))
        away = np.abs(symbols - mean[:, None, None]).mean((0, 2, 3))
        return cls.flat_of(
            *(
                np.round(values * unit).clip(max=np.iinfo(np.int16).max).astype(np.int16)
                for values, unit in ((mean, MEAN_UNIT), (away, SCALE_UNIT))
            )
        )

    @classmethod
    def flat_of(cls, mean: NDArray[np.int16], scale: NDArray[np.int16]) -> IntegerPrior:
        none = (len(mean), 5 * len(mean))
        return cls(np.zeros(none, np.int8), mean, np.zeros(none, np.uint8), scale)

    def put_into(self, prior: Prior) -> None:
        """The inverse of `of`: to train on from here."""
        with torch.no_grad():
            for weight, whole, unit in (
                (prior.mean_weight, self.mean_weight, MEAN_UNIT),
                (prior.scale_weight, self.scale_weight, SCALE_UNIT),
            ):
                for i, (y, x) in enumerate(PLACES):
                    part = np.split(whole, len(PLACES), 1)[i] / unit
                    weight[:, :, y, x] = torch.from_numpy(part)
            prior.mean_offset.copy_(torch.from_numpy(self.mean_offset / MEAN_UNIT))
            scale = torch.from_numpy(self.scale_offset / SCALE_UNIT)
            prior.scale_offset.copy_(scale.expm1().log())  # softplus gives it back

    def offsets(self, level: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of mean and scale, where one unit of a symbol is a coarser step."""
        finer = _inverse_steps()[level]
        mean, scale = (
            (offset.astype(np.int64) * finer + (1 << 13)) >> 14
            for offset in (self.mean_offset, self.scale_offset)
        )
        return mean, scale

    @property
    def exact_floats(self) -> type[np.float32] | type[np.float64]:
        """The smaller floats, which are faster, if no sum of these whole numbers is beyond them."""
        weights = max(
            int(np.abs(weight.astype(np.int64)).sum(1).max(initial=0))
            for weight in (self.mean_weight, self.scale_weight)
        )
        return np.float32 if MOST * weights + 2**15 < 2**24 // PARTS else np.float64


def _by_place(weight: Tensor) -> Tensor:
    """[C, C, 3, 3] to [C, 5C]: the places that are known when a symbol is coded."""
    return torch.cat([weight[:, :, y, x] for y, x in PLACES], 1)


def _whole(values: Tensor, unit: int, kind: type[Number]) -> NDArray[Number]:
    # Of a net that diverged, which is judged and begun anew later on, any number will do.
    limits, plain = np.iinfo(kind), values.detach().cpu().double().nan_to_num().numpy()
    return (plain * unit).round().clip(limits.min, limits.max).astype(kind)


@cache
def _inverse_steps() -> list[int]:
    """1 / step of each level, in parts of 2^14."""
    with localcontext(prec=40):
        return [round(2**14 / Decimal(2) ** (Decimal(k) / 4)) for k in range(LEVELS)]


@cache
def _kinds() -> Shorts:
    """Which distribution a scale has, in parts of SCALE_UNIT; all larger ones have the last."""
    with localcontext(prec=40):
        middles = [_scale(Decimal(i) + Decimal("0.5")) for i in range(SCALES - 1)]
        thresholds = np.array([round(middle * SCALE_UNIT) for middle in middles])
    scales = np.arange(thresholds[-1] + 1)
    return np.searchsorted(thresholds, scales, "right").astype(np.int16)


def _scale(place: Decimal) -> Decimal:
    return Decimal(str(SMALLEST_SCALE)) * Decimal(2) ** (place / 3)


@cache
def frequencies() -> NDArray[np.int64]:
    """[SCALES * PARTS, 2 * REACH + 1]: how often, of 2^BITS, a symbol is so far from the whole part
    of its mean. Every one is possible."""
    half = 1 << 59
    tables = np.empty((SCALES, PARTS, 2 * REACH + 1), np.int64)
    with localcontext(prec=40):
        unit = Decimal(1) / (2 * PARTS)  # edges between symbols lie on halves of parts of a unit
        ratios = [int((-unit / _scale(Decimal(i))).exp() * (1 << 60)) for i in range(SCALES)]
    most = 2 * PARTS * (REACH + 1)
    for i, ratio in enumerate(ratios):
        power = [1 << 60]  # exp(-k * unit / scale), k = 0, 1, ...
        while len(power) <= most:
            power.append(power[-1] * ratio >> 60)
        tail = np.array(power) >> 1  # of the distribution, beyond k units
        below = np.concatenate([tail[:0:-1], [half], 2 * half - tail[1:]])  # at -most ... most
        for part in range(PARTS):
            edges = 2 * PARTS * np.arange(-REACH, REACH + 2) - PARTS - 2 * part + most
            inside = np.diff(below[np.clip(edges, 0, 2 * most)])
            tables[i, part] = np.maximum(1, inside >> (60 - BITS))
    return tables.reshape(SCALES * PARTS, -1)


@cache
def _models() -> list[constriction.stream.model.Categorical]:
    kind = constriction.stream.model.Categorical
    return [kind(row.astype(np.float64), perfect=False) for row in frequencies()]


@cache
def _bits() -> Doubles:
    """What each of them costs."""
    rows = frequencies()
    bits: Doubles = np.log2(rows.sum(1, keepdims=True)) - np.log2(rows)
    return bits


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


class _Walk:
    """Goes through the symbols of a block in the order of coding.

    At each stop, one channel at one position of all images: the distribution of every symbol, from
    those that were set before.
    """

    def __init__(self, prior: IntegerPrior, shape: tuple[int, ...], level: int) -> None:
        count, channels, high, wide = shape
        self.high, self.wide, self.channels = high, wide, channels
        kind = prior.exact_floats
        # With an empty margin.
        self.known = np.zeros((high + 1, wide + 2, channels, count), kind)
        self.sizes = np.zeros_like(self.known)
        self.weights = prior.mean_weight.astype(kind)  # [C, 5C]
        self.spreads = prior.scale_weight.astype(kind)
        self.offsets = [offset.astype(kind)[:, None] for offset in prior.offsets(level)]

    def stops(self) -> Iterator[tuple[int, int, int, Shorts, Shorts]]:
        """Row, column, channel, which distribution, and the whole part of the mean."""
        # A product of these sizes is done before a second thread has woken up: with as many as
        # there are cores it takes twice as long, and on busy ones four times.
        with _blas().limit(limits=1):
            for y in range(self.high):
                for x in range(self.wide):
                    yield from self._stops_at(y, x)

    def _stops_at(self, y: int, x: int) -> Iterator[tuple[int, int, int, Shorts, Shorts]]:
        around, kinds = 4 * self.channels, _kinds()
        near = [(y, x), (y, x + 1), (y, x + 2), (y + 1, x)]
        means = self.weights[:, :around] @ np.vstack([self.known[at] for at in near])
        scales = self.spreads[:, :around] @ np.vstack([self.sizes[at] for at in near])
        means += self.offsets[0]
        scales += self.offsets[1]
        here, size = self.known[y + 1, x + 1], self.sizes[y + 1, x + 1]
        for c in range(self.channels):
            first = c - c % GROUP
            if c == first > 0:  # what the groups before say to all of this one
                rows, own = slice(c, c + GROUP), slice(around, around + c)
                means[rows] += self.weights[rows, own] @ here[:c]
                scales[rows] += self.spreads[rows, own] @ size[:c]
            mean, scale = means[c], scales[c]
            if c > first:
                own = slice(around + first, around + c)
                mean += self.weights[c, own] @ here[first:c]
                scale += self.spreads[c, own] @ size[first:c]
            # Exact: whole numbers, times a power of two.
            parts = np.floor(mean * (PARTS / MEAN_UNIT) + 0.5)
            parts = np.clip(parts, -MOST * PARTS, MOST * PARTS).astype(np.int16)
            which = kinds[np.minimum(scale, len(kinds) - 1).astype(np.intp)]
            yield y, x, c, which * PARTS + (parts & (PARTS - 1)), parts >> SHIFT

    def set(self, y: int, x: int, c: int, symbols: NDArray[np.integer]) -> None:
        self.known[y + 1, x + 1, c] = symbols
        self.sizes[y + 1, x + 1, c] = np.abs(symbols)


def cost(prior: IntegerPrior, symbols: Symbols, level: int) -> Doubles:
    """Bytes that each image takes, by the tables: what the coder needs, less its rounding."""
    walk, spent = _Walk(prior, symbols.shape, level), np.zeros(len(symbols))
    for y, x, c, which, whole in walk.stops():
        now = symbols[:, c, y, x]
        spent += _bits()[which, now - whole + REACH]
        walk.set(y, x, c, now)
    return spent / 8


def encode(prior: IntegerPrior, symbols: Symbols, level: int) -> bytes:
    """Symbols [N, C, h, w] of size MOST at most, in as few bytes as the prior allows."""
    most = max(1, BLOCK // math.prod(symbols.shape[1:]))  # images in a block
    starts = range(0, len(symbols), most)
    return b"".join(_encode_block(prior, symbols[i : i + most], level, i) for i in starts)


def _encode_block(prior: IntegerPrior, symbols: Symbols, level: int, first: int) -> bytes:
    coder = constriction.stream.queue.RangeEncoder()
    walk, models = _Walk(prior, symbols.shape, level), _models()
    for y, x, c, which, whole in walk.stops():
        now = symbols[:, c, y, x]
        order = np.argsort(which, kind="stable")
        away = (now - whole + REACH).astype(np.int32)[order]
        for kind, start, end in _runs(which[order]):
            coder.encode(away[start:end], models[kind])
        walk.set(y, x, c, now)
    words: bytes = coder.get_compressed().astype("<u4").tobytes()
    head = len(symbols).to_bytes(4, "little") + (len(words) // 4).to_bytes(4, "little")
    return head + _checksum(prior, level, first, head + words) + words


def _checksum(prior: IntegerPrior, level: int, first: int, block: bytes) -> bytes:
    """Of a block, of the number of its first image, and of what it has to be read with."""
    found = zlib.crc32(f"{level} {first}".encode())
    for whole in (prior.mean_weight, prior.mean_offset, prior.scale_weight, prior.scale_offset):
        found = zlib.crc32(whole.astype("<i2").tobytes(), found)
    return zlib.crc32(block, found).to_bytes(4, "little")


def _runs(kinds: Shorts) -> Iterator[tuple[int, int, int]]:
    """Of sorted numbers, each one that occurs, with the place where it begins and where it ends."""
    edges = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(kinds)]
    return zip(kinds[edges[:-1]].tolist(), edges[:-1], edges[1:], strict=True)


def decode(
    prior: IntegerPrior, content: bytes, shape: tuple[int, int, int], count: int, level: int
) -> Symbols:
    """The symbols [count, C, h, w] that gave these bytes, exactly."""
    blocks, start, first = [], 0, 0
    while start < len(content):
        head = content[start : start + HEAD]
        images, words = (int.from_bytes(head[i : i + 4], "little") for i in (0, 4))
        body = content[start + HEAD : start + HEAD + 4 * words]
        checked = _checksum(prior, level, first, head[:8] + body)
        if len(head) < HEAD or len(body) < 4 * words or checked != head[8:]:
            raise UserError("coded episodes are damaged (a checksum differs): restore a copy")
        blocks.append(_decode_block(prior, body, (images, *shape), level))
        start += HEAD + 4 * words
        first += images
    symbols = np.concatenate(blocks) if blocks else np.zeros((0, *shape), np.int8)
    if len(symbols) != count:
        raise UserError(f"{len(symbols)} coded episodes where {count} were kept: restore a copy")
    return symbols


def _decode_block(
    prior: IntegerPrior, words: bytes, shape: tuple[int, int, int, int], level: int
) -> Symbols:
    decoder = constriction.stream.queue.RangeDecoder(np.frombuffer(words, "<u4").astype(np.uint32))
    walk, models = _Walk(prior, shape, level), _models()
    images, channels, high, wide = shape
    symbols = np.empty((channels, high, wide, images), np.int8)  # a stop's lie side by side
    for y, x, c, which, whole in walk.stops():
        order = np.argsort(which, kind="stable")
        runs = _runs(which[order])
        away = np.empty(len(which), np.int16)
        away[order] = np.concatenate([decoder.decode(models[k], end - at) for k, at, end in runs])
        now = away - REACH + whole
        symbols[c, y, x] = now
        walk.set(y, x, c, now)
    return np.ascontiguousarray(symbols.transpose(3, 0, 1, 2))
