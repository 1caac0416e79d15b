"""Agents and settings: what the daemon finds, what is set, and how the page looks and speaks."""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon, finish, start
from tests.page.conftest import picture
from tests.page.test_lineage import serious

HOSTILE = '<img src=x onerror="document.title=1">\x1b[31m\u202eevil'
CONFIG = """
[defaults]
agent = "rehearsal"
budget = 1.5
timeout = 600

[continuity]
context_threshold = 0.75

[accounts.work]
agent = "claude"
home = "~/.claude-work"
env = { ANTHROPIC_BASE_URL = "http://127.0.0.1:1/very-secret-value" }
pass_env = ["ANTHROPIC_API_KEY"]

[agents.mytool]
command = ["python3", "-c", "print(1)", "{prompt}"]
label = "My tool"
"""


@pytest.fixture
def setup(page: Page, daemon: Daemon) -> Page:
    page.goto(f"{daemon.url}/#/setup")
    expect(page.locator("#doctor .findings li").first).to_be_visible()
    return page


def answers(page: Page, path: str, body: Any) -> None:
    def answer(route: Route) -> None:
        route.fulfill(json=body)

    page.route(f"**/api/v1{path}", answer)


def test_it_says_what_doctor_says(setup: Page, daemon: Daemon) -> None:
    said = daemon.ask("GET", "/api/v1/doctor").json
    texts = setup.locator("#doctor .findings").all_text_contents()
    for each in said:
        assert any(each["what"] in text and each["fix"] in text for text in texts), each
    levels = setup.locator("#doctor > .findings > li").evaluate_all(
        "all => all.map((each) => each.className)"
    )
    assert levels == sorted(levels, key=["bad", "warn", "note"].index)  # what needs to be done comes first
    fine = sum(each["level"] == "ok" for each in said)
    expect(setup.locator("#doctor details summary")).to_have_text(f"{fine} things are fine")
    picture(setup, "setup-light")


DOCTOR = {
    "es": (
        "el agente de ensayo solo ejecuta comandos con --permission edit o full, y sin sandbox",
        "Codex no está instalado (en PATH no hay codex)",
        "hasta entonces, --agent rehearsal funciona sin ninguno",
    ),
    "zh": (
        "rehearsal 代理只有在 --permission edit 或 full 时才运行命令，而且没有沙箱",
        "未安装 Codex（PATH 中没有 codex）",
        "在此之前，--agent rehearsal 无需安装即可使用",
    ),
}


@pytest.mark.parametrize("language", DOCTOR)
def test_doctor_speaks_the_language_of_the_page(setup: Page, language: str) -> None:
    setup.evaluate("language => localStorage.setItem('segue.language', language)", language)
    setup.reload()
    note, missing, fix = DOCTOR[language]
    found = setup.locator("#doctor > .findings > li")
    expect(found.filter(has_text=note)).to_be_visible()
    expect(found.filter(has_text=missing)).to_be_visible()
    expect(found.locator(".fix").filter(has_text=fix)).to_be_visible()


@pytest.mark.parametrize("clauses", [{}, {"what_clauses": [{"code": "doctor.of_a_later_version"}]}])
def test_what_the_page_cannot_translate_stays_as_it_is(setup: Page, clauses: dict[str, Any]) -> None:
    full = {"check": "disk", "level": "bad", "what": "the disk is full", "fix": "make room", **clauses}
    answers(setup, "/doctor", [full])
    setup.evaluate("localStorage.setItem('segue.language', 'es')")
    setup.reload()
    expect(setup.locator("#doctor .findings li.bad")).to_contain_text("the disk is full→ make room")


def test_it_looks_again_when_asked(setup: Page) -> None:
    bad = [{"check": "disk", "level": "bad", "what": "the disk is full", "fix": "make room"}]
    answers(setup, "/doctor", bad)
    setup.get_by_role("button", name="Look again").click()
    expect(setup.locator("#doctor .findings li.bad")).to_contain_text("the disk is full")
    expect(setup.locator("#doctor .findings li.bad .fix")).to_have_text("→ make room")
    expect(setup.locator("#doctor h2")).to_contain_text("1 problem")


