"""A method with a memory of codes: what it keeps, within which budget, and how it is saved."""

from __future__ import annotations

import copy
import math
from collections import Counter
from dataclasses import asdict, fields, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from eec.data.labels import Label
from eec.data.stream import Task
from eec.errors import BudgetTooSmall
from eec.memory.budget import balanced_shares, paper_shares, parse_budget
from eec.memory.coarseness import SAMPLE, coarse_enough, mean_cost
from eec.memory.codec import Codec, CodecNet, CodecOptions, new_autoencoder
from eec.memory.codes import CODE_TYPES
from eec.memory.entropy import IntegerPrior
from eec.memory.episodes import Memory
from eec.memory.over_budget import POLICIES, shrink
from eec.memory.showing import picture_rows
from eec.memory.stored import facts_of, take_back, tensors_of
from eec.memory.weights import compressed, decompressed, pack_weights, unpack_weights
from eec.methods.archive import learner_bytes
from eec.methods.contract import (
    Facts,
    Method,
    Report,
    Tensors,
    describe_net,
    load_weights,
    weights_of,
)
from eec.methods.options import EECOptions
from eec.nets.classifiers import Shape, shape_of
from eec.nets.compressor import CHANNELS, FINE_CHANNELS, LEVELS, WIDTH, Compressor
from eec.training.runtime import derive_seed, generator, seeded

# Beyond this level a budget in bytes lets images go rather than make all of them coarser: what a
# classifier learns from fewer, better ones is more (docs/codec.md).
COARSEST = 8
OCTAVE = 4  # levels by which a step doubles
# Where this share of the images fits, finer codes are worth more than the rest of the images.
ENOUGH = 0.95
# Where less than this share of the codes fits, coarser ones are better than fewer.
WORTH_DOUBLING = 0.67
SPARE = 0.02  # of a budget in bytes, which may stay unused
LATER_COST = 1.15  # bytes of later images, where those of the first task are 1
# The codec's nets are in the budget, too: bytes from which a compressor of this width pays, with
# codes of so many channels (docs/codec.md).
CODEC_SIZES = ((700_000, WIDTH, CHANNELS), (300_000, 24, CHANNELS), (0, 24, 20))
FINE_BYTES = 90  # for 32x32 pixels, from which codes of more channels teach more (docs/codec.md)
# Bytes that their nets and the file's header take at most: up to 64 pixels a side, and beyond. They
# are to be the smaller part of a budget.
FINE_NETS = (90_000, 140_000)
OPEN_STREAM = 10_000  # images that a budget is to be divided by where nobody knows how many come
HEADER_LINE = 100  # bytes that the name, type, shape and place of a tensor take in the file, about
CODE_LINES = 5  # of codes in the file: episodes, centroids, spreads, counts, scale
TOGETHER = "together"  # the name of a coded codec's nets and prior in the file


