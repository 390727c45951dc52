"""One process on a run folder at a time. The system lets go of a lock when its holder dies."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

from eec.errors import UserError

NAME = ".lock"


class Lock:
    """Held from when it is made until `release`, or until the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.held = self._open()
        while not self._is_in_place():  # its last holder removed the file as we opened it
            os.close(self.held)
            self.held = self._open()
        os.ftruncate(self.held, 0)
        os.pwrite(self.held, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)

    def release(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self.held)

    def _open(self) -> int:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(file, 200, 0).decode(errors="replace") or "another process"
            os.close(file)
            raise UserError(
                f"{self.path.parent} is in use by {holder}: wait for it, stop it, or choose "
                "another folder"
            ) from None
        return file

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self.held), self.path.stat())
        except FileNotFoundError:
            return False
