#!/bin/sh
# Debian's Prometheus 2 has its web pages beside it, later ones don't.
root=$(dirname "$0")/../programs/prometheus/FOLDER
pages=$root/usr/share/prometheus/web
[ -d "$pages" ] && set -- --web.local-assets="$pages" "$@"
exec "$root/usr/bin/prometheus" "$@"
