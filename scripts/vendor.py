"""Copies the page's libraries from their npm packages into ``server/page/vendor``, with their licences.

Run it after changing a version here. Each file is the package's own. Three things are changed: an import by
package name becomes an import of the file beside it, so that the page needs no import map (which would be an
inline script); a file that is a script, because it is much smaller, gets a line that exports what it defines;
and the reference to a source map is dropped.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VENDOR = Path(__file__).parents[1] / "src/segue/server/page/vendor"
LANGUAGES = ("bash diff go ini json markdown python rust typescript xml yaml").split()
PACKAGES: dict[str, tuple[str, dict[str, str]]] = {
    "preact": (
        "11.2.0",
        {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "preact-hooks.js"},
    ),
    "@preact/signals-core": ("1.14.5", {"dist/signals-core.mjs": "signals-core.js"}),
    "@preact/signals": ("2.11.4", {"dist/signals.mjs": "signals.js"}),
    "htm": ("3.1.1", {"dist/htm.mjs": "htm.js"}),
    "uplot": ("1.6.32", {"dist/uPlot.iife.min.js": "uplot.js", "dist/uPlot.min.css": "uplot.css"}),
    "marked": ("18.2.0", {"lib/marked.esm.js": "marked.js"}),
    "dompurify": ("3.4.17", {"dist/purify.min.js": "dompurify.js"}),
    "diff": (
        "9.0.0",
        {
            "libesm/diff/base.js": "diff-base.js",
            "libesm/diff/line.js": "diff-line.js",
            "libesm/util/params.js": "diff-params.js",
        },
    ),
    "@highlightjs/cdn-assets": (
        "11.12.0",
        {
            "es/core.min.js": "highlight.js",
            **{f"es/languages/{name}.min.js": f"highlight-{name}.js" for name in LANGUAGES},
        },
    ),
}
"""By package: its version, and the files that are taken with their names here."""
IMPORTS = {
    "preact": "./preact.js",
    "preact/hooks": "./preact-hooks.js",
    "@preact/signals-core": "./signals-core.js",
    "./base.js": "./diff-base.js",
    "../util/params.js": "./diff-params.js",
}
EXPORTS = {"uplot.js": "uPlot", "dompurify.js": "globalThis.DOMPurify"}
_IMPORT = re.compile(r"""(\bfrom\s*)(["'])([^"']+)\2""")
_SOURCE_MAP = re.compile(r"\n?//# sourceMappingURL=\S+\s*$")


def main() -> int:
    shutil.rmtree(VENDOR, ignore_errors=True)
    VENDOR.mkdir(parents=True)
    manifest = {}
    for package, (version, files) in PACKAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            root = _unpacked(package, version, Path(folder))
            licence = f"LICENSE-{package.strip('@').replace('/', '-')}"
            shutil.copyfile(root / "LICENSE", VENDOR / licence)
            for source, target in files.items():
                text = _adapted((root / source).read_text("utf-8"))
                if target in EXPORTS:
                    text = f"{text.rstrip()}\nexport default {EXPORTS[target]};\n"
                (VENDOR / target).write_text(text, "utf-8")
        digests = {
            target: hashlib.sha256((VENDOR / target).read_bytes()).hexdigest() for target in files.values()
        }
        manifest[package] = {"version": version, "licence": licence, "files": digests}
    (VENDOR / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    return 0


def _unpacked(package: str, version: str, folder: Path) -> Path:
    subprocess.run(["npm", "pack", "--silent", f"{package}@{version}"], cwd=folder, check=True)
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / "package"


def _adapted(text: str) -> str:
    text = _IMPORT.sub(lambda found: f"{found[1]}{found[2]}{_target(found[3])}{found[2]}", text)
    return _SOURCE_MAP.sub("\n", text)


def _target(name: str) -> str:
    return IMPORTS.get(name, name)


if __name__ == "__main__":
    sys.exit(main())
