"""The Python door: EEC with scikit-learn's habits."""

from __future__ import annotations

from dataclasses import asdict
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from eec.data.images import as_images
from eec.data.labels import Label, as_labels, label_array
from eec.data.stream import Task
from eec.errors import UserError
from eec.methods.archive import load_learner, save_learner
from eec.methods.contract import Method
from eec.methods.options import (
    AutoencoderKind,
    CodecKind,
    CodeType,
    ContentScale,
    EECOptions,
    Linkage,
    Net,
    NewImages,
    Output,
    OverBudget,
    RecipeName,
    See,
    Share,
)
from eec.methods.registry import make_method
from eec.training.runtime import choose_runtime

_KINDS: dict[Any, tuple[Any, str]] = {
    bool: ((bool, np.bool_), "True or False"),
    float: (Real, "a number"),
    int: (Integral, "a whole number, 0 or more"),
    str: (str, "a string"),
}


class EEC(ClassifierMixin, BaseEstimator):
    """Learns image classes task by task and keeps no real image, unless `keep_real` asks for it.

    `partial_fit` takes new classes, or more images of old ones, as often as you like. Images may be
    numpy or torch, uint8 or float in 0..1, [N, H, W], [N, H, W, C] or [N, C, H, W], grey or RGB;
    labels any strings or numbers. The parameters are those of `eec.methods.options.EECOptions`.
    """

    def __init__(
        self,
        *,
        net: Net = "auto",
        recipe: RecipeName = "fast",
        keep_head: bool = True,
        flip: bool = False,
        turn: int = 0,
        replay_per_epoch: int = 0,
        crop: int = 0,
        codec: CodecKind = "frozen",
        autoencoder: AutoencoderKind = "plain",
        new_images: NewImages = "decoded",
        detail: bool = True,
        see: See = "real",
        code: str = "auto",
        output: Output = "tanh",
        content: float = 0.7,
        content_scale: ContentScale = "normalised",
        decay: bool = False,
        memory: str = "unlimited",
        over_budget: OverBudget = "spread",
        linkage: Linkage = "ward",
        share: Share = "balanced",
        code_type: CodeType = "coded",
        image_bytes: int = 0,
        expected: int = 0,
        codec_refresh: bool = False,
        keep_real: float = 0.0,
        distil: float = 1.0,
        seed: int = 0,
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        self.net = net
        self.recipe = recipe
        self.keep_head = keep_head
        self.flip = flip
        self.turn = turn
        self.replay_per_epoch = replay_per_epoch
        self.crop = crop
        self.codec = codec
        self.autoencoder = autoencoder
        self.new_images = new_images
        self.detail = detail
        self.see = see
        self.code = code
        self.output = output
        self.content = content
        self.content_scale = content_scale
        self.decay = decay
        self.memory = memory
        self.over_budget = over_budget
        self.linkage = linkage
        self.share = share
        self.code_type = code_type
        self.image_bytes = image_bytes
        self.expected = expected
        self.codec_refresh = codec_refresh
        self.keep_real = keep_real
        self.distil = distil
        self.seed = seed
        self.device = device
        self.precision = precision

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything and learn these images as the first task."""
        return self._learn(X, y, None)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn one more task; if it fails or is interrupted, the learner stays as it was."""
        return self._learn(X, y, getattr(self, "method_", None))

    def predict(self, X: Any) -> np.ndarray:
        """The label of each image, of the type that it was taught with."""
        return label_array(self._learned().predict(as_images(X, name="X")))

    def predict_proba(self, X: Any) -> np.ndarray:
        """One column a class, in the order of `classes_`."""
        return self._learned().predict_proba(as_images(X, name="X"))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of images that are called by their label, from 0 to 1."""
        task = Task(as_images(X, name="X"), as_labels(y, name="y"))
        self._check_kind(task.labels)
        calls = self._learned().predict(task.images)
        hits = [call == label for call, label in zip(calls, task.labels, strict=True)]
        return float(np.average(hits, weights=sample_weight))

    @property
    def classes_(self) -> np.ndarray:
        """The labels learned so far, in order of arrival."""
        return label_array(self._learned().classes)

    def save(self, path: str | Path) -> None:
        """Write the learner to one file: no real image (but for `keep_real`), no pickle."""
        save_learner(self._learned(), Path(path))

    def shrink(self, memory: str) -> Self:
        """Set another budget for memory, such as "1MB"; what no longer fits is let go at once."""
        method = self._learned()
        if not isinstance(memory, str):
            raise UserError(f'memory is {memory!r}: use a text such as "5000" or "1MB"')
        method.set_memory(memory)
        self.memory = memory
        return self

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", precision: str = "auto") -> Self:
        """Read a learner back, to predict the same and to go on learning."""
        method = load_learner(Path(path), choose_runtime(device, precision))
        if not isinstance(method.options, EECOptions):
            raise UserError(f"{path} is a learner of method {method.name}, not of EEC")
        brain = cls(**asdict(method.options), seed=method.seed, device=device, precision=precision)
        brain.method_ = method
        return brain

    def _learn(self, X: Any, y: Any, method: Method | None) -> Self:
        task = Task(as_images(X, name="X"), as_labels(y, name="y"))
        kinds = get_type_hints(EECOptions)
        options = EECOptions(**{name: self._plain(name, kind) for name, kind in kinds.items()})
        seed, runtime = self._plain("seed", int), choose_runtime(self.device, self.precision)
        if method is None:
            method = make_method("eec", options, seed, runtime)
        elif (method.options, method.seed, method.runtime) != (options, seed, runtime):
            raise UserError("parameters were changed after learning began: use fit to begin anew")
        method.learn(task)
        self.method_ = method
        return self

    def _plain(self, name: str, kind: Any) -> Any:
        """A parameter as the plain Python value that a saved file can hold."""
        value = getattr(self, name)
        kind = kind if kind in _KINDS else str
        accepted, words = _KINDS[kind]
        if not isinstance(value, accepted) or (kind is not bool and isinstance(value, bool)):
            raise UserError(f"{name} is {value!r}: use {words}")
        if kind is int and value < 0:
            raise UserError(f"{name} is {value!r}: use {words}")
        return kind(value)

    def _check_kind(self, labels: list[Label]) -> None:
        """Numbers that were read as text would all count as wrong, in silence."""
        asked = {isinstance(label, str) for label in labels}
        if asked.isdisjoint(isinstance(label, str) for label in self._learned().classes):
            here, there = ("strings", "numbers") if True in asked else ("numbers", "strings")
            raise UserError(f"y holds {here} but {there} were learned: use the same labels")

    def _learned(self) -> Method:
        method: Method | None = getattr(self, "method_", None)
        if method is None:
            raise NotFittedError("this EEC has not learned anything yet: call partial_fit first")
        return method
