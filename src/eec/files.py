"""Writing a file so that a reader never meets half of it."""

import os
import secrets
from pathlib import Path

from eec.errors import UserError


def write_whole(path: Path, content: bytes) -> Path:
    """Write under a temporary name in the same folder, then rename."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                # Else a power loss may keep the new name and lose what is in it.
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(
            f"cannot write {path}: {reason}; choose a folder you can write to"
        ) from error
    return path