def test_it_looks_again_when_somebody_comes_back_to_it(setup: Page) -> None:
    bad = [{"check": "disk", "level": "bad", "what": "the disk is full", "fix": "make room"}]
    expect(setup.locator("#doctor h2 [role=status]")).not_to_have_text("Looking…")
    answers(setup, "/doctor", bad)
    setup.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(setup.locator("#doctor .findings li.bad")).to_contain_text("the disk is full", timeout=10_000)


def test_it_looks_again_when_the_daemon_comes_back(page: Page, segue: Program, daemon: Daemon) -> None:
    page.expected_errors = ("ERR_", "Failed to load")  # type: ignore[attr-defined]
    page.goto(f"{daemon.url}/#/setup")
    expect(page.locator("#daemon")).to_contain_text(str(daemon.process.pid))
    page.route("**/api/v1/status", lambda route: route.abort())  # it tries again, and is not refused
    daemon.end(signal.SIGTERM)
    expect(page.locator(".banner")).to_be_visible()
    segue.config(CONFIG)
    again = start(segue, "--port", str(daemon.port))
    try:
        other = page.context.new_page()
        other.goto(again.link)  # logged in again, in another tab
        other.close()
        page.unroute("**/api/v1/status")
        expect(page.locator("#daemon")).to_contain_text(str(again.process.pid), timeout=30_000)
        expect(page.locator("#accounts table")).to_contain_text("work", timeout=30_000)
    finally:
        finish(again.process)


def test_agents_with_what_they_can_do(setup: Page) -> None:
    agent = setup.locator("#agents .agent", has_text="Rehearsal")
    expect(agent).to_contain_text("built in")
    can = agent.get_by_role("list", name="What it can do")
    expect(can.locator("li", has_text="resume sessions")).to_have_text(re.compile("^yes: "))
    expect(can.locator("li", has_text="limit money")).to_have_text(re.compile("^no: "))
    signs = can.locator("li").evaluate_all(
        "all => all.map((each) => getComputedStyle(each, '::before').content)"
    )
    assert {'"✓"', '"–"'} == set(signs)
    assert can.locator("li").first.evaluate("node => getComputedStyle(node, '::before').textIndent") == "0px"


def test_a_missing_agent_can_be_added(setup: Page, daemon: Daemon) -> None:
    missing = [each for each in daemon.ask("GET", "/api/v1/agents").json if each["path"] is None]
    for each in missing:
        row = setup.locator("#add .installs li", has_text=each["label"])
        command = each["problem"].partition("install it with: ")[2]
        expect(row.locator("code")).to_have_text(command)
        expect(row.get_by_role("button")).to_have_attribute(
            "aria-label", f"Copy the command that installs {each['label']}"
        )
    setup.get_by_text("An agent that Segue does not know").click()
    expect(setup.locator("#add pre")).to_contain_text("[agents.mytool]")


def test_an_agent_with_a_problem_says_so(setup: Page) -> None:
    broken = {
        "agent": "codex", "label": "Codex", "path": "/usr/bin/codex", "version": None, "distribution": None,
        "capabilities": None, "accounts": ["work"], "problem": "it does not start: exit 1",
        "models": ["gpt-5-codex"],
    }  # fmt: skip
    answers(setup, "/agents", [broken])
    setup.get_by_role("button", name="Look again").click()
    expect(setup.locator("#agents .agent")).to_have_count(1)
    expect(setup.locator("#agents .agent")).to_contain_text("it does not start: exit 1")
    expect(setup.locator("#agents .agent")).to_contain_text("Accounts: work")
    expect(setup.locator("#agents .agent")).to_contain_text("gpt-5-codex")


@pytest.fixture
def configured(page: Page, segue: Program, daemon: Daemon) -> Page:
    segue.config(CONFIG)
    page.goto(f"{daemon.url}/#/setup")
    expect(page.locator("#settings")).to_be_visible()
    return page


