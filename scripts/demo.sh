#!/bin/sh
# A conversation on the built-in agent: no account, no network, nothing of yours is touched.
set -eu

PATH=$(cd "$1" && pwd):$PATH
license=$(cd "$(dirname "$0")/.." && pwd)/LICENSE
SEGUE_HOME=$(mktemp -d "${TMPDIR:-/tmp}/segue-demo.XXXXXX")
REHEARSAL_HOME=$SEGUE_HOME/agent
SEGUE_DEFAULTS_AGENT=rehearsal
export PATH SEGUE_HOME REHEARSAL_HOME SEGUE_DEFAULTS_AGENT
trap 'rm -rf "$SEGUE_HOME"' EXIT

# What the built-in agent charges, so that costs can be foreseen.
cat >"$SEGUE_HOME/config.toml" <<'PRICES'
[prices."rehearsal-*"]
input = 1.0
output = 5.0
cache_read = 0.1
cache_write = 1.25
PRICES

say() {
    printf '\n\033[2m%s\033[0m\n' "$1"
}

piped=
show() {
    printf '\033[1m$ segue'
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9~-]*) printf ' "%s"' "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '%s\033[0m\n' "$piped"
    segue "$@"
}

say 'A new key starts a conversation. Piped input is added to the message: here, 11 KB of text.'
piped=' < LICENSE'
show run hello "remember the number 456" <"$license"
piped=
exec </dev/null

say 'The second turn needs only the key. It resumes the agent'\''s session, so nothing is sent twice.'
show run hello "what number?"

say 'What would the next turn do, why, and what would the alternatives cost?'
show why hello "and what else?"

say 'Edit a message. The session is still valid up to there, so the agent continues from that point, in a branch.'
show edit hello "#3" "remember the number 789"
show run hello "what numbers?"

say 'The log shows each message, how its answer was made, and what it cost.'
show log hello

say 'If the session is lost, Segue restores it from its copy, and says so.'
rm -f "$REHEARSAL_HOME"/sessions/*
show run hello "what numbers were they?"

printf '\nNext: .venv/bin/segue doctor, and README.md.\n'
