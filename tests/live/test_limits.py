"""What the real CLIs tell about usage limits, and about what pays."""

from __future__ import annotations

from tests.live.harness import Bench, live


@live("claude", "2.1.325", "2.1.50")
def test_probe_claude(bench: Bench) -> None:
    del bench.env["ANTHROPIC_API_KEY"]
    env = {"CLAUDE_CODE_OAUTH_TOKEN": bench.model.key}
    ran = bench.attempt("[[limit 5h 0.82 7200]][[limit 7d 0.31 200000]][[say hi]]", env=env)
    for l in ran.stdout.splitlines():
        if b'"stream_event"' not in l: print(l.decode()[:3000])
    ran = bench.attempt("[[limit 5h 0.12 7200]][[limit 7d 0.31 200000]][[say hi]]", env=env)
    print([l.decode() for l in ran.stdout.splitlines() if b"rate_limit" in l])
    ran = bench.attempt("[[limit 5h 1 7200]][[error 429]]", env=env)
    print([l.decode() for l in ran.stdout.splitlines() if b"rate_limit" in l])
    print(ran.outcome)


@live("codex", "0.166.0", "0.104.0")
def test_probe_codex(bench: Bench) -> None:
    ran = bench.attempt("[[limit 5h 0.82 7200]][[limit 7d 0.31 200000]][[say hi]]")
    for p in bench.home.glob("sessions/*/*/*/rollout-*.jsonl"):
        for l in p.read_text().splitlines():
            if "token_count" in l: print(l)
    print(ran.outcome)
