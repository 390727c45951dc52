"""What a run that goes on was asked to do, from its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from eec.errors import UserError
from eec.methods.registry import choose_options
from eec.runs.config import RunConfig
from eec.runs.folder import MARK, RunFolder
from eec.training.calibration import cpu_name
from eec.training.runtime import choose_runtime


def is_finished(folder: RunFolder) -> bool:
    increments = folder.read_json("config.json")["stream"].get("increments")
    return len(folder.lines) == increments and not folder.checkpoint.exists()


def read_config(folder: RunFolder, data_dir: Path | None = None) -> RunConfig:
    """The configuration that the folder was made with; the data sets may have moved."""
    told = folder.read_json("config.json")
    try:
        config = _read(told, data_dir)
    except KeyError as missing:
        raise UserError(
            f"{folder.path} was begun by another version of eec ({missing} is not in its "
            "config.json): go on with that one, or run again"
        ) from None
    except (AttributeError, TypeError) as error:
        raise UserError(
            f"{folder.path / MARK} is damaged ({error}): restore it, or run again"
        ) from None
    return _as_it_began(config, folder.read_json("environment.json"))


def beside_of(folder: RunFolder) -> list[Path]:
    """The run folders that were to be drawn in the same figure, as far as they are still there."""
    place = folder.read_json("config.json").get("place", {})  # older runs say nothing of it
    return [path for path in map(Path, place.get("beside", [])) if path.is_dir()]


def _as_it_began(config: RunConfig, before: dict[str, Any]) -> RunConfig:
    """With the precision that `auto` found on this machine: measured again, it might differ."""
    here = {"cpu": cpu_name(), "device": str(choose_runtime(config.device, "float32").device)}
    if config.precision != "auto" or any(before.get(name) != here[name] for name in here):
        return config
    return replace(config, precision=before.get("precision", "auto"))


def _read(told: dict[str, Any], data_dir: Path | None) -> RunConfig:
    stream, place = told["stream"], told["place"]
    sizes = stream["classes_per_increment"]
    if data_dir is None and place["data_dir"] is not None:
        data_dir = Path(place["data_dir"])
    return RunConfig(
        dataset=_from(place["folder"], told["dataset"]),
        method=told["method"],
        options=choose_options(told["method"], **told["options"]),
        seed=told["seed"],
        data_dir=data_dir,
        size=stream["size"],
        strict=place["strict"],
        classes_per_increment=tuple(sizes) if isinstance(sizes, list) else sizes,
        class_order=tuple(stream["class_order"]),
        per_class=stream["per_class"],
        validation=stream["validation"],
        returning=stream["returning"],
        turn=told["options"]["turn"],
        device=place["device"],
        precision=place["precision"],
        originals=told["originals"],
        command=told["command"],
    )


def _from(folder: str, dataset: str) -> str:
    """`folder:birds` meant the one in the folder where the run was begun."""
    name, colon, argument = dataset.partition(":")
    if name == "folder":
        return f"{name}{colon}{Path(folder) / Path(argument).expanduser()}"
    return dataset
