"""The Python door: EEC with scikit-learn's habits."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from eec.data.images import as_images
from eec.data.labels import as_labels, label_array
from eec.data.stream import Task
from eec.errors import UserError
from eec.methods.archive import load_learner, save_learner
from eec.methods.contract import Method
from eec.methods.options import (
    CodecKind,
    ContentScale,
    EECOptions,
    Net,
    NewImages,
    Output,
    RecipeName,
    See,
)
from eec.methods.registry import make_method
from eec.training.runtime import choose_runtime


class EEC(ClassifierMixin, BaseEstimator):
    """Learns image classes task by task and keeps no real image.

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
        codec: CodecKind = "frozen",
        new_images: NewImages = "decoded",
        see: See = "real",
        code: str = "16x8x8",
        output: Output = "tanh",
        content: float = 0.7,
        content_scale: ContentScale = "normalised",
        decay: bool = True,
        seed: int = 0,
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        self.net = net
        self.recipe = recipe
        self.keep_head = keep_head
        self.flip = flip
        self.codec = codec
        self.new_images = new_images
        self.see = see
        self.code = code
        self.output = output
        self.content = content
        self.content_scale = content_scale
        self.decay = decay
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

    @property
    def classes_(self) -> np.ndarray:
        """The labels learned so far, in order of arrival."""
        return label_array(self._learned().classes)

    def save(self, path: str | Path) -> None:
        """Write the learner to one file: no real image, no pickle."""
        save_learner(self._learned(), Path(path))

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
        options = EECOptions(
            **{field.name: getattr(self, field.name) for field in fields(EECOptions)}
        )
        if method is None:
            method = make_method(
                "eec", options, self.seed, choose_runtime(self.device, self.precision)
            )
        elif (method.options, method.seed) != (options, self.seed):
            raise UserError("parameters were changed after learning began: use fit to begin anew")
        method.learn(task)
        self.method_ = method
        return self

    def _learned(self) -> Method:
        method: Method | None = getattr(self, "method_", None)
        if method is None:
            raise NotFittedError("this EEC has not learned anything yet: call partial_fit first")
        return method
