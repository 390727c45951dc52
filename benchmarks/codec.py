"""Bytes an image against its error, and against what a classifier learns from it.

    python benchmarks/codec.py DATA cifar10 --taught 1
    python benchmarks/codec.py DATA cifar10 --taught 1 --accuracy

Codecs are trained on the first `--taught` classes and judged on test images of all classes: ours at
every fourth step, with as many channels as small memories have (`ours`) and as large ones (`fine`),
the published autoencoder (as float32, as bytes, and these entropy-coded), WebP, JPEG and AVIF
files, and the pixels themselves. All bytes are as stored: an image's own, and with
the codec's nets (encoder and decoder) shared by 1,000, 10,000 and 50,000 images. With `--accuracy`,
a classifier is trained on decoded training images for each row, and tested on real test images;
`--fit` keeps as many of them, class by class, as go into so many bytes, codec included. `--figure`
draws the same as curves.
"""

from __future__ import annotations

import argparse
import io
import math
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import constriction
import matplotlib
import numpy as np
import torch

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from PIL import Image, features
from torch import Tensor

from eec.data.catalog import load_dataset
from eec.data.dataset import Dataset
from eec.data.labels import Label
from eec.data.stream import Task
from eec.memory import entropy
from eec.memory.codec import Codec, CodecOptions, train_codec
from eec.memory.codes import Packing
from eec.memory.weights import compressed, pack_weights
from eec.methods.contract import Method
from eec.methods.options import ClassifierOptions
from eec.methods.registry import make_method
from eec.nets.compressor import CHANNELS, FINE_CHANNELS, LEVELS, WIDTH
from eec.training.batches import to_float
from eec.training.recipes import find_recipe
from eec.training.runtime import Runtime, choose_runtime

QUALITIES = {"WEBP": (0, 10, 20, 40, 60), "JPEG": (10, 40, 60), "AVIF": (20, 60)}
OCTAVE = 4  # levels between rows of ours
JUDGED = 10_000  # test images, at most, by which a classifier is judged
SHARED_BY = (1_000, 10_000, 50_000)
MANY = 10_000  # images that are decoded by the clock


@dataclass(frozen=True)
class Row:
    name: str
    fixed: int  # bytes of the codec's nets
    code: Callable[[Tensor], tuple[Tensor, float]]  # images as decoded, and bytes in all


def rows_of(ours: dict[str, Codec], plain: Codec | None, files: bool) -> Iterator[Row]:
    for name, codec in ours.items():
        fixed = net_bytes(codec, "coded")
        for level in range(0, LEVELS, OCTAVE):
            yield Row(f"{name}, level {level}", fixed, partial(code_ours, codec, level=level))
    if plain is not None:
        for kind in ("float32", "uint8", "entropy"):
            fixed = net_bytes(plain, "float32" if kind == "float32" else "uint8")
            yield Row(f"published, {kind}", fixed, partial(code_plain, plain, kind=kind))
    if files:
        yield Row("pixels", 0, lambda images: (images, images.nbytes))
        for kind, qualities in QUALITIES.items():
            if kind == "AVIF" and not features.check("avif"):
                continue
            for quality in qualities:
                name = f"{kind.lower()} {quality}"
                yield Row(name, 0, partial(code_files, kind=kind, quality=quality))


def net_bytes(codec: Codec, code_type: str) -> int:
    weights = {
        name: weight.contiguous()
        for name, weight in codec.net.state_dict().items()
        if name.startswith(("encoder", "decoder"))
    }
    kept = pack_weights(weights, code_type)
    if codec.prior is None:
        return sum(tensor.nbytes for tensor in kept.values())
    prior = {name: torch.from_numpy(whole) for name, whole in asdict(codec.prior).items()}
    return len(compressed({**kept, **prior}))


def code_ours(codec: Codec, images: Tensor, level: int) -> tuple[Tensor, float]:
    assert codec.prior is not None
    packing = Packing("coded", level=level)
    symbols = packing.pack(codec.encode(images))
    content = entropy.encode(codec.prior, symbols.numpy(), level)
    return codec.decode(packing.unpack(symbols)), len(content)


def code_plain(codec: Codec, images: Tensor, kind: str) -> tuple[Tensor, float]:
    codes = codec.encode(images)
    packing = Packing.learn("float32" if kind == "float32" else "uint8", codes)
    kept = packing.pack(codes)
    size = kept.nbytes if kind != "entropy" else coded_bytes(kept.numpy())
    return codec.decode(packing.unpack(kept)), size


