#!/bin/sh
# Installs virtscope's exporters on a Proxmox VE host, or removes them without a trace (docs/proxmox.md).
#
#     sh install-proxmox.sh [--yes] [--from FOLDER]               FOLDER is that of `make deb` or of a release; default: this file's
#     sh install-proxmox.sh [--yes] --from URL --sha256 CHECKSUM  CHECKSUM is that of URL/SHA256SUMS
#     sh install-proxmox.sh [--yes] --remove
#
# It prints what it will do, and asks. It opens no port: the exporters listen on 127.0.0.1. It changes no guest and no
# setting of Proxmox.
set -eu
umask 022

PACKAGES="virtscope-common kvm-exporter sched-exporter"
NODE_EXPORTER=prometheus-node-exporter
SYSTEM=/etc/systemd/system
NAMES=$SYSTEM/kvm-exporter.service.d/proxmox.conf
LOOPBACK=$SYSTEM/$NODE_EXPORTER.service.d/virtscope.conf
DISKS=$SYSTEM/virtscope-disks.service
STATE=/var/lib/virtscope-proxmox # what was installed, for --remove

from=$(dirname "$0") checksum='' remove='' yes=''

fail() {
  echo "error: $1" >&2
  exit 1
}

confirm() {
  [ -z "$yes" ] || return 0
  [ -t 0 ] || fail "there is no terminal to ask on; give --yes"
  printf 'Go on? [y/N] '
  read -r answer
  case $answer in [yY]*) ;; *) fail "nothing was changed" ;; esac
}

installed() {
  dpkg-query --show --showformat '${db:Status-Abbrev} ${Package}\n' | sed -n 's/^.i *//p' | sort -u
}

# Put SHA256SUMS and the packages into the folder $work, as they are in $from; $debs names the packages.
fetch() {
  case $from in
    *://*)
      [ -n "$checksum" ] || fail "--from URL needs --sha256, the checksum of $from/SHA256SUMS"
      wget --quiet --output-document "$work/SHA256SUMS" "$from/SHA256SUMS" || fail "no $from/SHA256SUMS"
      echo "$checksum  $work/SHA256SUMS" | sha256sum --check --status || fail "SHA256SUMS has another checksum"
      ;;
    *)
      cp "$from/SHA256SUMS" "$work" || fail "no $from/SHA256SUMS; \`make deb\` and \`make release\` write it"
      ;;
  esac
  debs=''
  for package in $PACKAGES; do
    file=$(sed -En "s|^[0-9a-f]{64}  ((apt/pool/)?${package}_[0-9A-Za-z.+~_-]*\.deb)\$|\1|p" "$work/SHA256SUMS")
    [ "$(echo "$file" | wc --words)" = 1 ] || fail "SHA256SUMS names not one file of $package: ${file:-none}"
    mkdir -p "$work/$(dirname "$file")"
    case $from in
      *://*) wget --quiet --output-document "$work/$file" "$from/$file" || fail "no $from/$file" ;;
      *) cp "$from/$file" "$work/$file" || fail "no $from/$file" ;;
    esac
    (cd "$work" && grep -F "  $file" SHA256SUMS | sha256sum --check --status) || fail "$file has another checksum"
    debs="$debs $work/$file"
  done
}

