"""What a learner holds: its facts, and a sheet of pictures decoded from its memory."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from eec.memory.budget import parse_budget
from eec.memory.episodes import Kept, Memory
from eec.memory.showing import evenly, picture_rows
from eec.memory.stored import part_bytes, tensors_of
from eec.methods.cgan import ConditionalGAN
from eec.methods.contract import Facts, Method
from eec.methods.keeper import Keeper
from eec.methods.replay import Replay
from eec.report.sheet import COLUMNS, draw_sheet
from eec.training.runtime import generator

MOST_ROWS = 60  # of images on a sheet: more than that nobody looks at

# The facts: all of them are JSON.


def look_inside(method: Method, file_bytes: int) -> Facts:
    """What a learner holds that takes so many bytes on disk; the bytes by part add up to them."""
    parts = method.bytes_by_part()
    memory = _memory(method)
    return {
        "method": method.name,
        "options": asdict(method.options),
        "seed": method.seed,
        "tasks": method.tasks,
        "image": None if method.image is None else list(method.image),
        "keeps_real_images": not method.strict,
        "budget": _budget(method, file_bytes) if isinstance(method, Keeper | Replay) else None,
        "real_images": sum(len(part) for _, part in method.real)
        if isinstance(method, Keeper)
        else None,  # beside codes
        "generators": len(method.kept) if isinstance(method, ConditionalGAN) else None,
        "codes": None if memory is None else _codes(memory),
        "classes": _classes(method, memory),
        "bytes": {**parts, "header": file_bytes - sum(parts.values()), "file": file_bytes},
    }


def _memory(method: Method) -> Memory | None:
    return method.memory if isinstance(method, Keeper) else None


def _budget(method: Keeper | Replay, file_bytes: int) -> Facts:
    budget = parse_budget(method.options.memory)
    if budget.bytes is not None:
        used = file_bytes - method.bytes_by_part()["classifier"]
        return {"unit": "bytes", "limit": budget.bytes, "used": used}
    used = len(method.kept.bodies) if isinstance(method, Replay) else _slots(method.memory)
    return {"unit": "slots", "limit": budget.slots, "used": used}


def _slots(memory: Memory) -> int:
    return sum(memory.slots().values())


def _codes(memory: Memory) -> Facts | None:
    """How codes are kept; None while there are none."""
    if not memory.kept:
        return None
    kept = memory.kept[0]
    return {
        "type": memory.packings[kept.task].type,
        "shape": list(kept.codes.shape[1:]),
        "bytes_an_episode": _mean(memory, "episodes"),
        "bytes_a_concept": _mean(memory, "concepts"),
        "codecs": len(memory.codecs),
    }


def _mean(memory: Memory, kind: str) -> float | None:
    """Bytes that one takes on average: coded ones differ."""
    count = sum(p.singles if kind == "episodes" else len(p.spreads) for p in memory.kept)
    stored = [t.nbytes for name, t in tensors_of(memory).items() if name.startswith(kind)]
    return round(sum(stored) / count, 1) if count else None


def _classes(method: Method, memory: Memory | None) -> list[Facts]:
    """What is kept of each class, in whichever tasks it came."""
    if isinstance(method, Replay):
        return [
            {
                "label": label,
                "kept": len(pile.images),
                "images": pile.seen,
                "bytes": sum(map(len, pile.images)),
            }
            for label, pile in zip(method.classes, method.kept.piles, strict=True)
        ]
    if memory is None:
        return [{"label": label} for label in method.classes]
    rows = []
    for index, label in enumerate(method.classes):
        parts = _parts(memory, index)
        rows.append(
            {
                "label": label,
                "tasks": [part.task for part in parts],
                "episodes": sum(part.singles for part in parts),
                "concepts": sum(len(part.spreads) for part in parts),
                "images": sum(int(part.counts.sum()) for part in parts),
                "slots": sum(part.slots for part in parts),
                "bytes": sum(part_bytes(memory, part) for part in parts),
            }
        )
    return rows


def _parts(memory: Memory, index: int) -> list[Kept]:
    return [part for part in memory.kept if part.target == index]


# The sheet.


def memory_sheet(method: Method, path: Path, title: str) -> int:
    """Draw what is remembered, and say of how many classes; of none, nothing is written.

    What is under a concept's centroid was drawn from that concept.
    """
    memory = _memory(method)
    if memory is None or not memory.kept:
        return 0
    shown = _shown_classes(memory, len(method.classes))
    if len(shown) < len(method.classes):
        title += f"\n{len(shown)} of {len(method.classes)} classes, evenly over their arrival"
    rows = []
    for i in shown:
        random = generator(method.seed, "inspect", i)
        named = picture_rows(memory, i, COLUMNS, random)
        rows.append((method.classes[i], list(named.items())))
    draw_sheet(rows, path, title)
    return len(shown)


def _shown_classes(memory: Memory, count: int) -> list[int]:
    """So many classes, old ones and new ones, that a sheet of them can be looked at."""
    rows_a_class = 3 if any(len(part.spreads) for part in memory.kept) else 1
    return evenly(count, MOST_ROWS // rows_a_class)