def coded_bytes(kept: np.ndarray) -> int:
    """Bytes of a range coder that knows how often each value occurs in each channel."""
    coder = constriction.stream.queue.RangeEncoder()
    for channel in kept.swapaxes(0, 1).reshape(kept.shape[1], -1):
        counts = np.bincount(channel, minlength=256)
        model = constriction.stream.model.Categorical(counts.astype(np.float64), perfect=False)
        coder.encode(channel.astype(np.int32), model)
    words: int = len(coder.get_compressed())
    return 4 * words + 2 * 256 * int(kept.shape[1])


def code_files(images: Tensor, kind: str, quality: int) -> tuple[Tensor, float]:
    decoded, size = [], 0
    settings: dict[str, dict[str, Any]] = {
        "WEBP": {"method": 6},
        "JPEG": {"optimize": True},
        "AVIF": {"speed": 4},
    }
    grey = images.shape[1] == 1
    for pixels in images.permute(0, 2, 3, 1).numpy():
        picture = Image.fromarray(pixels[:, :, 0] if grey else pixels)
        if grey and kind != "JPEG":
            picture = picture.convert("RGB")
        file = io.BytesIO()
        picture.save(file, kind, quality=quality, **settings[kind])
        size += file.tell()
        back = np.asarray(Image.open(file).convert("L" if grey else "RGB"))
        decoded.append(torch.from_numpy(back.copy()).reshape(*pixels.shape).permute(2, 0, 1))
    return torch.stack(decoded), size


def error(decoded: Tensor, images: Tensor) -> Tensor:
    return (to_float(decoded) - to_float(images)).square().mean((1, 2, 3))


def first_of(labels: Sequence[object], classes: tuple[object, ...], each: int) -> Tensor:
    """Places of the first images of each class."""
    found = {name: [i for i, label in enumerate(labels) if label == name] for name in classes}
    return torch.tensor([i for places in found.values() for i in places[:each]])


def train(data: Dataset, asked: argparse.Namespace, kind: str, runtime: Runtime) -> Codec:
    chosen = first_of(data.train_labels, data.classes[: asked.taught], asked.per_class)
    channels = FINE_CHANNELS if kind == "fine" else CHANNELS
    kind = "coded" if kind == "fine" else kind
    options = CodecOptions(
        "auto", "tanh", 0.0, "normalised", kind, data.flip, width=asked.width, channels=channels
    )
    if kind == "coded":
        options = replace(options, code=asked.code)
    images, classifier = data.train_images[chosen], None
    if asked.content:
        labels = [data.train_labels[i] for i in chosen.tolist()]
        classifier = taught(images, labels, data, asked, runtime).classifier
        options = replace(options, content=asked.content)
    recipe = find_recipe("fast")
    plan = recipe.compressor if kind == "coded" else recipe.autoencoder
    if kind == "coded" and asked.steps:
        plan = replace(plan, steps=asked.steps)
    began = time.perf_counter()
    codec = train_codec(images, options, plan, runtime, asked.seed, classifier=classifier)
    took, size = time.perf_counter() - began, net_bytes(codec, kind) / 1000
    print(
        f"{kind} codec: {codec.steps} steps on {len(chosen)} images of {asked.taught} classes, "
        f"{took:.0f} s, nets of {size:.0f} kB"
    )
    return codec


def taught(
    images: Tensor,
    labels: Sequence[Label],
    data: Dataset,
    asked: argparse.Namespace,
    runtime: Runtime,
) -> Method:
    """A classifier that has learned these, all at once."""
    options = ClassifierOptions(flip=data.flip, turn=data.turn, recipe=asked.recipe)
    method = make_method("joint", options, asked.seed, runtime)
    method.learn(Task(images, list(labels)))
    return method


