#!/bin/sh
# The Debian packages that the tests need, installed where they are missing (root needed for that alone).
set -eu

missing=""
command -v ip >/dev/null 2>&1 || [ -x /usr/sbin/ip ] || [ -x /sbin/ip ] || missing="$missing iproute2"
command -v git >/dev/null 2>&1 || missing="$missing git"
command -v cc >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 ||
    command -v google-chrome >/dev/null 2>&1 || missing="$missing chromium chromium-headless-shell"
# Debian keeps the server's programs off the PATH.
command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 ||
    missing="$missing postgresql"
# Without a font for it, Chinese is boxes in the pictures of the page.
fc-list :lang=zh family 2>/dev/null | grep -q . || missing="$missing fonts-droid-fallback"
[ -z "$missing" ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "please install:$missing" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "as root, please run: apt-get install$missing" >&2
    exit 1
fi
apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null