def test_accounts_show_names_and_no_values(configured: Page, daemon: Daemon) -> None:
    table = configured.locator("#accounts table")
    if not daemon.ask("GET", "/api/v1/accounts").json:
        pytest.fail("the daemon does not read its configuration anew")
    expect(table).to_contain_text("work")
    expect(table).to_contain_text("ANTHROPIC_BASE_URL")
    expect(table).to_contain_text("ANTHROPIC_API_KEY")
    assert "very-secret-value" not in configured.content()


def test_accounts_show_their_limits_and_what_pays(page: Page, segue: Program, daemon: Daemon) -> None:
    home = segue.home.parent / "work"
    home.mkdir()
    (home / "login.json").write_text('{"account": "ann", "pays": "subscription"}')
    idle = f'[accounts.idle]\nagent = "rehearsal"\nhome = "{home}-not"\n'
    idle = f'[defaults]\nagent = "rehearsal"\n{idle}'
    segue.config(f'{idle}[accounts.work]\nagent = "rehearsal"\nhome = "{home}"\n')
    segue("run", "k", "[[limit 5h 0.82 3600]][[say hi]]", "--account", "work")
    page.goto(f"{daemon.url}/#/setup")
    rows = page.locator("#accounts tbody tr")
    expect(rows.nth(1)).to_contain_text("subscription · 5-hour limit: 82 % used, resets at ")
    expect(rows.nth(0).locator("td").last).to_have_text("–")


def test_without_accounts_it_teaches(setup: Page) -> None:
    setup.get_by_text("No accounts: each agent uses its own login").click()
    expect(setup.locator("#accounts pre")).to_contain_text("[accounts.work]")


def test_settings_in_words_with_their_names(configured: Page) -> None:
    def value(group: str, key: str) -> str:
        row = (
            configured.locator(".group", has_text=f"[{group}]")
            .locator(".rows > div")
            .filter(has=configured.locator(f"dt code:text-is('{key}')"))
        )
        return row.locator("dd").inner_text()

    assert value("defaults", "budget") == "$1.50"
    assert value("defaults", "timeout") == "10 min"
    assert value("defaults", "model") == "not set"
    assert value("defaults", "deny_tools") == "none"
    assert value("continuity", "context_threshold") == "75 %"
    assert value("continuity", "enabled") == "yes"
    assert value("continuity", "ttl_minutes") == "never"
    assert value("continuity", "max_session_mb") == "50 MB"
    assert value("keep", "days") == "90 days"
    assert value("daemon", "port") == "a free one"
    expect(configured.locator(".group", has_text="Files and store")).to_contain_text("config.toml")
    picture(configured, "setup-configured-light")


def test_the_daemon_and_what_it_runs(setup: Page, daemon: Daemon) -> None:
    facts = setup.locator("#daemon")
    expect(facts).to_contain_text(str(daemon.process.pid))
    expect(facts).to_contain_text(daemon.url)
    expect(facts).to_contain_text(re.compile(r"memory\s*\d+ MB"))
    expect(facts).to_contain_text("none")
    run = daemon.ask(
        "POST",
        "/api/v1/conversations/slow/runs",
        {"message": "[[slow 30 30]] [[say well]]", "agent": "rehearsal"},
    )
    expect(facts).to_contain_text(re.compile("running 1"))
    daemon.ask("POST", f"/api/v1/runs/{run.json['run']}/cancel")
    expect(facts).to_contain_text("none")


