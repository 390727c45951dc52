"""The measures of a run as TensorBoard events, for those who look at all their runs there."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from eec.errors import UserError
from eec.files import write_whole
from eec.report.folder import Measures, RunRecord

MEASURES = (
    "accuracy",
    "macro_accuracy",
    "average_incremental_accuracy",
    "forgetting",
    "backward_transfer",
)
NAME = "events.out.tfevents.eec"


def check_tensorboard() -> None:
    if importlib.util.find_spec("tensorboard") is None:
        raise UserError("TensorBoard is not installed: pip install 'eec[tensorboard]'")


def write_events(record: RunRecord, folder: Path) -> Path:
    """One file, in which each increment is a step; that of an earlier call is replaced."""
    check_tensorboard()
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    moment = _started(record)
    events = [Event(wall_time=moment, file_version="brain.Event:2")]
    for measures in record.measures:
        values = [Summary.Value(tag=tag, simple_value=x) for tag, x in _scalars(measures)]
        moment += sum(x for x in measures["seconds"].values() if x)
        summary = Summary(value=values)
        events.append(Event(wall_time=moment, step=measures["increment"], summary=summary))
    content = b"".join(_framed(event.SerializeToString()) for event in events)
    return write_whole(folder / NAME, content)


def _started(record: RunRecord) -> float:
    try:
        return datetime.fromisoformat(str(record.environment.get("started"))).timestamp()
    except ValueError:
        return 0.0


def _scalars(measures: Measures) -> Iterator[tuple[str, float]]:
    for key in MEASURES:
        if measures.get(key) is not None:
            yield key, measures[key]
    for group in ("bytes", "seconds"):
        for part, value in measures[group].items():
            if value is not None:
                yield f"{group}/{part}", value
    by_task: list[Any] = measures.get("accuracy_by_task") or []
    for task, value in enumerate(by_task, start=1):
        if value is not None:
            yield f"accuracy_by_task/{task:03d}", value


def _framed(content: bytes) -> bytes:
    """Length and content of one record, each followed by its masked CRC-32C."""
    length = len(content).to_bytes(8, "little")
    return length + _masked(length) + content + _masked(content)


def _masked(content: bytes) -> bytes:
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    return int(masked_crc32c(content)).to_bytes(4, "little")
