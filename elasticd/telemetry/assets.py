"""The files of the status page, as they are installed with the package.

Knows files; knows nothing of what they show.
"""

import hashlib
from importlib.resources import files

from aiohttp import web
from msgspec import Struct

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Asset(Struct, frozen=True):
    """A file: its bytes, media type and ETag."""

    body: bytes
    content_type: str
    tag: str


class Assets:
    """The page's files, read once."""

    def __init__(self) -> None:
        folder = files("elasticd.telemetry") / "page"
        self._files: dict[str, Asset] = {}
        for file in folder.iterdir():
            suffix = f".{file.name.rpartition('.')[2]}"
            if suffix in _TYPES:
                body = file.read_bytes()
                self._files[file.name] = Asset(body, _TYPES[suffix], hashlib.sha256(body).hexdigest()[:16])

    async def index(self, request: web.Request) -> web.Response:
        """The page itself."""
        return _answer(self._files["index.html"], request)

    async def file(self, request: web.Request) -> web.Response:
        """One of its files."""
        asset = self._files.get(request.match_info["name"])
        if asset is None:
            raise web.HTTPNotFound
        return _answer(asset, request)


def _answer(asset: Asset, request: web.Request) -> web.Response:
    """A file, or that the browser has it already."""
    headers = {"ETag": f'"{asset.tag}"', "Cache-Control": "no-cache"}
    if any(tag.value == asset.tag for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(body=asset.body, content_type=asset.content_type, charset="utf-8", headers=headers)
