"""The checks: one small function each, with its reason in words and the modes it rules out.

Each looks at the whole situation and returns pass, fail or skip, independently of the others. They are shown
in this order.
"""

from __future__ import annotations

from collections.abc import Callable

from segue.core import usage
from segue.core.outcome import CUT_SHORT
from segue.core.prompt_recap import LEAST
from segue.core.situation import ASSUMED_WINDOW, FRAME_BYTES, Situation, tokens_of
from segue.core.tools import changed
from segue.core.turn import Check, Mode
from segue.core.usage import count_in_words

SESSION: tuple[Mode, ...] = ("resume", "branch")
CARRYING: tuple[Mode, ...] = ("graft", "replay", "recap")
FAILED_PROMPT = "a prompt that failed was left in the session"
OTHER_ACCOUNT = "said under another account or login"


def blank(now: Situation) -> Check:
    if now.blank is None:
        return _ok("blank")
    return _fail("blank", (*SESSION, *CARRYING), now.blank)


def enabled(now: Situation) -> Check:
    left_out = tuple(mode for mode in (*SESSION, "replay", "recap") if mode not in now.policy.modes)
    if not now.policy.enabled:
        bars = (*SESSION, "graft", *(mode for mode in left_out if mode not in SESSION))
        return _fail("enabled", bars, "[continuity] enabled is false: every turn is a replay")
    if left_out:
        return _fail("enabled", left_out, f"[continuity] modes leaves out {', '.join(left_out)}")
    return _ok("enabled")


def capability(now: Situation) -> Check:
    can, name = now.runtime.capabilities, _version(now)
    if not can.resume:
        return _fail("capability", SESSION, f"{name} cannot resume a session")
    if "resume" in now.switched_off:
        return _fail("capability", SESSION, f"{name} does not resume: {now.switched_off['resume']}")
    if "branch" in now.switched_off:
        why = now.switched_off["branch"]
        return _fail("capability", ("branch",), f"{name} does not continue from an earlier point: {why}")
    if not can.branch:
        return _fail("capability", ("branch",), f"{name} cannot continue from an earlier point of a session")
    return _ok("capability")


def fresh_session(now: Situation) -> Check:
    if now.fresh_session:
        return _fail("fresh_session", (*SESSION, "graft"), "a new session was asked for")
    return _ok("fresh_session")


def pin(now: Situation) -> Check:
    if now.pin is None:
        return _fail("pin", SESSION, _no_pin(now))
    if now.lent:
        return _fail(
            "pin", ("resume",), f"the session is that of the {now.lent}; this role gets a fork of it"
        )
    if now.pin.foreign is not None:
        whose = f"the session belongs to the conversation {now.pin.foreign}, which this one was forked from"
        return _fail("pin", ("resume",), whose)
    return _ok("pin")


def history(now: Situation) -> Check:
    if now.pin is None:
        return _skip("history")
    if now.cut.whole:
        held = now.cut.kept
        late = max(len(now.cut.text) - 1, 0)
        catch_up = f", {late} to catch up" if late else ""
        return _ok("history", f"the session holds {count_in_words(held, 'message')}{catch_up}")
    if now.cut.anchor is None:
        return _fail("history", SESSION, now.broken or "the session holds no message that is still valid")
    why = now.broken or "it is not known where its last answer ends"
    return _fail("history", ("resume",), f"{why}; the session is valid up to the point before")


def end(now: Situation) -> Check:
    if now.pin is None or now.pin.end is None or now.file.end is None:
        return _skip("end")
    if now.file.end == now.pin.end:
        return _ok("end")
    if now.pin.ended is not None:
        return _fail("end", ("resume",), FAILED_PROMPT)
    return _fail("end", ("resume",), "somebody else has continued the session")


def workdir(now: Situation) -> Check:
    if now.pin is None:
        return _skip("workdir")
    there, here = now.pin.workdir, now.workdir
    moved = now.runtime.capabilities.cwd_scope == "any" and there.inode is not None
    same_place = moved and (there.device, there.inode) == (here.device, here.inode)
    if there.path == here.path or same_place:
        return _ok("workdir")
    return _fail("workdir", SESSION, f"the session belongs to {there.path}, this is {here.path}")


def runtime(now: Situation) -> Check:
    if now.pin is None:
        return _skip("runtime")
    if now.pin.runtime != now.runtime.identity:
        return _fail("runtime", SESSION, f"made by {now.pin.runtime}, this is {now.runtime.identity}")
    if now.failing_pair:
        return _fail("runtime", SESSION, now.failing_pair)
    updated = now.pin.version != now.runtime.version
    return _ok("runtime", f"updated from {now.pin.version} to {now.runtime.version}" if updated else "")


