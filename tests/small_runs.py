"""Small runs on the digits, and somebody who looks on."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eec.data.stream import Increment, Stream
from eec.methods.options import EECOptions
from eec.methods.registry import METHODS, choose_options
from eec.runs.config import RunConfig
from eec.training.loop import Progress, quiet

SWITCHES = ("autoencoder", "content", "decay", "over_budget")


def _taken(name: str) -> tuple[str, str]:
    """The class of a method and what of its options decides where its code goes."""
    entry = METHODS[name]
    options = {key: value for key, value in asdict(entry.options).items() if key not in SWITCHES}
    return entry.where, repr(options)


# Of methods that differ in switches alone, the first. Each switch has tests of its own.
CODE_PATHS = [
    name for name in METHODS if name == next(n for n in METHODS if _taken(n) == _taken(name))
]


def keeps_codes(method: str) -> bool:
    return isinstance(METHODS[method].options, EECOptions)


class Onlooker:
    """Writes down what a display would be told."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def begin(self, stream: Stream, nets: dict[str, Any]) -> None:
        self.seen.append(f"begin {stream.name}")

    def increment(self, increment: Increment) -> None:
        self.seen.append(f"increment {increment.number}")

    def phase(self, name: str) -> Progress:
        self.seen.append(name)
        return quiet

    def measured(self, line: dict[str, Any]) -> None:
        self.seen.append(f"measured {line['increment']}")

    def recalled(self, line: dict[str, Any]) -> None:
        self.seen.append(f"recalled {line['increment']}")


def config(method: str = "eec", **changes: Any) -> RunConfig:
    return RunConfig(
        dataset="digits",
        method=method,
        options=choose_options(method, **changes.pop("options", {})),
        **{
            "size": 16,
            "per_class": 4,
            "classes_per_increment": (1, 6, 3),
            "device": "cpu",
            "precision": "float32",
            **changes,
        },
    )


def measures(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "measures.jsonl").read_text().splitlines()]
