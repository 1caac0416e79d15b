#!/bin/sh
# Two turns of one conversation on the built-in agent: no account, no network, nothing of yours is touched.
set -eu

segue=$1/segue
python=$1/python
SEGUE_HOME=$(mktemp -d "${TMPDIR:-/tmp}/segue-demo.XXXXXX")
REHEARSAL_HOME=$SEGUE_HOME/agent
export SEGUE_HOME REHEARSAL_HOME
trap 'rm -rf "$SEGUE_HOME"' EXIT

show() {
    printf '\n\033[1m$ %s\033[0m\n' "$1"
}

fields() {
    "$python" -c '
import json, sys
turn = json.load(sys.stdin)
print(turn["text"])
usage = turn["usage"]
print("  mode", turn["mode"], "·", turn["why"][0]["detail"])
print("  session", turn["session_id"], "· cost $%.6f" % turn["cost_usd"])
print("  tokens: %(input)s new, %(cache_read)s from cache, %(cache_write)s into it, %(output)s out" % usage)
open(sys.argv[1], "w").write(turn["session_id"])
' "$1"
}

show 'segue run hello "remember the number 456" --agent rehearsal --json'
"$segue" run hello "remember the number 456" --agent rehearsal --json --quiet | fields "$SEGUE_HOME/first"

show 'segue run hello "what number?" --agent rehearsal --json'
"$segue" run hello "what number?" --agent rehearsal --json --quiet | fields "$SEGUE_HOME/second"

show 'the agent itself, resuming the session of the first turn: "what number?"'
printf 'what number?' | "$python" -m segue.rehearsal.agent --resume "$(cat "$SEGUE_HOME/first")" | "$python" -c '
import json, sys
end = [json.loads(line) for line in sys.stdin][-1]
usage = end["usage"]
print(end["text"])
print("  tokens: %(input)s new, %(cache_read)s from cache, %(cache_write)s into it, %(output)s out" % usage)
'

printf '\nNext: .venv/bin/segue doctor, and README.md.\n'
