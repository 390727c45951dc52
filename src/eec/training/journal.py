"""Trainings on disk, so that a run that was killed goes on where it was, to the same bits.

Learning a task is a fixed sequence of steps, and all of them but the trainings take seconds. Who
goes on later runs the sequence again from its beginning and takes each training from here, as far
as it had come. So a checkpoint that is lost or damaged costs time, never the result.
"""

from __future__ import annotations

import json
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from eec.errors import UserError
from eec.files import write_whole

EVERY = 60.0  # seconds between the checkpoints of a training

Tensors = dict[str, Tensor]


@dataclass
class Position:
    """Where in a training: steps done, the order of this epoch's images, batches of it done."""

    step: int = 0
    order: Tensor | None = None
    done: int = 0


class Journal:
    """The trainings of one task, numbered as they begin. Without a folder it keeps nothing."""

    def __init__(self, folder: Path | None = None, every: float = EVERY) -> None:
        self.every = every
        self.training_now = False
        self.stop_asked = False
        self.regained = 0.0  # seconds of training that were taken from disk
        self.turn_to(folder)

    def turn_to(self, folder: Path | None) -> None:
        """Another task's trainings are kept here, from the first."""
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.begun = 0
        self.saving = 0.0  # seconds that went into checkpoints

    def open(
        self, net: nn.Module, optimizer: torch.optim.Optimizer, generator: torch.Generator
    ) -> Training:
        """The next training of this task, as far as it had come."""
        self.begun += 1
        self.training_now = True
        path = None
        if self.folder is not None:
            path = self.folder / f"training-{self.begun}.safetensors"
        return Training(self, path, net, optimizer, generator)

    def stop(self) -> None:
        """Stop at the next step, with a checkpoint; between trainings at once."""
        if not self.training_now or self.stop_asked:
            raise KeyboardInterrupt
        self.stop_asked = True


class Training:
    """One training and its file."""

    def __init__(
        self,
        journal: Journal,
        path: Path | None,
        net: nn.Module,
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator,
    ) -> None:
        self.journal, self.path = journal, path
        self.net, self.optimizer, self.generator = net, optimizer, generator
        self.at = Position()
        self.finished = False
        self.spent = 0.0  # seconds, by those who worked on it before
        self.began = self.saved = time.monotonic()
        if path is not None and path.exists():
            self._take_back(path)
            journal.regained += self.spent

    def mark(self, step: int, order: Tensor, done: int) -> None:
        """After each step: a checkpoint, if it is time for one or if the work is to stop."""
        self.at = Position(step, order, done)
        if self.journal.stop_asked or time.monotonic() - self.saved >= self.journal.every:
            self._save(self._all())
            if self.journal.stop_asked:
                self.journal.training_now = False
                raise KeyboardInterrupt

    def finish(self) -> None:
        """Of a training that is done only the net is kept."""
        if not self.finished:
            self.finished = True
            self._save(self._net())
        self.journal.training_now = False

    def _save(self, tensors: Tensors) -> None:
        began = time.monotonic()
        if self.path is not None:
            if not self.path.parent.is_dir():
                raise UserError(f"{self.path.parent} was removed while it was in use: begin again")
            told = {
                "finished": self.finished,
                "step": self.at.step,
                "done": self.at.done,
                "seconds": self.spent + time.monotonic() - self.began,
                "checksum": _checksum(tensors),
            }
            write_whole(self.path, save(tensors, {"eec": json.dumps(told)}))
        self.saved = time.monotonic()
        self.journal.saving += self.saved - began

    def _net(self) -> Tensors:
        return {f"net.{n}": _plain(t) for n, t in self.net.state_dict().items()}

    def _all(self) -> Tensors:
        tensors = self._net() | {"generator": self.generator.get_state()}
        if self.at.order is not None:
            tensors["order"] = self.at.order
        for i, weight in enumerate(self._weights()):
            for name, value in self.optimizer.state[weight].items():
                if value is not None:
                    tensors[f"optimizer.{i}.{name}"] = _plain(value)
        return tensors

    def _take_back(self, path: Path) -> None:
        content = path.read_bytes()
        try:
            tensors = load(content)
            size = int.from_bytes(content[:8], "little")
            told = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["eec"])
        except (SafetensorError, ValueError, KeyError):
            return
        if told["checksum"] != _checksum(tensors):
            return
        net = {n.removeprefix("net."): t for n, t in tensors.items() if n.startswith("net.")}
        if {n: t.shape for n, t in net.items()} != {
            n: t.shape for n, t in self.net.state_dict().items()
        }:
            return
        self.net.load_state_dict(net)
        self.finished, self.spent = told["finished"], told["seconds"]
        if self.finished:
            return
        self.at = Position(told["step"], tensors.get("order"), told["done"])
        self.generator.set_state(tensors["generator"])
        for i, weight in enumerate(self._weights()):
            state = {n: t for n, t in tensors.items() if n.startswith(f"optimizer.{i}.")}
            for name, value in state.items():
                self.optimizer.state[weight][name.split(".", 2)[2]] = _laid_out(value, weight)

    def _weights(self) -> list[Tensor]:
        return [weight for group in self.optimizer.param_groups for weight in group["params"]]


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous()


def _laid_out(value: Tensor, weight: Tensor) -> Tensor:
    """In the memory layout of the weight that it belongs to; counters of steps have none."""
    return torch.empty_like(weight).copy_(value) if value.shape == weight.shape else value


def _checksum(tensors: Tensors) -> int:
    total = 0
    for name in sorted(tensors):
        total = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, total)
    return total