def model(now: Situation) -> Check:
    if now.pin is None:
        return _skip("model")
    if now.pin.model == now.model:
        return _ok("model")
    change = f"{now.pin.model or 'the default'} before, {now.model or 'the default'} now"
    if now.policy.on_model_change == "replay":
        return _fail("model", SESSION, f"{change} ([continuity] on_model_change)")
    return _ok("model", change)


def tools(now: Situation) -> Check:
    """The tools are at the beginning of the prompt: if they change, no cache serves what follows."""
    if now.pin is None or now.pin.offers is None or now.offers is None:
        return _skip("tools")
    if now.pin.offers == now.offers:
        return _ok("tools")
    used = now.pin.context.used
    cost = f"about {used:,} tokens" if used else "everything it holds"
    change = changed(now.pin.offers, now.offers)
    paid = f"the prompt cache cannot be used, so {cost} will be paid again"
    return _fail("tools", (), f"{change}: {paid}")


def account(now: Situation) -> Check:
    if now.pin is not None and None not in (now.pin.login, now.login) and now.pin.login != now.login:
        other = "another login is active than when the session was made"
        return _fail("account", (*SESSION, *CARRYING), other)
    if now.moved:
        return _fail("account", SESSION, now.moved)
    if not now.hidden:
        return _ok("account")
    behind = f"{count_in_words(now.hidden, 'message')} {OTHER_ACCOUNT}"
    are = "is" if now.hidden == 1 else "are"
    if now.pin is None and now.earlier == 0:
        return _fail("account", (*SESSION, *CARRYING), f"{behind} {are} not carried over")
    return _ok("account", f"{behind} {are} not shown to this one")


def host(now: Situation) -> Check:
    if now.pin is None:
        return _skip("host")
    if not now.host.has(now.pin):
        where = _elsewhere(now.pin.host, now.host.name)
        if now.file.kept:
            return _ok("host", f"{where}; Segue's copy will be restored here")
        return _fail("host", SESSION, where + _unrestored(now))
    return _ok("host")


def ttl(now: Situation) -> Check:
    if now.pin is None or now.policy.ttl_ms == 0 or not now.pin.succeeded_ms:
        return _skip("ttl")
    age = (now.asked_ms or now.now_ms) - now.pin.succeeded_ms
    if age <= now.policy.ttl_ms:
        return _ok("ttl")
    limit = now.policy.ttl_ms // 60_000
    return _fail("ttl", SESSION, f"last used {age // 60_000} min ago, the limit is {limit} min")


def outcome(now: Situation) -> Check:
    if now.pin is None:
        return _skip("outcome")
    last = now.pin.ended
    if last is None or last.kind not in CUT_SHORT:
        return _ok("outcome", f"the last attempt failed ({last.kind}), the session is valid" if last else "")
    if last.tools_run is None:
        return _ok("outcome", "the last turn was interrupted, and what it did is not known; nothing is cut")
    if last.tools_run:
        calls = count_in_words(last.tools_run, "tool call")
        done = f"the last turn was interrupted after {calls}; the session contains them"
        return _ok("outcome", done)
    if last.kind == "killed" and now.pin.asked:
        return _ok("outcome", "the last turn was interrupted while it waited for an answer")
    why = f"the last attempt was interrupted ({last.kind}) before it did anything"
    return _fail("outcome", ("resume",), why)


def poisoned(now: Situation) -> Check:
    if now.pin is None:
        return _skip("poisoned")
    if now.pin.poisoned is not None:
        return _fail("poisoned", ("resume",), now.pin.poisoned)
    return _ok("poisoned")


def retired(now: Situation) -> Check:
    """Fails after several failing resumes; at once if a refused session could not be replaced in its turn."""
    if now.pin is None:
        return _skip("retired")
    last = now.pin.ended
    if last is not None and last.kind == "session_rejected" and last.tools_run is None:
        return _fail("retired", SESSION, f"{now.label} refused it when it was last resumed")
    failed = f"{count_in_words(now.pin.failures, 'resume')} of it failed in a row"
    return (
        _fail("retired", SESSION, failed) if now.pin.failures >= now.policy.retire_after else _ok("retired")
    )


def pressure(now: Situation) -> Check:
    """A chat continues if the CLI compacts by itself. Otherwise cutting at the same place would not help."""
    used, window = (now.pin.context.used, now.pin.context.window) if now.pin is not None else (None, None)
    if used is None or not window:
        return _skip("pressure")
    share = f"{used / window:.0%} of {usage.tokens_in_words(window)}"
    if used / window < now.policy.context_threshold:
        return _ok("pressure", share)
    if now.flow:
        return _fail("pressure", (*SESSION, "graft", "replay"), f"{share}: the role hands over")
    if now.runtime.capabilities.compacts:
        return _fail("pressure", (), f"{share}: {now.label} will soon replace its history with a summary")
    return _fail("pressure", SESSION, f"{share}, and {now.label} does not make room by itself")


