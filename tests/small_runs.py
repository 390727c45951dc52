"""Small runs on the digits, and somebody who looks on."""

import json
from pathlib import Path
from typing import Any

from eec.data.stream import Increment, Stream
from eec.methods.registry import choose_options
from eec.runs.config import RunConfig
from eec.training.loop import Progress, quiet


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