def accuracy(
    data: Dataset, row: Row, asked: argparse.Namespace, runtime: Runtime, known: dict[int, float]
) -> tuple[float, int] | None:
    """Of a classifier that learned from images as this row shows them, on real test images, and how
    many of each class it learned from; None where not one fits. What images that another row showed
    just so have taught is `known`."""
    each = asked.per_class
    chosen = first_of(data.train_labels, data.classes, each)
    if len(chosen) < each * len(data.classes):
        sys.exit(f"--per-class {each}: there are not as many images of each class; choose fewer")
    images = data.train_images[chosen]
    labels = [data.train_labels[place] for place in chosen.tolist()]
    decoded, size = row.code(images)
    if asked.fit:
        one = size / len(images)
        each = min(each, math.floor((asked.fit - row.fixed) / one / len(data.classes)))
        if each < 1:
            return None
        keep = torch.cat(
            [torch.arange(each) + asked.per_class * k for k in range(len(data.classes))]
        )
        decoded, labels = decoded[keep], [labels[i] for i in keep.tolist()]
    key = zlib.crc32(decoded.numpy().tobytes())
    if key not in known:
        # As many steps whatever was kept: an image is shown the more often the fewer there are.
        times = max(1, round(asked.per_class / each))
        method = taught(decoded.repeat(times, 1, 1, 1), labels * times, data, asked, runtime)
        some = places_of(data, JUDGED)
        calls = method.predict(data.test_images[some])
        right = [call == data.test_labels[i] for call, i in zip(calls, some.tolist(), strict=True)]
        known[key] = 100 * float(np.mean(right))
    return known[key], each


def places_of(data: Dataset, most: int) -> Tensor:
    """Of so many test images, from all over the set."""
    count = len(data.test_images)
    return torch.linspace(0, count - 1, min(most, count)).round().long()


@dataclass(frozen=True)
class Point:
    """A row as measured: bytes an image without the nets, squared error, accuracy in percent."""

    name: str
    bytes: float
    error: float
    accuracy: float | None


