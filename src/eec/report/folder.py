"""Reading a run folder back."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eec.errors import UserError

Measures = dict[str, Any]
NEEDED = {"increment": int, "classes_seen": int, "accuracy": float, "bytes": dict, "seconds": dict}


@dataclass(frozen=True)
class RunRecord:
    """What a run folder says: how it was set up, where it ran, one dictionary an increment."""

    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]
    measures: list[Measures]

    @property
    def dataset(self) -> str:
        return str(self.config.get("dataset", "unknown data set"))

    @property
    def method(self) -> str:
        return str(self.config.get("method", "unknown method"))

    @property
    def seed(self) -> object:
        return self.config.get("seed")

    @property
    def stream(self) -> dict[str, Any]:
        return self.config.get("stream") or {}

    @property
    def last(self) -> Measures:
        return self.measures[-1]

    @property
    def judged_on(self) -> str:
        return str(self.stream.get("judged_on") or "test")

    @property
    def pictures(self) -> Path:
        return self.path / "pictures"


def read_run(path: str | Path) -> RunRecord:
    """Read the configuration, the environment and the measures of a run folder."""
    folder = Path(path)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a run folder: give the folder that `eec run` wrote to")
    return RunRecord(
        path=folder,
        config=_read_object(folder / "config.json"),
        environment=_read_object(folder / "environment.json"),
        measures=_read_measures(folder / "measures.jsonl"),
    )


def joint_beside(record: RunRecord) -> list[RunRecord]:
    """Runs of joint training on the same stream and seed, in the folders beside this run's."""
    found = []
    for folder in sorted(record.path.resolve().parent.iterdir()):
        try:
            other = read_run(folder)
        except UserError:
            continue
        same = (other.dataset, other.seed, other.stream) == (
            record.dataset,
            record.seed,
            record.stream,
        )
        if same and other.method == "joint" and other.path != record.path.resolve():
            found.append(other)
    return found


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(
            f"{path} is missing: give a folder that `eec run` wrote to, or run again"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path} ({error}): it must be a readable text file") from None


def _parse_object(text: str, where: str) -> dict[str, Any]:
    try:
        # NaN is no JSON, but Python writes it: it says nothing, and null is how that is spelled
        value = json.loads(text, parse_constant=lambda _: None)
    except (json.JSONDecodeError, RecursionError):
        raise UserError(f"{where} is not valid JSON: restore the file or run again") from None
    if not isinstance(value, dict):
        raise UserError(f"{where} is not a JSON object: restore the file or run again")
    return value


def _read_object(path: Path) -> dict[str, Any]:
    return _parse_object(_read_text(path), str(path))


def _read_measures(path: Path) -> list[Measures]:
    # split at newlines only: splitlines() would also cut at separators inside a label
    lines = enumerate(_read_text(path).split("\n"), start=1)
    measures = [_check_measures(line, f"{path} line {n}") for n, line in lines if line.strip()]
    if not measures:
        raise UserError(f"{path} is empty: the run has not finished its first increment yet")
    return measures


def _check_measures(line: str, where: str) -> Measures:
    measures = _parse_object(line, where)
    for key, kind in NEEDED.items():
        value = measures.get(key)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UserError(f"{where} has no usable `{key}`: restore the file or run again")
    for key in ("bytes", "seconds"):
        if not all(value is None or _is_number(value) for value in measures[key].values()):
            raise UserError(f"{where} has no usable `{key}`: restore the file or run again")
    if not math.isfinite(measures["accuracy"]):
        raise UserError(f"{where} has an infinite `accuracy`: restore the file or run again")
    return measures


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
