"""The scripts that draw the charts, as one text to put into a page."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.metadata import version

from eec.errors import UserError
from eec.files import cache_dir, write_whole

SNIPPET = "window.vegaEmbed = vegaEmbed;"
ENDING = b"/* whole */"  # without it, what was kept is not what was written


@cache
def vega_scripts() -> str:
    """vega, vega-lite and vega-embed.

    To put them together takes two seconds, so the result is kept in the user's cache folder; a
    place that cannot be written to costs these seconds again and nothing else.
    """
    kept = cache_dir() / f"vega-{version('vl-convert-python')}.js"
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