def draw(points: Sequence[Point], title: str, path: Path) -> None:
    """Error, and accuracy where there is one, against bytes: a curve for each kind of codec."""
    judged = [point for point in points if point.accuracy is not None]
    figure, panels = plt.subplots(
        1,
        2 if judged else 1,
        figsize=(10 if judged else 5.5, 4),
        layout="constrained",
        squeeze=False,
    )
    kinds = list(dict.fromkeys(kind_of(point.name) for point in points))
    for kind, colour in zip(kinds, plt.rcParams["axes.prop_cycle"].by_key()["color"], strict=False):
        mine = sorted((p for p in points if kind_of(p.name) == kind), key=lambda p: p.bytes)
        style: dict[str, Any] = {"marker": "o", "markersize": 4, "color": colour, "label": kind}
        if any(p.error for p in mine):  # pixels have none
            panels[0, 0].plot([p.bytes for p in mine], [p.error for p in mine], **style)
        known = [p for p in mine if p in judged]
        if known:
            panels[0, 1].plot([p.bytes for p in known], [p.accuracy for p in known], **style)
    panels[0, 0].set(yscale="log", ylabel="mean squared error, pixels in -1..1")
    if judged:
        panels[0, 1].set(ylabel="accuracy on real test images (%)")
    for axes in panels[0]:
        axes.set(xscale="log", xlabel="bytes an image, without nets")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    panels[0, 0].set_title(title, loc="left", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def kind_of(name: str) -> str:
    """`ours, level 4` and `webp 10` to `ours` and `webp`."""
    return name.replace(",", " ").split()[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("--size", type=int, help="pixels a side [as the set has]")
    parser.add_argument("--taught", type=int, default=1, help="classes that codecs learn from [1]")
    parser.add_argument("--per-class", type=int, default=1000, help="training images [1000]")
    parser.add_argument("--steps", type=int, default=0, help="of our codec's training [default]")
    parser.add_argument("--width", type=int, default=WIDTH, help=f"of our codec [{WIDTH}]")
    parser.add_argument("--code", default="auto", help="shape of our codes, such as 64x4x4 [auto]")
    parser.add_argument(
        "--content",
        type=float,
        default=0.0,
        help="share of the content loss, by a classifier that learned the taught classes [0]",
    )
    parser.add_argument("--images", type=int, default=2000, help="test images for errors [2000]")
    parser.add_argument("--rows", default="ours,fine,published,files")
    parser.add_argument("--only", default="", help="rows with these names, by ;")
    parser.add_argument("--accuracy", nargs="?", const="", help="of all rows, or of these, by ;")
    parser.add_argument("--validation", action="store_true", help="judge on training images")
    parser.add_argument("--fit", type=int, default=0, help="bytes that all must fit into")
    parser.add_argument("--recipe", default="fast", help="of the classifier's training [fast]")
    parser.add_argument("--figure", type=Path, help="PNG file to draw the curves into")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.content and asked.taught < 2:
        parser.error("--content needs a classifier that learned something: use --taught 2 or more")
    runtime = choose_runtime()
    data = load_dataset(asked.dataset, asked.data, asked.size)
    if asked.validation:
        data = held_out(data)
    kinds = asked.rows.split(",")
    ours = {
        name: train(data, asked, kind, runtime)
        for name, kind in (("ours", "coded"), ("fine", "fine"))
        if name in kinds
    }
    plain = train(data, asked, "uint8", runtime) if "published" in kinds else None
    places = places_of(data, asked.images)
    images = data.test_images[places]
    shared = " | ".join(f"of {n:,}" for n in SHARED_BY)
    print(f"| codec | bytes an image | error | {shared} | accuracy |")
    print("|---|--:|--:|" + "--:|" * (len(SHARED_BY) + 1))
    points, known = [], dict[int, float]()
    for row in rows_of(ours, plain, "files" in kinds):
        if asked.only and row.name not in asked.only.split(";"):
            continue
        decoded, size = row.code(images)
        one = size / len(images)
        with_nets = " | ".join(f"{one + row.fixed / n:.0f}" for n in SHARED_BY)
        wrong = float(error(decoded, images).mean())
        judged = asked.accuracy is not None and (
            not asked.accuracy or row.name in asked.accuracy.split(";")
        )
        learned = accuracy(data, row, asked, runtime, known) if judged else None
        points.append(Point(row.name, one, wrong, learned[0] if learned else None))
        said = "does not fit" if judged else ""
        if learned:
            said = f"{learned[0]:.2f}" + (f" ({learned[1]} a class)" if asked.fit else "")
        print(f"| {row.name} | {one:.1f} | {wrong:.5f} | {with_nets} | {said} |", flush=True)
    if asked.figure:
        taught = f"codecs trained on {asked.taught} class" + ("es" if asked.taught > 1 else "")
        draw(
            points, f"{asked.dataset}, {data.test_images.shape[-1]} pixels; {taught}", asked.figure
        )
    for codec in ours.values():
        by_class(codec, data, images, places)
        decoding(codec, data.train_images[:MANY])


def held_out(data: Dataset) -> Dataset:
    """Every fifth training image stands in for the test images: of each class, in any order."""
    places = torch.arange(len(data.train_labels))
    judged = places % 5 == 4

    def part(chosen: Tensor) -> tuple[Tensor, list[Label]]:
        return data.train_images[chosen], [data.train_labels[i] for i in places[chosen].tolist()]

    return Dataset(
        data.name, *part(~judged), *part(judged), data.flip, data.turn, data.classes
    )  # fmt: skip


def decoding(codec: Codec, images: Tensor, rounds: int = 5) -> None:
    """Seconds from stored bytes to images, at the level in the middle; the first round warms up."""
    assert codec.prior is not None
    packing = Packing("coded", level=LEVELS // 2)
    symbols = packing.pack(codec.encode(images))
    stored = entropy.encode(codec.prior, symbols.numpy(), packing.level)
    shape = (symbols.shape[1], symbols.shape[2], symbols.shape[3])
    entropic, whole = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        back = entropy.decode(codec.prior, stored, shape, len(images), packing.level)
        entropic.append(time.perf_counter() - began)
        codec.decode(packing.unpack(torch.from_numpy(back)))
        whole.append(time.perf_counter() - began)
        assert np.array_equal(back, symbols.numpy())
    print(
        f"{len(images)} images decoded in {statistics.median(whole):.2f} s, "
        f"{statistics.median(entropic):.2f} s of it entropy coding; in turn: "
        + ", ".join(f"{taken:.2f}" for taken in whole)
    )


def by_class(codec: Codec, data: Dataset, images: Tensor, places: Tensor) -> None:
    """Bytes and error of every class, at the level in the middle."""
    labels = [data.test_labels[i] for i in places.tolist()]
    print("| class | bytes an image | error |\n|---|--:|--:|")
    for name in data.classes[:10]:
        mine = images[torch.tensor([label == name for label in labels])]
        decoded, size = code_ours(codec, mine, LEVELS // 2)
        print(f"| {name} | {size / len(mine):.1f} | {error(decoded, mine).mean():.5f} |")


if __name__ == "__main__":
    main()
