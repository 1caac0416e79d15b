"""The web page: its files, as they were written. They contain no data, so they are served without a token.

Their address contains a hash of all of them, so a browser keeps them for as long as they are the same.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal

from anyio.to_thread import run_sync
from starlette.responses import Response

from segue.server.endpoint import Call, Endpoint
from segue.server.problems import Refused

HTML = "text/html; charset=utf-8"
MEDIA: Mapping[str, str] = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
"""What is served, by the end of its name. Types, licences and the list of versions are not."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
Form = Literal["br", "deflate"]
FOREVER = "public, max-age=31536000, immutable"
_IMPORT = re.compile(r"""\b(?:import|export)\b[^;"'`]*?\bfrom\s*["']\./([^"']+)["']""")


async def page(call: Call) -> Response:
    data = await run_sync(_index)
    headers = {"content-security-policy": POLICY, "content-encoding": "gzip"}
    return Response(data, media_type=HTML, headers=headers)


async def page_file(call: Call) -> Response:
    return await run_sync(_served, call, call.path["file"])


async def vendor_file(call: Call) -> Response:
    return await run_sync(_served, call, f"vendor/{call.path['file']}")


def _served(call: Call, name: str) -> Response:
    form = form_for(call.headers.get("accept-encoding", ""))
    data = compressed(name, form)
    if data is None:
        raise Refused("not_found", "there is no such file")
    headers = {
        "content-encoding": form,
        "vary": "accept-encoding",
        "cache-control": FOREVER if call.path["build"] == _build() else "no-store",
        "content-security-policy": POLICY,
    }
    return Response(data, media_type=MEDIA[name.rpartition(".")[2]], headers=headers)


def form_for(accepted: str) -> Form:
    """What is sent to whoever accepts this (``Accept-Encoding``)."""
    codings = accepted.lower().replace(" ", "").split(",")
    takes = any(re.fullmatch(r"br(?!;q=0(\.0*)?$)(;.*)?", each) for each in codings)
    return "br" if takes else "deflate"


@cache
def _files() -> dict[str, bytes]:
    """Everything that is served, by its path below the page's directory."""
    root = files("segue.server").joinpath("page")
    found = {each.name: each for each in _served_in(root)}
    found |= {f"vendor/{each.name}": each for each in _served_in(root.joinpath("vendor"))}
    return {name: found[name].read_bytes() for name in sorted(found)}


def _served_in(folder: Traversable) -> Iterator[Traversable]:
    for each in folder.iterdir():
        if each.is_file() and each.name.rpartition(".")[2] in MEDIA:
            yield each


@cache
def _build() -> str:
    digest = hashlib.sha256()
    for name, data in _files().items():
        digest.update(f"{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()[:16]


def names() -> list[str]:
    """The paths of all files that are served, but the page itself."""
    return list(_files())


@cache
def compressed(name: str, form: Form = "br") -> bytes | None:
    """As small as it gets. Brotli is smaller, but some browsers accept it over TLS only. The form of zlib
    adds less to each of many small files than gzip, and short blocks fit them."""
    data = _files().get(name)
    if data is None:
        return None
    if form == "br":
        import brotli  # only the page needs it

        small: bytes = brotli.compress(data, mode=brotli.MODE_TEXT)
        return small
    packer = zlib.compressobj(9, memLevel=6)
    return packer.compress(data) + packer.flush()


@cache
def _index() -> bytes:
    text = files("segue.server").joinpath("page", "index.html").read_text("utf-8").replace("BUILD", _build())
    links = [f'<link rel="modulepreload" href="/page/{_build()}/{name}">' for name in modules_from("main.js")]
    return gzip.compress(text.replace("PRELOADS", "\n".join(links)).encode(), 9, mtime=0)


def modules_from(start: str) -> list[str]:
    """A module, and all that it imports."""
    found: list[str] = []
    waiting = [start]
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found.append(name)
            folder = f"{name.rpartition('/')[0]}/".lstrip("/")
            waiting += [folder + each for each in _IMPORT.findall(_files()[name].decode())]
    return found


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/", (), page, "The web page", returns=str, media=HTML, open=True),
    Endpoint("GET", "/page/{build}/{file}", (), page_file, "A file of the page", returns=bytes, open=True),
    Endpoint("GET", "/page/{build}/vendor/{file}", (), vendor_file, "A library", returns=bytes, open=True),
)
