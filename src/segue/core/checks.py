"""The checks: one small function each, with its reason in words and the modes it rules out.

Each looks at the whole situation and returns pass, fail or skip, independently of the others. They are shown
in this order. A reason has a code and values, too (``say``): the page tells it in other languages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from segue.core.outcome import CUT_SHORT
from segue.core.room import fits, pressure, size
from segue.core.situation import Situation
from segue.core.tools import changed, differences
from segue.core.turn import Check
from segue.core.usage import count_in_words
from segue.core.verdicts import CARRYING, NOTHING, SESSION, Said, failed, passed, say, skipped

FAILED_PROMPT = "a prompt that failed was left in the session"
OTHER_ACCOUNT = "said under another account or login"


def blank(now: Situation) -> Check:
    if now.blank is None:
        return passed("blank")
    return failed("blank", (*SESSION, *CARRYING), say(now.blank, "blank.asked"))


def enabled(now: Situation) -> Check:
    left_out = tuple(mode for mode in (*SESSION, "replay", "recap") if mode not in now.policy.modes)
    if not now.policy.enabled:
        bars = (*SESSION, "graft", *(mode for mode in left_out if mode not in SESSION))
        off = "[continuity] enabled is false: every turn is a replay"
        return failed("enabled", bars, say(off, "enabled.off"))
    if left_out:
        modes = ", ".join(left_out)
        why = say(f"[continuity] modes leaves out {modes}", "enabled.modes", modes=modes)
        return failed("enabled", left_out, why)
    return passed("enabled")


def capability(now: Situation) -> Check:
    can, name = now.runtime.capabilities, _version(now)
    if not can.resume:
        cannot = say(f"{name} cannot resume a session", "capability.no_resume", agent=name)
        return failed("capability", SESSION, cannot)
    if "resume" in now.switched_off:
        why = now.switched_off["resume"]
        does_not = say(f"{name} does not resume: {why}", "capability.resume_off", agent=name, why=why)
        return failed("capability", SESSION, does_not)
    if "branch" in now.switched_off:
        why = now.switched_off["branch"]
        text = f"{name} does not continue from an earlier point: {why}"
        return failed("capability", ("branch",), say(text, "capability.branch_off", agent=name, why=why))
    if not can.branch:
        text = f"{name} cannot continue from an earlier point of a session"
        return failed("capability", ("branch",), say(text, "capability.no_branch", agent=name))
    return passed("capability")


def fresh_session(now: Situation) -> Check:
    if now.fresh_session:
        asked = say("a new session was asked for", "fresh_session.asked")
        return failed("fresh_session", (*SESSION, "graft"), asked)
    return passed("fresh_session")


def pin(now: Situation) -> Check:
    if now.pin is None:
        return failed("pin", SESSION, _no_pin(now))
    if now.lent:
        text = f"the session is that of the {now.lent}; this role gets a fork of it"
        return failed("pin", ("resume",), say(text, "pin.lent", role=now.lent))
    if now.pin.foreign is not None:
        whose = f"the session belongs to the conversation {now.pin.foreign}, which this one was forked from"
        return failed("pin", ("resume",), say(whose, "pin.forked", conversation=now.pin.foreign))
    return passed("pin")


def history(now: Situation) -> Check:
    if now.pin is None:
        return skipped("history")
    if now.cut.whole:
        held = now.cut.kept
        late = max(len(now.cut.text) - 1, 0)
        holds = say(f"the session holds {count_in_words(held, 'message')}", "history.holds", count=held)
        return passed(
            "history", holds + (say(f", {late} to catch up", "history.late", count=late) if late else NOTHING)
        )
    if now.cut.anchor is None:
        none = say("the session holds no message that is still valid", "history.none")
        return failed("history", SESSION, now.broken or none)
    why = now.broken or say("it is not known where its last answer ends", "history.unknown")
    before = say("; the session is valid up to the point before", "history.before")
    return failed("history", ("resume",), why + before)


def end(now: Situation) -> Check:
    if now.pin is None or now.pin.end is None or now.file.end is None:
        return skipped("end")
    if now.file.end == now.pin.end:
        return passed("end")
    if now.pin.ended is not None:
        return failed("end", ("resume",), say(FAILED_PROMPT, "end.failed_prompt"))
    return failed("end", ("resume",), say("somebody else has continued the session", "end.continued"))


def workdir(now: Situation) -> Check:
    if now.pin is None:
        return skipped("workdir")
    there, here = now.pin.workdir, now.workdir
    moved = now.runtime.capabilities.cwd_scope == "any" and there.inode is not None
    same_place = moved and (there.device, there.inode) == (here.device, here.inode)
    if there.path == here.path or same_place:
        return passed("workdir")
    text = f"the session belongs to {there.path}, this is {here.path}"
    return failed("workdir", SESSION, say(text, "workdir.other", there=there.path, here=here.path))


def runtime(now: Situation) -> Check:
    if now.pin is None:
        return skipped("runtime")
    made, here = now.pin.runtime, now.runtime.identity
    if made != here:
        text = f"made by {made}, this is {here}"
        return failed("runtime", SESSION, say(text, "runtime.other", there=made, here=here))
    if now.failing_pair:
        return failed("runtime", SESSION, say(now.failing_pair, "runtime.pair", why=now.failing_pair))
    before, version = now.pin.version, now.runtime.version
    if before == version:
        return passed("runtime")
    updated = say(
        f"updated from {before} to {version}", "runtime.updated", before=before or "?", now=version or "?"
    )
    return passed("runtime", updated)


def model(now: Situation) -> Check:
    if now.pin is None:
        return skipped("model")
    before, chosen = now.pin.model or "", now.model or ""
    if before == chosen:
        return passed("model")
    text = f"{before or 'the default'} before, {chosen or 'the default'} now"
    change = say(text, "model.changed", before=before, now=chosen)
    if now.policy.on_model_change == "replay":
        return failed("model", SESSION, change + say(" ([continuity] on_model_change)", "model.policy"))
    return passed("model", change)


def tools(now: Situation) -> Check:
    """The tools are at the beginning of the prompt: if they change, no cache serves what follows."""
    if now.pin is None or now.pin.offers is None or now.offers is None:
        return skipped("tools")
    if now.pin.offers == now.offers:
        return passed("tools")
    used = now.pin.context.used
    cost = f"about {used:,} tokens" if used else "everything it holds"
    paid = f": the prompt cache cannot be used, so {cost} will be paid again"
    lost = say(paid, "tools.paid", tokens=used) if used else say(paid, "tools.all_paid")
    change = tools_changed(now.pin.offers, now.offers)
    return failed("tools", (), change + lost)


def tools_changed(before: Iterable[str], now: Iterable[str]) -> Said:
    return say(changed(before, now), "tools.changed", tools=differences(before, now, "+ ", "− "))


def account(now: Situation) -> Check:
    if now.pin is not None and None not in (now.pin.login, now.login) and now.pin.login != now.login:
        other = say("another login is active than when the session was made", "account.login")
        return failed("account", (*SESSION, *CARRYING), other)
    if now.moved is not None:
        return failed("account", SESSION, now.moved)
    if not now.hidden:
        return passed("account")
    behind = f"{count_in_words(now.hidden, 'message')} {OTHER_ACCOUNT}"
    are = "is" if now.hidden == 1 else "are"
    if now.pin is None and now.earlier == 0:
        left = say(f"{behind} {are} not carried over", "account.left", count=now.hidden)
        return failed("account", (*SESSION, *CARRYING), left)
    return passed("account", say(f"{behind} {are} not shown to this one", "account.hidden", count=now.hidden))


def host(now: Situation) -> Check:
    if now.pin is None:
        return skipped("host")
    if not now.host.has(now.pin):
        where = _elsewhere(now.pin.host, now.host.name)
        if now.file.kept:
            return passed("host", where + say("; Segue's copy will be restored here", "host.kept"))
        return failed("host", SESSION, where + _unrestored(now))
    return passed("host")


def ttl(now: Situation) -> Check:
    if now.pin is None or now.policy.ttl_ms == 0 or not now.pin.succeeded_ms:
        return skipped("ttl")
    age = (now.asked_ms or now.now_ms) - now.pin.succeeded_ms
    if age <= now.policy.ttl_ms:
        return passed("ttl")
    used, limit = age // 60_000, now.policy.ttl_ms // 60_000
    text = f"last used {used} min ago, the limit is {limit} min"
    return failed("ttl", SESSION, say(text, "ttl.old", minutes=used, limit=limit))


def outcome(now: Situation) -> Check:
    if now.pin is None:
        return skipped("outcome")
    last = now.pin.ended
    if last is None:
        return passed("outcome")
    if last.kind not in CUT_SHORT:
        text = f"the last attempt failed ({last.kind}), the session is valid"
        return passed("outcome", say(text, "outcome.failed", failure=last.kind))
    if last.tools_run is None:
        text = "the last turn was interrupted, and what it did is not known; nothing is cut"
        return passed("outcome", say(text, "outcome.unknown"))
    if last.tools_run:
        calls = count_in_words(last.tools_run, "tool call")
        done = f"the last turn was interrupted after {calls}; the session contains them"
        return passed("outcome", say(done, "outcome.tools", count=last.tools_run))
    if last.kind == "killed" and now.pin.asked:
        text = "the last turn was interrupted while it waited for an answer"
        return passed("outcome", say(text, "outcome.asked"))
    why = f"the last attempt was interrupted ({last.kind}) before it did anything"
    return failed("outcome", ("resume",), say(why, "outcome.nothing", failure=last.kind))


def poisoned(now: Situation) -> Check:
    if now.pin is None:
        return skipped("poisoned")
    if now.pin.poisoned is not None:
        return failed(
            "poisoned", ("resume",), say(now.pin.poisoned, "poisoned.history", why=now.pin.poisoned)
        )
    return passed("poisoned")


def retired(now: Situation) -> Check:
    """Fails after several failing resumes; at once if a refused session could not be replaced in its turn."""
    if now.pin is None:
        return skipped("retired")
    last, count = now.pin.ended, now.pin.failures
    if last is not None and last.kind == "session_rejected" and last.tools_run is None:
        refused = say(f"{now.label} refused it when it was last resumed", "retired.refused", agent=now.label)
        return failed("retired", SESSION, refused)
    if count < now.policy.retire_after:
        return passed("retired")
    text = f"{count_in_words(count, 'resume')} of it failed in a row"
    return failed("retired", SESSION, say(text, "retired.failed", count=count))


def file(now: Situation) -> Check:
    if now.pin is None or now.file.present is None or not now.host.has(now.pin):
        return skipped("file")
    if now.file.kept:
        return passed("file", say("gone from disk; Segue's copy will be restored", "file.kept"))
    if not now.file.present:
        gone = say("the session is gone from disk", "file.gone")
        return failed("file", SESSION, gone + _unrestored(now))
    return passed("file")


def busy(now: Situation) -> Check:
    if now.busy is None:
        return passed("busy")
    return failed("busy", (), say(f"{now.busy}; a turn now would wait for it", "busy.waits"))


def limits(now: Situation) -> Check:
    if not now.limits and "unknown" in (now.pays, now.paid):
        return skipped("limits")
    from segue.core.limits import limits_check  # many turns know nothing of limits

    return limits_check(now)


CHECKS: tuple[Callable[[Situation], Check], ...] = (
    *(blank, enabled, capability, fresh_session, pin, history, end, workdir, runtime, model, tools),
    *(account, host, ttl, outcome, poisoned, retired, pressure, file, size, fits, limits, busy),
)


def _elsewhere(there: str, here: str) -> Said:
    if there == here:
        text = f"the session was made on another host that is also called {there}, with its own SEGUE_HOME"
        return say(text, "host.same_name", there=there)
    return say(f"the session is on {there}, this is {here}", "host.other", there=there, here=here)


def _unrestored(now: Situation) -> Said:
    why = now.file.unrestored
    if why is None:
        return NOTHING
    return say(f", and Segue's copy could not be restored ({why})", "file.unrestored", why=why)


def _no_pin(now: Situation) -> Said:
    who = f"{now.voice.agent} ({now.voice.role})" if now.voice.role else now.voice.agent
    if now.spoke:
        return say(f"{who} spoke here before, but its session could not be kept", "pin.lost", who=who)
    none = say(f"{who} has no session in this conversation yet", "pin.none", who=who)
    if now.others:
        others = ", ".join(now.others)
        return none + say(f" ({others} has)", "pin.others", who=others)
    return none


def _version(now: Situation) -> str:
    return " ".join(filter(None, (now.label, now.runtime.version)))
