"""A learner on disk: one safetensors file with a JSON manifest in its header. No pickle.

Any safetensors reader can list what is inside. The manifest holds the method, its options, the
seed, the labels and a checksum over the whole file: one cut short or altered is not believed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from safetensors.torch import load, save

from eec.errors import UserError
from eec.files import write_whole
from eec.methods.contract import Facts, Method
from eec.methods.registry import choose_options, make_method
from eec.training.runtime import Runtime

VERSION = 3
READABLE = (2, VERSION)  # in 2 the weights of a coded codec lie there one by one
_BLANK = b"0" * 64  # stands in the checksum's place while it is computed


def save_learner(method: Method, path: Path) -> Path:
    """Write a learner; the file appears whole or not at all, and the same learner gives the same
    bytes."""
    return write_whole(path, learner_bytes(method))


def learner_bytes(method: Method) -> bytes:
    """A learner as the content of its file."""
    tensors, facts = method.state()
    manifest: Facts = {
        "checksum": _BLANK.decode(),  # first, so that nothing before it can look like it
        "version": VERSION,
        "method": method.name,
        "options": asdict(method.options),
        "seed": method.seed,
        "facts": facts,
    }
    # One key: the order of several would change from one process to the next.
    content = save(tensors, {"eec": json.dumps(manifest)})
    return content.replace(_BLANK, _checksum(content).encode(), 1)


def load_learner(path: Path, runtime: Runtime) -> Method:
    """Read a learner back; it predicts as the one that was saved, and can go on learning."""
    content = _read(path)
    manifest = _manifest(content, path)
    if manifest.get("version") not in READABLE:
        raise UserError(
            f"{path} is of version {manifest.get('version')} of the learner file, this eec reads "
            f"versions {' and '.join(map(str, READABLE))}: read it with the eec that wrote it"
        )
    claimed = str(manifest.get("checksum"))
    if _checksum(content.replace(claimed.encode(errors="replace"), _BLANK, 1)) != claimed:
        raise UserError(f"{path} was altered or damaged (its checksum differs): restore a copy")
    options = choose_options(manifest["method"], **manifest["options"])
    method = make_method(manifest["method"], options, manifest["seed"], runtime)
    method.restore(load(content), manifest["facts"])
    return method


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"there is no learner file {path}: give the path of a saved one") from None
    except OSError as error:
        raise UserError(
            f"cannot read {path} ({error.strerror}): give the path of a saved learner"
        ) from None


def _manifest(content: bytes, path: Path) -> Facts:
    """What the header says of itself, before a byte of the rest is looked at."""
    size = int.from_bytes(content[:8], "little")  # a safetensors file: size, JSON header, tensors
    try:
        header = json.loads(content[8 : 8 + size])
        described = header["__metadata__"]["eec"]
        manifest = json.loads(described)
    except (KeyError, TypeError):
        raise UserError(f"{path} is no learner of eec's: give the path of a saved one") from None
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict):
        raise UserError(
            f"{path} is not a whole learner file (cut short, or of another kind): restore a copy"
        )
    return manifest


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