install_all() {
  version=$(pveversion 2>/dev/null) || fail "this is no Proxmox VE host: there is no pveversion"
  major=$(echo "$version" | sed -n 's|^pve-manager/\([0-9]*\)\..*|\1|p')
  [ "${major:-0}" -ge 8 ] || fail "it needs Proxmox VE 8 or newer; this is $version"
  loopback=$LOOPBACK
  # One that is there already keeps its settings.
  if [ ! -e "$LOOPBACK" ] && installed | grep -qx "$NODE_EXPORTER"; then loopback=''; fi
  cat <<END
This will, on $version:
  install  $PACKAGES $NODE_EXPORTER, and what they depend on
  write    $NAMES (the group www-data, which may read names in /etc/pve)
           ${loopback:-nothing for $NODE_EXPORTER, which is installed}${loopback:+ (listen on 127.0.0.1 only)}
           $DISKS (the kernel counts disk bytes of each guest)
           $STATE (what was installed)
  start    kvm-exporter, sched-exporter, $NODE_EXPORTER on 127.0.0.1:10297, 10298, 9100
Undo it with --remove.
END
  confirm
  work=$(mktemp --directory)
  trap 'rm -rf "$work"' EXIT
  chmod 755 "$work" # for apt's user
  fetch
  mkdir -p "$STATE" "$(dirname "$NAMES")"
  [ -n "$(getent passwd prometheus)" ] || touch "$STATE/user"
  cat >"$NAMES" <<END
[Service]
SupplementaryGroups=www-data
END
  if [ -n "$loopback" ]; then
    mkdir -p "$(dirname "$LOOPBACK")"
    cat >"$LOOPBACK" <<END
[Service]
ExecStart=
ExecStart=/usr/bin/$NODE_EXPORTER --web.listen-address=127.0.0.1:9100 \$ARGS
END
  fi
  cat >"$DISKS" <<END
# A member of qemu.slice with I/O accounting: for all members systemd then enables the cgroup controller io.
[Unit]
Description=Disk bytes of each guest

[Service]
Type=oneshot
ExecStart=/bin/true
RemainAfterExit=yes
Slice=qemu.slice
IOAccounting=yes

[Install]
WantedBy=multi-user.target
END
  installed >"$work/before"
  apt-get update --quiet=2 || echo "warning: apt-get update failed; going on with its last lists" >&2
  problem=''
  # shellcheck disable=SC2086  # a list
  DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends $debs "$NODE_EXPORTER" ||
    problem="apt-get failed; --remove undoes what was done"
  touch "$STATE/packages"
  installed | comm -13 "$work/before" - | sort -u - "$STATE/packages" -o "$STATE/packages"
  systemctl daemon-reload
  [ -z "$problem" ] || fail "$problem"
  systemctl enable --quiet --now virtscope-disks.service
  systemctl restart kvm-exporter
  echo "Done: curl http://127.0.0.1:10297/metrics"
}

remove_all() {
  [ -d "$STATE" ] || fail "there is nothing to remove: no $STATE"
  # These, and later what only they needed.
  purged=$(for package in $PACKAGES $NODE_EXPORTER; do grep -x "$package" "$STATE/packages" || true; done)
  cat <<END
This will purge, with packages and the user prometheus that came with them and nothing else needs:
$purged
and remove:
$NAMES
$LOOPBACK
$DISKS
$STATE
END
  confirm
  systemctl disable --quiet --now virtscope-disks.service
  # shellcheck disable=SC2086  # a list
  apt-get purge --yes --quiet=2 $purged
  # Also what others only recommend or suggest: it wasn't there before.
  unneeded=$(apt-get autoremove --simulate --option APT::AutoRemove::RecommendsImportant=0 \
    --option APT::AutoRemove::SuggestsImportant=0 |
    sed -n 's/^Remv \([^ :]*\).*/\1/p' | grep -Fxf "$STATE/packages" || true)
  # shellcheck disable=SC2086
  [ -z "$unneeded" ] || apt-get purge --yes --quiet=2 $unneeded
  # Debian's package leaves its user.
  if [ -e "$STATE/user" ] && getent passwd prometheus >/dev/null && ! installed | grep -q '^prometheus'; then
    userdel prometheus
  fi
  rm -rf "$NAMES" "$LOOPBACK" "$DISKS" "$STATE"
  rmdir "$(dirname "$NAMES")" "$(dirname "$LOOPBACK")" 2>/dev/null || true
  systemctl daemon-reload
  echo "Removed."
}

while [ $# -gt 0 ]; do
  case $1 in
    --from) from=${2:?a folder or URL} && shift ;;
    --sha256) checksum=${2:?a checksum} && shift ;;
    --remove) remove=1 ;;
    --yes) yes=1 ;;
    *) fail "unknown: $1. It takes [--yes] [--from FOLDER | --from URL --sha256 CHECKSUM | --remove]" ;;
  esac
  shift
done
[ "$(id -u)" = 0 ] || fail "run it as root"
if [ -n "$remove" ]; then remove_all; else install_all; fi
