"""Writing a file so that a reader never meets half of it; the folder of what can be made again."""

import os
import re
import secrets
from pathlib import Path

from eec.errors import UserError

PART = re.compile(
    r"\.(.+)\.[0-9a-f]{8}\.part"
)  # what `write_whole` calls a file before it is whole


def write_whole(path: Path, content: bytes | str) -> Path:
    """Write under a temporary name in the same folder, then rename."""
    if isinstance(content, str):  # which may name a file whose name is no UTF-8
        content = content.encode("utf-8", "replace")
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


def cache_dir() -> Path:
    """`eec` in the user's cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG standard says to ignore a relative path.
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "eec"