class Keeper(Method):
    options: EECOptions

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.memory = Memory()
        self.originals: dict[int, float] = {}  # c_o: accuracy of `D` on a task's real images
        self.real: list[tuple[int, Tensor]] = []  # class index, images as brought: `keep_real`
        self.strict = not self.options.keep_real

    def check(self, *tasks: Task) -> None:
        super().check(*tasks)
        image = self._seen_shape(shape_of(tasks[0].images))
        with seeded(0):  # a code that does not fit the images shows here
            net = new_autoencoder(image, self._codec_options(image))
        counts = (n for task in tasks for n in Counter(task.labels).values())
        shares = (_share(self.options.keep_real, n) for n in counts)
        real = sum(shares) * tasks[0].images[0].nbytes
        self._after(tasks)._check_budget(net, real, len(tasks))

    def nets(self, image: Shape) -> Facts:
        seen = self._seen_shape(image)
        with seeded(0):
            net = new_autoencoder(seen, self._codec_options(seen))
        code = "x".join(map(str, net.code_shape))
        described = describe_net(net, code)
        if not self._coded:  # else it depends on the image
            described["bytes_an_episode"] = self._slot_bytes(net) - 4
        return {**super().nets(image), "autoencoder": described}

    def _codec_options(self, image: Shape) -> CodecOptions:
        o = self.options
        width, channels = self._codec_size(image)
        return CodecOptions(
            o.code,
            o.output,
            o.content,
            o.content_scale,
            o.code_type,
            o.flip,
            o.autoencoder,
            width,
            channels,
        )

    def _codec_size(self, image: Shape) -> tuple[int, int]:
        """Channels inside the compressor, and of its codes, that pay within the budget."""
        o, limit = self.options, parse_budget(self.options.memory).bytes
        each = float(o.image_bytes or math.inf)  # bytes that there are for an image
        if limit is not None:
            nets = FINE_NETS[min(image[1:]) > 64]
            room = limit - nets if limit >= 2 * nets else 0
            each = min(each, room / (o.expected or OPEN_STREAM))
        # Of a grey patch CHANNELS are half of all directions: on MNIST more taught nothing more.
        if image[0] == 3 and each >= FINE_BYTES * math.prod(image[1:]) / 32**2:
            return WIDTH, FINE_CHANNELS
        return next((w, c) for least, w, c in CODEC_SIZES if limit is None or limit >= least)

    def _keep_real(self, brought: Tensor, targets: Tensor) -> None:
        """On top of a task's episodes, a share of each class's images at random; one at least."""
        if not self.options.keep_real:
            return
        for target in targets.unique().tolist():
            mine = brought[targets == target]
            rng = generator(self.seed, "keep real", self.tasks, target)
            count = _share(self.options.keep_real, len(mine))
            chosen = torch.randperm(len(mine), generator=rng)[:count].sort().values
            own = mine[chosen].clone(memory_format=torch.contiguous_format)
            self.real = [*self.real, (target, own)]

    # What memory shows.

    def _as_seen(self, images: Tensor) -> Tensor:
        if self.options.see == "real":
            return images
        return self.memory.codec_of(self.tasks)(self.view(images))

    def remember(self, most: int) -> list[tuple[Label, Tensor]]:
        shown: dict[int, list[Tensor]] = {}
        for part in self.memory.kept:
            shown.setdefault(part.target, []).append(self.memory.glimpse(part, most))
        return [(self.classes[i], torch.cat(shown[i])[:most]) for i in sorted(shown)]

    def pictures(self, most: int) -> dict[Label, Tensors]:
        return {
            label: picture_rows(self.memory, i, most, generator(self.seed, "pictures", i))
            for i, label in enumerate(self.classes)
        }

    def reconstruct(self, images: Tensor, label: Label) -> Tensor | None:
        target = self.classes.index(label)
        task = max(part.task for part in self.memory.kept if part.target == target)
        codec = self.memory.codec_of(task)
        return codec(self.view(images)) if codec.encodes else None

    @property
    def forgets_encoders(self) -> bool:
        return self.options.codec == "per-task"

    # The budget.

    def set_memory(self, memory: str) -> None:
        before, options = self.state(), self.options
        self.options = replace(options, memory=memory)
        try:
            self._coarsen()
            self._shrink([])
        except BaseException:
            self.options = options
            self.restore(*before)
            raise

    def _first_level(self, codes: Tensor) -> int:
        """How coarse a new codec's codes are to be: as coarse as they have to be from the start.

        `image_bytes` says how many bytes an image may take. A budget in bytes is divided among the
        images that there are or, where that is known, that will come. Bytes that are there are
        used; without a bound codes are so coarse that next to nothing is lost.
        """
        codec = self.memory.codec_of(self.tasks)
        if codec.prior is None:
            return 0
        if self.options.image_bytes:
            most, end = float(self.options.image_bytes), LEVELS - 1
        elif (limit := parse_budget(self.options.memory).bytes) is not None:
            held = sum(len(part.codes) for part in self.memory.kept) + len(codes)
            # The first task's images cost less than others: its codec was trained on them.
            coming = LATER_COST * max(0, self.options.expected - held)
            room = limit - self._fixed_bytes()
            most, end = room / (held + coming) / ENOUGH, _coarsest(codec)
        else:
            return codec.level
        some = codes[:: math.ceil(len(codes) / SAMPLE)]
        return coarse_enough(codec, some, most, end)

    def _tell_image_bytes(self, codes: Tensor, report: Report) -> None:
        """Where codes of the coarsest step are larger than was asked for, that is said."""
        asked = self.options.image_bytes
        codec = self.memory.codec_of(self.tasks)
        if not asked or codec.level < LEVELS - 1:
            return
        some = codes[:: math.ceil(len(codes) / SAMPLE)]
        if (each := codec.bytes_of_codes(some, codec.level)) > asked:
            report.notes.append(
                f"Images take {each:.0f} bytes on average, more than image_bytes={asked}: codes "
                "get no coarser (smaller images, or fewer channels by code, take less)."
            )

    def _coarsen(self) -> bool:
        """Whether memory was over its budget by so much that its steps had to be doubled, once or
        more.

        Codes that are whole already get no smaller by a slightly larger step: ones stay ones. So
        a step is doubled or, where that is more than is needed, some episodes are let go.
        """
        limit = parse_budget(self.options.memory).bytes
        if limit is None or not self._coded or not self.memory.kept:
            return False
        codec, before = self.memory.codec_of(self.tasks), self.memory.codec_of(self.tasks).level
        while codec.level + OCTAVE <= _coarsest(codec):
            fixed = self._fixed_bytes()
            if limit - fixed > WORTH_DOUBLING * (self._bytes_kept() - fixed):
                break
            self.memory.coarsen(codec.level + OCTAVE)
        return codec.level != before

    def _shrink(self, notes: list[str]) -> None:
        budget = parse_budget(self.options.memory)
        if budget.unlimited or not self.memory.kept:
            return
        if budget.bytes is not None and self._bytes_kept() <= budget.bytes:
            return  # coded episodes differ in size: whether all fit, only weighing tells
        least = self._least * len(self.memory.slots())
        if budget.slots is not None:
            if budget.slots < least:
                self._refuse_budget(least)
            self._shrink_to(budget.slots, notes)
            return
        assert budget.bytes is not None
        one = self._slot_bytes(self.memory.codec_of(self.tasks).net)
        whole, fixed, fell = self.memory.kept, self._fixed_bytes(), False
        slots = max(least, int((budget.bytes - fixed) / one))
        while True:
            self._shrink_to(slots, notes)
            # Those that are left may be dearer or cheaper than all were: only weighing tells.
            needed = self._bytes_kept()
            room, each = budget.bytes - needed, max(1.0, (needed - fixed) / slots)
            if room < 0 and slots == least:
                self._refuse_budget(needed)
            if room < 0:
                slots, fell = max(least, slots - math.ceil(-room / each)), True
            elif fell or room <= SPARE * budget.bytes:
                return
            else:
                slots += math.ceil(room / each)
            self.memory.kept = whole

    def _shrink_to(self, slots: int, notes: list[str]) -> None:
        """Integrate every class into its share of so many slots."""
        seed, o = derive_seed(self.seed, "integrate", self.tasks), self.options
        shrink(self.memory, self._shares(slots, notes), o.over_budget, o.linkage, seed)

    def _shares(self, slots: int, notes: list[str]) -> dict[int, int]:
        """By class index, the slots that each may keep."""
        held = self.memory.slots()
        if self.options.share == "paper":
            new = {part.target for part in self.memory.kept if part.task == self.tasks}
            if shares := paper_shares(held, new, slots, self._least):
                return shares
            told = (
                "The paper's shares (eq. 4) cannot hold: the new classes alone take too much of "
                "the budget. Every class gets an equal share."
            )
            if told not in notes:
                notes.append(told)
        return balanced_shares(held, slots)

    @property
    def _least(self) -> int:
        return POLICIES[self.options.over_budget].least

    def _check_budget(self, net: CodecNet, real: int, tasks: int) -> None:
        """Refuse early what so many tasks and bytes of real images leave no room for; an estimate,
        since what is stored in the end decides. `self` has the classes of after these tasks."""
        budget = parse_budget(self.options.memory)
        slots = len(self.classes) * self._least
        if budget.slots is not None and slots > budget.slots:
            self._refuse_budget(slots)
        if budget.bytes is not None:
            least, most = self._bytes_needed(net, real, tasks)
            if least > budget.bytes:
                self._refuse_budget(self._bytes_enough(most, real, tasks))

    def _bytes_needed(self, net: CodecNet, real: int, tasks: int = 1) -> tuple[float, float]:
        """By a guess, at the least and at the most."""
        slots = len(self.classes) * self._least
        least = most = self._fixed_bytes() + slots * self._slot_bytes(net) + real
        apart = self._codec_a_task or not self._coded  # codes of each task lie by themselves
        most += HEADER_LINE * (CODE_LINES * tasks if apart else CODE_LINES + tasks)
        if made := self._codecs_to_come(tasks):
            codec = self._written_codec("codecs.1.", Codec(net, self.runtime))
            most += made * (_bytes_of(codec) + HEADER_LINE * len(codec))
            # Before they are trained, coded nets are noise, which is not compressed: half of
            # that is a safe guess.
            least += made * _bytes_of(codec) / (2 if self._coded else 1)
        return least, most

    def _bytes_enough(self, most: float, real: int, tasks: int) -> float:
        """A budget that holds its own codec: a larger one may have larger nets."""
        assert self.image is not None
        image = self._seen_shape(self.image)
        for _ in range(len(CODEC_SIZES) if self._codecs_to_come(tasks) else 0):
            with_it = copy.copy(self)
            with_it.options = replace(self.options, memory=f"{math.ceil(most)}B")
            with seeded(0):
                net = new_autoencoder(image, with_it._codec_options(image))
            most = max(most, with_it._bytes_needed(net, real, tasks)[1])
        return most

    @property
    def _codec_a_task(self) -> bool:
        return self.options.codec in ("per-task", "warm")

    def _codecs_to_come(self, tasks: int) -> int:
        return tasks if self._codec_a_task else int(not self.memory.codecs)

    def _refuse_budget(self, least: float) -> NoReturn:
        in_bytes = parse_budget(self.options.memory).bytes is not None
        # The budget stands in the file, too, and so will `D`'s accuracy on the task: some bytes.
        enough = f"{math.ceil((least + 64) / 1000)}kB" if in_bytes else least
        raise BudgetTooSmall(
            f"memory {self.options.memory} is too small for the codec and the least of each of "
            f"{len(self.classes)} classes: use {enough} or more"
        )

    # Bytes.

    def _bytes_kept(self) -> int:
        """What the file of this learner will have besides the classifier, which is to grow yet."""
        twin = copy.copy(self)
        twin.classifier = self._grown()
        return len(learner_bytes(twin)) - twin.bytes_by_part()["classifier"]

    def _fixed_bytes(self) -> int:
        """What it has besides the classifier and the codes."""
        parts = self.bytes_by_part()
        return self._bytes_kept() - parts["episodes"] - parts["concepts"] - parts["counts"]

    def _slot_bytes(self, net: CodecNet) -> float:
        """A code and its count; of coded ones, which differ, what they take on average."""
        values = math.prod(net.code_shape)
        if not self._coded:
            return values * CODE_TYPES[self.options.code_type].itemsize + 4
        if not self.memory.kept:
            return values // 16  # a guess, to refuse early what cannot be
        return mean_cost(self.memory, self.memory.codec_of(self.tasks).level) + 1

    @property
    def _coded(self) -> bool:
        return self.options.code_type == "coded"

    # The state.

    def _keep(self) -> tuple[Tensors, Facts]:
        tensors = tensors_of(self.memory)
        for task, codec in self.memory.codecs.items():
            tensors |= self._written_codec(f"codecs.{task}.", codec)
        if self.real:
            tensors["images.pixels"] = torch.cat([images for _, images in self.real])
        return tensors, {
            "originals": {str(t): c for t, c in self.originals.items()},
            "codecs": {
                str(t): [c.steps, c.attempts, c.level, c.reference]
                for t, c in self.memory.codecs.items()
            },
            "kept": facts_of(self.memory),
            "real": [[target, len(images)] for target, images in self.real],
        }

    def _written_codec(self, prefix: str, codec: Codec) -> Tensors:
        parts = {"decoder": codec.net.decoder}
        if not self.forgets_encoders:  # one that will never encode again is kept as a decoder
            parts["encoder"] = codec.net.encoder
        tensors: Tensors = {}
        for name, part in parts.items():
            tensors |= pack_weights(weights_of(part, f"{name}."), self.options.code_type)
        if codec.prior is not None:
            for name, whole in asdict(codec.prior).items():
                tensors[f"prior.{name}"] = torch.from_numpy(whole)
            if codec.written is None:  # takes a moment, and a codec in use does not change
                codec.written = compressed(tensors)
            tensors = {TOGETHER: codec.written}
        return {prefix + name: tensor for name, tensor in tensors.items()}

    def _take_back(self, tensors: Tensors, facts: Facts) -> None:
        self.originals = {int(task): c for task, c in facts["originals"].items()}
        self.real = []
        if real := facts.get("real"):  # learners of earlier versions have none
            counts = [count for _, count in real]
            parts = tensors["images.pixels"].split(counts)
            self.real = [(target, part) for (target, _), part in zip(real, parts, strict=True)]
        self.memory = Memory()
        for task, training in facts["codecs"].items():
            self.memory.codecs[int(task)] = self._read_codec(tensors, f"codecs.{task}.", training)
        take_back(self.memory, tensors, facts["kept"], self.tasks, self.options.code_type)

    def _read_codec(self, tensors: Tensors, prefix: str, training: list[Any]) -> Codec:
        assert self.image is not None
        mine = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        if TOGETHER in mine:  # learners of earlier versions have each by itself
            mine |= decompressed(mine.pop(TOGETHER))
        weights = unpack_weights(mine)
        # The budget may have been another one when the codec was made.
        channels, width = weights["decoder.0.weight"].shape[:2]
        image = self._seen_shape(self.image)
        options = replace(self._codec_options(image), width=width, channels=channels)
        net = new_autoencoder(image, options)
        load_weights(net.decoder, weights, "decoder.")
        encodes = any(name.startswith("encoder.") for name in weights)
        if encodes:
            load_weights(net.encoder, weights, "encoder.")
        if isinstance(net, Compressor):
            names = [field.name for field in fields(IntegerPrior)]
            prior = IntegerPrior(*(mine[f"prior.{name}"].numpy() for name in names))
            prior.put_into(net.prior)
        codec = Codec(net, self.runtime, *training)
        codec.encodes = encodes
        return codec

    def _parts(self) -> dict[str, int]:
        images = {} if self.strict else {"images": 0}
        return {"episodes": 0, "concepts": 0, "counts": 0, "codecs": 0, **images}


def _coarsest(codec: Codec) -> int:
    """The level beyond which images are let go rather than all of them made coarser."""
    finer = codec.net.finer if isinstance(codec.net, Compressor) else 0.0
    return min(LEVELS - 1, COARSEST + round(OCTAVE * finer))


def _share(share: float, count: int) -> int:
    """How many of so many images; one at least, if any."""
    return max(1, round(share * count)) if share else 0


def _bytes_of(tensors: Tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
