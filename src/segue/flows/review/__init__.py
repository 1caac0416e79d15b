"""The review flow: a coder works, a reviewer judges, until it approves.

- ``verdict``: what the reviewer says, read from its answer. ``findings``: what it has found, over all rounds.
- ``prompts``: what each role is told. ``orders``: what the flow is started with.
- ``diff``: a look at the working tree. ``commands``: the checks that Segue runs.
- ``loop``: the flow itself. ``roles``: the turns of the coder, the reviewer and the coordinator.

The first four are values in, values out.
"""
