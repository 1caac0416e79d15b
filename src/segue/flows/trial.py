"""``trial``: a flow to try flows with. Some turns with an agent, and a question if wanted."""

from __future__ import annotations

import json

from segue.flows.context import Flow, FlowEnd
from segue.flows.definition import flow


@flow(version=1)
async def trial(
    flow: Flow, turns: int = 3, agent: str = "rehearsal", text: str = "remember number {n}", ask: bool = False
) -> FlowEnd:
    """``text``: what is said in each turn; ``{n}`` is its number. ``ask``: ask before the last turn."""
    answers = []
    for n in range(1, turns + 1):
        await flow.round(n)
        if ask and n == turns:
            await flow.ask("go-on", f"{n - 1} of {turns} turns are done. Go on?", choices=("yes", "no"))
        said = text.replace("{n}", str(n))
        turn = await flow.turn(f"turn-{n}", flow.key("trial"), said, agent=agent, role="trial")
        answers.append(turn.text)
        if turn.failure is not None:
            return flow.end("failed", answers, failed=True)
    await flow.artefact("answers", json.dumps(answers), "application/json")
    return flow.end("done", answers)