def test_three_languages(setup: Page, daemon: Daemon) -> None:
    for name, title, builtin, code in (
        ("Español", "Agentes y ajustes", "integrado", "es"),
        ("中文", "代理与设置", "内置", "zh"),
        ("English", "Agents and settings", "built in", "en"),
    ):
        setup.get_by_role("button", name=name).click()
        expect(setup.locator("h1")).to_have_text(title)
        expect(setup.locator("#agents .agent", has_text="Rehearsal")).to_contain_text(builtin)
        assert setup.evaluate("document.documentElement.lang") == code
        expect(setup.get_by_role("button", name=name)).to_have_attribute("aria-pressed", "true")
        picture(setup, f"setup-{code}")
    setup.get_by_role("button", name="Español").click()
    expect(setup.locator("h1")).to_have_text("Agentes y ajustes")
    setup.reload()
    expect(setup.locator("h1")).to_have_text("Agentes y ajustes")  # it is remembered
    setup.goto(f"{daemon.url}/#/conversations/")
    claude = setup.locator(".empty tr", has_text="Claude")
    expect(claude).to_contain_text("no instalado: cómo instalarlo")
    claude.get_by_role("link").click()
    setup.wait_for_url("**/#/setup")


def test_themes(setup: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    setup.get_by_role("button", name="Dark", exact=True).click()
    assert setup.evaluate(ground) == "rgb(22, 23, 26)"
    picture(setup, "setup-dark")
    setup.reload()
    expect(setup.get_by_role("button", name="Dark", exact=True)).to_have_attribute("aria-pressed", "true")
    assert setup.evaluate(ground) == "rgb(22, 23, 26)"
    setup.get_by_role("button", name="System", exact=True).click()
    assert setup.evaluate(ground) == "rgb(255, 255, 255)"


def test_notifications_are_asked_for(setup: Page) -> None:
    setup.evaluate(
        """() => {
          window.Notification.requestPermission = async () => { window.asked = true; return "granted"; };
        }"""
    )
    state = setup.evaluate("Notification.permission")
    if state == "default":
        setup.locator("#page-setup").get_by_role("button", name="Turn on").click()
        expect(setup.locator("#page-setup")).to_contain_text("On")
        assert setup.evaluate("window.asked") is True
    else:
        expect(setup.locator("#page-setup")).to_contain_text("The browser blocks them")
    expect(setup.locator("#page-setup")).to_contain_text("when an agent or a flow asks a question")


def test_hostile_findings_are_text(setup: Page) -> None:
    evil = HOSTILE + "y" * 5_000_000
    answers(setup, "/doctor", [{"check": HOSTILE, "level": "bad", "what": HOSTILE, "fix": HOSTILE}])
    answers(
        setup,
        "/accounts",
        [
            {"name": HOSTILE, "agent": HOSTILE, "home": HOSTILE, "env": [evil], "pass_env": [HOSTILE]}
            | {"limits": [{"window": f"5h_{HOSTILE}", "used": 1, "resets_at": None}], "pays": "unknown"}
        ],
    )
    setup.get_by_role("button", name="Look again").click()
    expect(setup.locator("#doctor li.bad")).to_contain_text("<img src=x")
    shown = setup.locator("main").inner_text()
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert len(shown) < 50_000
    assert setup.locator("img").count() == 0
    assert setup.title() != "1"


def test_the_keyboard_reaches_everything(setup: Page) -> None:
    assert setup.locator("main :is(button, summary, a)").evaluate_all(
        "all => all.every((each) => each.tabIndex >= 0)"
    )
    setup.keyboard.press("1")
    expect(setup).to_have_url(re.compile("#/conversations$"))
    setup.keyboard.press("5")
    expect(setup.locator("h1")).to_have_text("Agents and settings")


def test_at_the_width_of_a_phone(configured: Page) -> None:
    configured.set_viewport_size({"width": 390, "height": 844})
    assert configured.locator(".page").evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    picture(configured, "setup-phone")
    configured.locator("#settings").scroll_into_view_if_needed()
    picture(configured, "setup-phone-settings")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(configured: Page, scheme: str) -> None:
    configured.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    expect(configured.locator("#accounts table")).to_be_visible()
    configured.locator("main details").evaluate_all("all => all.forEach((each) => { each.open = true; })")
    assert serious(configured) == []
    configured.set_viewport_size({"width": 390, "height": 844})
    assert serious(configured) == []
