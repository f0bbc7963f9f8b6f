#!/bin/sh
# Debian's Alertmanager reads its templates and pages from /usr/share/prometheus/alertmanager and from nowhere else. It
# isn't installed, so it gets a view of its own of /usr/share, with the package's files in it, and no rights by that.
root=$(dirname "$0")/../programs/alertmanager/FOLDER
program=$root/usr/bin/prometheus-alertmanager
[ -e /usr/share/prometheus/alertmanager/default.tmpl ] && exec "$program" "$@"
# shellcheck disable=SC2016  # the inner shells expand these
view='cd -P "$0" && exec mount -t overlay -o ro,lowerdir=usr/share:/usr/share overlay /usr/share'
if ! unshare --user --map-root-user --mount sh -c "$view" "$root" 2>/dev/null; then
  echo "its templates must be in /usr/share, as this system restricts user namespaces to root:" \
    "sudo cp -r .stack/programs/alertmanager/FOLDER/usr/share/prometheus /usr/share/" >&2
  exit 1
fi
# shellcheck disable=SC2016
exec unshare --user --map-root-user --mount sh -c '
  sh -c "$1" "$0" || exit
  program=$2; shift 2
  exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all "$program" "$@"' "$root" "$view" "$program" "$@"
