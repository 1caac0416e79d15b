"""What a person sees at a terminal: driven through a real pseudo-terminal and a real screen emulation."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import termios
import time

from tests.integration.conftest import SEGUE, Program


def on_terminal(
    segue: Program, *args: str, keys: tuple[tuple[float, bytes], ...] = (), columns: int = 80
) -> tuple[int, str]:
    """Run it on a terminal of its own; ``keys`` are typed after so many seconds."""
    leader, follower = pty.openpty()
    env = {**segue.env, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    subprocess.run(["stty", "cols", str(columns), "rows", "24"], stdin=follower, check=True)
    process = subprocess.Popen(
        [*SEGUE, *args],
        cwd=segue.cwd,
        env=env,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(follower)
    seen, began, waiting = b"", time.monotonic(), list(keys)
    while time.monotonic() - began < 30:
        if waiting and time.monotonic() - began > waiting[0][0]:
            os.write(leader, waiting.pop(0)[1])
        ready, _, _ = select.select([leader], [], [], 0.1)
        if ready:
            try:
                chunk = os.read(leader, 65536)
            except OSError:
                break
            seen += chunk
        elif process.poll() is not None:
            break
    os.close(leader)
    return process.wait(timeout=10), seen.decode("utf-8", "replace")


def left_on_screen(output: str) -> list[str]:
    """The lines that stay when all erasing is done: enough of a terminal for what we write."""
    lines, row = [""], 0
    at = 0
    while at < len(output):
        if output.startswith("\x1b[K", at):
            lines[row] = ""
            at += 3
        elif output.startswith("\x1b[A", at):
            row = max(row - 1, 0)
            at += 3
        elif output[at] == "\x1b":
            at = output.index("m", at) + 1
        elif output[at] == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
            at += 1
        elif output[at] == "\r":
            at += 1
        else:
            lines[row] += output[at]
            at += 1
    return [line.rstrip() for line in lines if line.strip()]


def test_text_streams_tools_are_lines_and_the_answer_stands_once(segue: Program) -> None:
    prompt = "[[shell echo hello]][[slow 1 5]][[say one two three four five]]"
    code, output = on_terminal(segue, "run", "t1", prompt, "--agent", "rehearsal", "--permission", "full")
    screen = left_on_screen(output)
    assert code == 0
    assert sum("one two three four five" in line for line in screen) == 1
    assert any("├ shell echo hello" in line for line in screen)
    assert screen[-1].startswith("── rehearsal · fresh")
    assert "● rehearsal · t1" in output, "the status line was alive"
    assert not any("●" in line for line in screen), "and it is gone in the end"


def test_a_long_line_is_not_lost_at_the_edge(segue: Program) -> None:
    words = " ".join(f"word{n}" for n in range(60))
    code, output = on_terminal(
        segue, "run", "t1", f"[[slow 1 8]][[say {words}]]", "--agent", "rehearsal", columns=40
    )
    shown = "".join(line.ljust(40) if len(line) == 39 else line for line in left_on_screen(output)[:-1])
    assert code == 0
    assert shown.replace(" ", "") == words.replace(" ", "")


def test_ctrl_c_says_what_it_does(segue: Program) -> None:
    code, output = on_terminal(segue, "run", "t1", "[[hang]]", "--agent", "rehearsal", keys=((1.5, b"\x03"),))
    assert code == 130
    assert "Cancelling… (again to kill)" in output
