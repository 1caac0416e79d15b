"""The wheel that ``make dist`` builds has all that the program needs, and works."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.integration.conftest import Program

ROOT = Path(__file__).parents[2]


def test_the_wheel_is_whole_and_works(segue: Program, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [*build, *offline, "--wheel-dir", str(tmp_path), str(ROOT)], check=True, env=segue.env, timeout=120
    )
    (wheel,) = tmp_path.glob("segue-*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    source = ROOT / "src"
    ours = {str(file.relative_to(source)) for file in source.rglob("*.*") if "__pycache__" not in file.parts}
    assert {name for name in ours if not (installed / name).is_file()} == set()
    segue.env["PYTHONPATH"] = str(installed)
    where = subprocess.run(
        [sys.executable, "-c", "import segue; print(segue.__file__)"],
        env=segue.env,
        cwd=segue.cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(installed))
    assert segue("run", "hello", "remember the number 456", "--agent", "rehearsal").code == 0
    assert segue("run", "hello", "what number?").stdout == "456\n"
