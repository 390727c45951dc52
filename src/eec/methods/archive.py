"""A learner on disk: one safetensors file with a JSON manifest in its header. No pickle.

Any safetensors reader can list what is inside. The manifest holds the method, its options, the
seed, the labels and a checksum over all of it: a file that was cut short or altered is not believed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from eec.errors import UserError
from eec.files import write_whole
from eec.methods.contract import Facts, Method, Tensors
from eec.methods.registry import choose_options, make_method
from eec.training.runtime import Runtime

VERSION = 1


def save_learner(method: Method, path: Path) -> Path:
    """Write a learner; the file appears whole or not at all, and the same learner gives the same
    bytes."""
    tensors, facts = method.state()
    manifest: Facts = {
        "version": VERSION,
        "method": method.name,
        "options": asdict(method.options),
        "seed": method.seed,
        "facts": facts,
    }
    manifest["checksum"] = _checksum(tensors, manifest)
    # One key: the order of several would change from one process to the next.
    return write_whole(path, save(tensors, {"eec": json.dumps(manifest)}))


def load_learner(path: Path, runtime: Runtime) -> Method:
    """Read a learner back; it predicts as the one that was saved, and can go on learning."""
    tensors, manifest = _read(path)
    if manifest.get("version") != VERSION:
        raise UserError(
            f"{path} is of version {manifest.get('version')} of the learner file, this eec reads "
            f"version {VERSION}: read it with the eec that wrote it"
        )
    if manifest.pop("checksum", None) != _checksum(tensors, manifest):
        raise UserError(f"{path} was altered or damaged (its checksum differs): restore a copy")
    options = choose_options(manifest["method"], **manifest["options"])
    method = make_method(manifest["method"], options, manifest["seed"], runtime)
    method.restore(tensors, manifest["facts"])
    return method


def _read(path: Path) -> tuple[Tensors, Facts]:
    if not path.is_file():
        raise UserError(f"there is no learner file {path}: give the path of a saved one")
    try:
        with safe_open(path, "pt") as file:
            manifest = json.loads((file.metadata() or {})["eec"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except KeyError:
        raise UserError(f"{path} is a safetensors file but not a learner of eec's") from None
    except (SafetensorError, ValueError):
        raise UserError(
            f"{path} is not a whole learner file (cut short, or of another kind): restore a copy"
        ) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    return tensors, manifest


def _checksum(tensors: Tensors, manifest: Facts) -> str:
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
