"""What every method does.

A method learns tasks one after another, predicts among all classes seen, gives and takes back its
whole state, and tells its bytes by part. `Method` has the parts that do not differ: the classifier
`D`, the labels, the checks, and the promise that a task which fails leaves the learner as it was.
A new method is one file: a subclass with `_learn`, and what it keeps in `_keep` and `_take_back`.
"""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from eec.data.images import SMALLEST, centre
from eec.data.labels import Label
from eec.data.stream import Task
from eec.errors import UserError
from eec.methods.options import ClassifierOptions
from eec.nets.classifiers import CLASSIFIERS, Classifier, Shape, shape_of
from eec.training.batches import Batches, Detail, to_float
from eec.training.distillation import Teacher
from eec.training.journal import Journal
from eec.training.loop import Loss, Progress, apply, quiet, train
from eec.training.recipes import find_recipe
from eec.training.runtime import Runtime, derive_seed, generator, seeded

Tensors = dict[str, Tensor]
Facts = dict[str, Any]  # whatever JSON can hold
OnPhase = Callable[[str], Progress]  # the name of a phase that begins -> its progress callback


def unseen(phase: str) -> Progress:
    """The phase callback of those who do not look."""
    return quiet


@dataclass
class Report:
    """What learning one task has to tell."""

    seconds: dict[str, float] = field(default_factory=dict)
    decay: list[Facts] | None = None
    autoencoder: Facts | None = None
    pseudo: Facts | None = None
    notes: list[str] = field(default_factory=list)
    on_phase: OnPhase = unseen
    journal: Journal = field(default_factory=Journal)

    @contextmanager
    def phase(self, name: str) -> Iterator[Progress]:
        """Show and time one phase."""
        began = self._clock()
        yield self.on_phase(name)
        self.seconds[name] = self.seconds.get(name, 0.0) + self._clock() - began

    def _clock(self) -> float:
        """Seconds of work: with those of an earlier process, without those for checkpoints."""
        return time.perf_counter() + self.journal.regained - self.journal.saving