def file(now: Situation) -> Check:
    if now.pin is None or now.file.present is None or not now.host.has(now.pin):
        return _skip("file")
    if now.file.kept:
        return _ok("file", "gone from disk; Segue's copy will be restored")
    if not now.file.present:
        return _fail("file", SESSION, "the session is gone from disk" + _unrestored(now))
    return _ok("file")


def size(now: Situation) -> Check:
    if now.pin is None or not now.file.present:
        return _skip("size")
    limit = now.policy.max_session_bytes
    if now.file.size <= limit:
        return _ok("size", _megabytes(now.file.size))
    over = f"{_megabytes(now.file.size)}, the limit is {_megabytes(limit)} ([continuity] max_session_mb)"
    return _fail("size", (*SESSION, "graft"), over)


def fits(now: Situation) -> Check:
    """What a session has to catch up on, or the new message alone, may also be too long."""
    if now.earlier == 0:
        return _skip("fits")
    late_over = now.pin is not None and (_is_over(now, _late(now)) or bool(now.too_long & {*SESSION}))
    bars: tuple[Mode, ...] = (*(SESSION if late_over else ()), "replay")
    if _is_over(now, now.new_bytes + LEAST) or "recap" in now.too_long:
        can = now.runtime.capabilities
        takes = f"{now.label} accepts at most {can.prompt_limit or 0:,} {can.prompt_unit}"
        room = f"the new message leaves no room for what was said before ({takes})"
        return _fail("fits", (*bars, "recap"), room)
    if late_over:
        late = f"the messages that the session has not seen are {_beside_limit(now, _late(now))}"
        return _fail("fits", bars, late)
    why = _too_long(now)
    return _fail("fits", bars, why) if why else _ok("fits")


def busy(now: Situation) -> Check:
    if now.busy is None:
        return _ok("busy")
    return _fail("busy", (), f"{now.busy}; a turn now would wait for it")


def limits(now: Situation) -> Check:
    if not now.limits and "unknown" in (now.pays, now.paid):
        return _skip("limits")
    from segue.core.limits import limits_check  # many turns know nothing of limits

    return limits_check(now)


CHECKS: tuple[Callable[[Situation], Check], ...] = (
    *(blank, enabled, capability, fresh_session, pin, history, end, workdir, runtime, model, tools),
    *(account, host, ttl, outcome, poisoned, retired, pressure, file, size, fits, limits, busy),
)


def _elsewhere(there: str, here: str) -> str:
    if there == here:
        return f"the session was made on another host that is also called {there}, with its own SEGUE_HOME"
    return f"the session is on {there}, this is {here}"


def _unrestored(now: Situation) -> str:
    why = now.file.unrestored
    return f", and Segue's copy could not be restored ({why})" if why is not None else ""


def _late(now: Situation) -> int:
    """How many bytes would be sent in addition to the session."""
    text = now.cut.text
    return sum(each.size + FRAME_BYTES for each in text) if len(text) > 1 else now.new_bytes


def _is_over(now: Situation, size: int) -> bool:
    """Whether this size is certainly more than the CLI accepts: a character has up to four bytes."""
    can = now.runtime.capabilities
    each = 1 if can.prompt_unit == "bytes" else 4
    return can.prompt_limit is not None and size > can.prompt_limit * each


def _beside_limit(now: Situation, size: int) -> str:
    limit = _megabytes(now.runtime.capabilities.prompt_limit or 0)
    return f"{_megabytes(size)}; {now.label} accepts at most {limit}"


def _too_long(now: Situation) -> str:
    limit = now.runtime.capabilities.prompt_limit
    if limit is not None and (now.view_bytes > limit or "replay" in now.too_long):
        return f"the conversation is {_beside_limit(now, now.view_bytes)}"
    window = now.window or ASSUMED_WINDOW
    needed = tokens_of(now.view_bytes)
    if needed > window / 2:
        half = f"more than half of the window of {usage.tokens_in_words(window)}"
        return f"the conversation is about {usage.tokens_in_words(needed)} tokens, {half}"
    return ""


def _no_pin(now: Situation) -> str:
    who = f"{now.voice.agent} ({now.voice.role})" if now.voice.role else now.voice.agent
    if now.spoke:
        return f"{who} spoke here before, but its session could not be kept"
    if now.others:
        return f"{who} has no session in this conversation yet ({', '.join(now.others)} has)"
    return f"{who} has no session in this conversation yet"


def _version(now: Situation) -> str:
    return " ".join(filter(None, (now.label, now.runtime.version)))


def _megabytes(count: int) -> str:
    return f"{count / 1_048_576:.1f} MB" if count >= 104_858 else f"{count / 1024:.1f} KB"


def _ok(name: str, detail: str = "") -> Check:
    return Check(name, "pass", (), detail)


def _skip(name: str) -> Check:
    return Check(name, "skip")


def _fail(name: str, bars: tuple[Mode, ...], why: str) -> Check:
    return Check(name, "fail", bars, why)
