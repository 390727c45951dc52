"""Learns image classes one increment after another and keeps no real images."""

from typing import TYPE_CHECKING

from eec.errors import UserError

if TYPE_CHECKING:
    from eec.estimator import EEC

    __version__: str

__all__ = ["EEC", "UserError", "__version__"]


# Lazy, because the estimator imports torch, and `eec --help` must answer at once.
def __getattr__(name: str) -> object:
    if name == "EEC":
        from eec.estimator import EEC

        return EEC
    if name == "__version__":
        from importlib.metadata import version

        return version("eec")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