class Method(ABC):
    strict: bool = True  # keeps no real image of an old class

    def __init__(self, name: str, options: ClassifierOptions, seed: int, runtime: Runtime) -> None:
        self.name = name
        self.options = options
        self.seed = seed
        self.runtime = runtime
        self.recipe = find_recipe(options.recipe)
        self.image: Shape | None = None  # of the images that are brought
        self.classes: list[Label] = []  # in order of arrival; the position is the class index
        self.tasks = 0
        self.classifier: Classifier | None = None
        self.arrived: list[int] = []  # class indices of the task that is being learned

    # What a method is asked.

    def learn(
        self, task: Task, on_phase: OnPhase = unseen, journal: Journal | None = None
    ) -> Report:
        """Learn one more task. If that fails or is interrupted, the learner stays as it was."""
        self.check(task)
        before = self.state()
        report = Report(on_phase=on_phase, journal=journal or Journal())
        try:
            self.tasks += 1
            self.image = self.image or shape_of(task.images)
            known = set(self.classes)
            self.classes = [*self.classes, *(c for c in task.classes if c not in known)]
            index = {label: i for i, label in enumerate(self.classes)}
            self.arrived = [index[label] for label in task.classes]
            self._learn(task.images, torch.tensor([index[y] for y in task.labels]), report)
        except BaseException:
            self.restore(*before)
            raise
        return report

    def predict_proba(self, images: Tensor) -> np.ndarray:
        """One row an image, one column a class in order of arrival; rows sum to 1."""
        if self.classifier is None or self.image is None:
            raise UserError("nothing has been learned yet: teach a task before asking")
        self._check_shape(images)
        seen = self._as_seen(images)
        chances = self._logits(seen).double().softmax(1)
        if self.options.flip and self.recipe.mirrored:  # as in training, both ways round
            chances = (chances + self._logits(seen.flip(3)).double().softmax(1)) / 2
        return chances.numpy()

    def predict(self, images: Tensor) -> list[Label]:
        return [self.classes[i] for i in self.predict_proba(images).argmax(1)]

    def state(self) -> tuple[Tensors, Facts]:
        """All that is needed to predict and to go on learning, as tensors and JSON."""
        tensors: Tensors = {}
        if self.classifier is not None:
            tensors |= weights_of(self.classifier, "classifier.")
        facts: Facts = {"image": self.image, "classes": list(self.classes), "tasks": self.tasks}
        kept, kept_facts = self._keep()
        return tensors | kept, facts | kept_facts

    def restore(self, tensors: Tensors, facts: Facts) -> None:
        """Become the learner that gave this state."""
        self.image = tuple(facts["image"]) if facts["image"] else None
        self.classes = list(facts["classes"])
        self.tasks = facts["tasks"]
        self.classifier = None
        with seeded(0):  # first weights are drawn and thrown away: not from the user's generator
            if self.image is not None:
                self.classifier = self._new_classifier(self._seen_shape(self.image))
                self.classifier.grow(len(self.classes))
                load_weights(self.classifier, tensors, "classifier.")
            self._take_back(tensors, facts)

    def bytes_by_part(self) -> dict[str, int]:
        """The bytes of the state, by part: the classifier, and what else the method keeps."""
        parts = {"classifier": 0, **self._parts()}
        for name, tensor in self.state()[0].items():
            part = name.partition(".")[0]
            parts[part] = parts.get(part, 0) + tensor.numel() * tensor.element_size()
        return parts

    def set_memory(self, memory: str) -> None:
        """Change the budget of what is kept; what no longer fits is let go at once."""
        raise UserError(f"method {self.name} has no memory that a budget could bound")

    def remember(self, most: int) -> list[tuple[Label, Tensor]]:
        """Up to `most` images a class as memory shows them now, where a method has a memory."""
        return []

    def pictures(self, most: int) -> dict[Label, Tensors]:
        """Of each class up to `most` images of each kind that memory holds, by their names."""
        return {}

    def reconstruct(self, images: Tensor, label: Label) -> Tensor | None:
        """Images of a class coded and decoded as that class is kept, where that can be done."""
        return None

    @property
    def forgets_encoders(self) -> bool:
        """Whether a saved learner can no longer code images of the tasks that it has learned."""
        return False

    def view(self, images: Tensor) -> Tensor:
        """The part of images that the nets see: all, or the middle where crops are trained on."""
        assert self.image is not None
        return centre(images, *self._seen_shape(self.image)[1:])

    def nets(self, image: Shape) -> Facts:
        """The nets for images of this shape, with their sizes."""
        with seeded(0):
            net = self._new_classifier(self._seen_shape(image))
        return {"classifier": describe_net(net, self._net_name(image))}

    # What a method says of itself.

    @abstractmethod
    def _learn(self, images: Tensor, targets: Tensor, report: Report) -> None:
        """Learn a checked task; `targets` are class indices, `self.classes` has the new ones."""

    def _keep(self) -> tuple[Tensors, Facts]:
        """What is kept besides the classifier. Tensors are named `part.rest`."""
        return {}, {}

    def _take_back(self, tensors: Tensors, facts: Facts) -> None:  # noqa: B027  (nothing kept)
        """The inverse of `_keep`."""

    def _parts(self) -> dict[str, int]:
        """The parts that are named even where they are empty."""
        return {}

    def _as_seen(self, images: Tensor) -> Tensor:
        """Images to be named, as `D` is to see them."""
        return images

    # The classifier `D`.

    def _train_classifier(
        self,
        images: Tensor,
        targets: Tensor,
        weights: Tensor | None,
        report: Report,
        detail: Detail | None = None,
        heed: float = 0.0,
    ) -> None:
        """Grow the head and train `D`, warm, on one weighted mixture.

        `heed` is how much the `D` of before counts: where memory shows few of many old images, what
        it says of the others is most of what is left of them.
        """
        assert self.image is not None
        seed = derive_seed(self.seed, "classifier", self.tasks)
        first = self.classifier is None
        teacher = None
        if heed and self._taught is not None:
            teacher = Teacher(copy.deepcopy(self._taught), heed)
        with seeded(seed):
            if self.classifier is None:
                self.classifier = self._new_classifier(self._seen_shape(self.image))
            self.classifier.grow(len(self.classes), keep=self.options.keep_head)
        net = self.classifier.requires_grad_(True)
        with report.phase("train classifier") as progress:
            if len(self.classes) == 1:
                report.notes.append(
                    "With one class the classifier has nothing to learn: A_1 is 100 % by itself."
                )
                net.eval()
                return
            device = self.runtime.device
            drawn, weights = self._draw(targets, weights)
            weights = None if weights is None else weights.to(device)
            loss = self._loss(net, targets.to(device), weights, teacher)
            _, height, width = self._seen_shape(self.image)
            plan = self.recipe.first if first else self.recipe.later
            plan = plan.for_classes(len(self.arrived)).for_pixels(height * width)
            if not net.any_size:
                plan = replace(plan, early=0.0)
            train(
                net,
                self._batches(images.to(device), drawn, detail),
                loss,
                plan,
                self.runtime,
                generator(seed, "batches"),
                progress,
                report.journal,
            )

    def _loss(
        self,
        net: Classifier,
        targets: Tensor,
        weights: Tensor | None,
        teacher: Teacher | None = None,
    ) -> Loss:
        """What `D` minimises over a mixture: the weighted cross entropy (eq. 6)."""
        even = self.recipe.smoothing

        def loss(batch: Tensor, index: Tensor) -> Tensor:
            said = net(batch).float()
            losses = cross_entropy(said, targets[index], reduction="none", label_smoothing=even)
            mean = (losses if weights is None else losses * weights[index]).mean()
            return mean if teacher is None else mean + teacher(batch, said)

        return loss

    def _draw(
        self, targets: Tensor, weights: Tensor | None
    ) -> tuple[tuple[Tensor, int] | None, Tensor | None]:
        """Images of which an epoch has only some, and the weights that make up for it."""
        most = self.options.replay_per_epoch
        old = ~torch.isin(targets, torch.tensor(self.arrived))
        count = int(old.sum())
        if not 0 < most < count:
            return None, weights
        # Each old image stands for several, or new classes would be called too often; the mean
        # over an epoch stays 1.
        evened = torch.where(old, count / most, 1.0) * (len(old) - count + most) / len(old)
        places = old.nonzero()[:, 0]
        return (places, most), evened if weights is None else weights * evened

    def _batches(
        self, images: Tensor, drawn: tuple[Tensor, int] | None, detail: Detail | None
    ) -> Batches:
        """Images that bring a margin of their own are cropped inside it, others are padded."""
        o = self.options
        pad, window = (0, o.crop) if o.crop else (self.recipe.crop, None)
        return Batches(
            images, pad=pad, window=window, flip=o.flip, turn=o.turn, drawn=drawn, detail=detail
        )

    def _net_name(self, image: Shape) -> str:
        if self.options.net == "auto":
            return "tiny" if image[0] == 1 else "small"
        return self.options.net

    def _grown(self) -> Classifier:
        """A classifier of the size that this one will be of after the task."""
        assert self.image is not None
        with seeded(0):
            grown = copy.deepcopy(self.classifier)
            if grown is None:
                grown = self._new_classifier(self._seen_shape(self.image))
            grown.grow(len(self.classes))
        return grown

    def _new_classifier(self, image: Shape) -> Classifier:
        return self.runtime.place(CLASSIFIERS[self._net_name(image)](image))

    def _seen_shape(self, image: Shape) -> Shape:
        """What the nets see of an image of this shape."""
        side = self.options.crop
        return (image[0], side, side) if side else image

    def _with_margin(self, images: Tensor) -> Tensor:
        """Images out of memory may have no margin to crop in: they get a black one."""
        assert self.image is not None
        high, wide = (self.image[k] - images.shape[k + 1] for k in (1, 2))
        return pad(images, (wide // 2, wide - wide // 2, high // 2, high - high // 2))

    def _logits(self, images: Tensor) -> Tensor:
        net = self.classifier
        assert net is not None
        net.eval()

        def call(part: Tensor) -> Tensor:
            logits: Tensor = net(to_float(part).contiguous(memory_format=torch.channels_last))
            return logits.float()

        return apply(call, self.view(images), self.runtime)

    def _accuracy(self, images: Tensor, targets: Tensor) -> float:
        """Percent of un-augmented images that `D` calls by their name."""
        return 100 * (self._logits(images).argmax(1) == targets).float().mean().item()

    @property
    def _taught(self) -> Classifier | None:
        """`D`, if its convolutions have learned anything: with one class they have not."""
        # By the head, not by `self.classes`, which has the new classes before `D` does.
        head = None if self.classifier is None else self.classifier.head
        return self.classifier if head is not None and head.out_features > 1 else None

    # The checks.

    def check(self, *tasks: Task) -> None:
        """Refuse tasks, one after the other, that cannot be learned, before anything has changed.

        What their images show does not count here: one may stand for all of a stream.
        """
        known = {label: type(label) for label in self.classes}
        for task in tasks:
            self._check_shape(task.images, margin=True)
            side, shape = self.options.crop, shape_of(task.images)
            if side and not SMALLEST <= side <= min(shape[1:]):
                raise UserError(
                    f"crop is {side} but images are {size_words(shape)}: use {SMALLEST} to "
                    f"{min(shape[1:])} pixels, or larger images"
                )
            for label in task.classes:
                if known.get(label, type(label)) is not type(label):
                    raise UserError(
                        f"label {label!r} of type {type(label).__name__} equals a learned label of "
                        f"type {known[label].__name__}: use one type for this class"
                    )

    def _after(self, tasks: Sequence[Task]) -> Self:
        """A shallow twin that has seen the images' shape and the names of these tasks."""
        after = copy.copy(self)
        after.image = self.image or shape_of(tasks[0].images)
        coming = {label: None for task in tasks for label in task.classes}
        after.classes = [*self.classes, *(label for label in coming if label not in self.classes)]
        return after

    def _check_shape(self, images: Tensor, *, margin: bool = False) -> None:
        """`margin`: with what crops are cut from. Without it images can be named, not learned."""
        if self.image is None or shape_of(images) == self.image:
            return
        if margin or shape_of(images) != self._seen_shape(self.image):
            raise UserError(
                f"images are {size_words(shape_of(images))} but {size_words(self.image)} was "
                "learned before: bring them to that size and mode"
            )


def size_words(shape: Shape) -> str:
    mode = "grey" if shape[0] == 1 else "RGB"
    return f"{mode} {shape[1]}x{shape[2]}"


def describe_net(net: torch.nn.Module, name: str) -> Facts:
    weights = weights_of(net, "").values()
    return {
        "name": name,
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
        "bytes": sum(tensor.numel() * tensor.element_size() for tensor in weights),
    }


def weights_of(net: torch.nn.Module, prefix: str) -> Tensors:
    """A copy of the net's weights; counters of batches, which nothing reads, are left out."""
    return {
        prefix + name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in net.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }


def load_weights(net: torch.nn.Module, tensors: Tensors, prefix: str) -> None:
    """The inverse of `weights_of`; weights that are missing or do not fit are refused."""
    given = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    wanted = {n: t for n, t in net.state_dict().items() if not n.endswith("num_batches_tracked")}
    if {n: t.shape for n, t in given.items()} != {n: t.shape for n, t in wanted.items()}:
        raise UserError(f"the saved weights of {prefix}* do not fit this net: the file is damaged")
    net.load_state_dict(given, strict=False)
