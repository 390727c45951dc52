"""The scripts that draw the charts, as one text to put into a page."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from eec.errors import UserError
from eec.files import write_whole

SNIPPET = "window.vegaEmbed = vegaEmbed;"
ENDING = b"/* whole */"  # without it, what was kept is not what was written


@cache
def vega_scripts() -> str:
    """vega, vega-lite and vega-embed.

    To put them together takes two seconds, so the result is kept in the user's cache folder; a
    place that cannot be written to costs these seconds again and nothing else.
    """
    kept = _cache_folder() / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError):
        content = kept.read_bytes()
        if content.endswith(ENDING):
            return content.decode("utf-8")
    content = _bundle()
    with suppress(UserError):
        write_whole(kept, content)
    return content.decode("utf-8")


def _bundle() -> bytes:
    import vl_convert

    script = vl_convert.javascript_bundle(SNIPPET)
    # Inside a page these letters would end the script, wherever they stand.
    return script.replace("</script", "<\\/script").encode("utf-8") + ENDING


def _cache_folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG standard says to ignore a relative path.
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "eec"
