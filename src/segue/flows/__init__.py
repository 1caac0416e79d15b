"""Durable flows: ordinary async functions whose steps are recorded, so that a kill loses nothing.

    @flow(version=1)
    async def tidy(flow: Flow, path: str) -> str:
        files = await flow.step("look", lambda: sorted(os.listdir(path)))
        turn = await flow.turn("work", flow.key("coder"), f"Tidy up {files}", agent="claude")
        if await flow.ask("keep", "Keep the changes?", choices=("yes", "no")) == "no":
            await flow.step("undo", undo)
        return turn.text

A flow can be entered again from the top at any time. A step that has completed returns what was recorded, so
the function goes on where it was.

The parts, in the order in which they are read best:

- ``definition``: ``@flow``, and how the code of a flow is found again.
- ``context``: ``Flow``, which the function is given: ``step``, ``turn``, ``ask``, ``wait``, ``parallel``,
  ``artefact``, ``round``, ``key``, ``spent``, ``end``.
- ``journal``: the record of the steps, their order, and their tries.
- ``turn_step``: a turn as a step; ``aftermath``: whether it is over, runs again, or waits.
- ``entry``: takes the flow's lease, runs the function, and records how that ended. ``halt``: how a flow is
  left before its end. ``tree``: one writer per working tree.
- ``ports``: what ``app`` provides: running turns.

``app/flow_driver.py`` enters flows and runs them to their end; ``Segue.flows`` is the way in.
"""
