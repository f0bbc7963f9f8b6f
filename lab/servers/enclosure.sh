# Arguments: the user's number, the packages' folder, then mode, source and name of each folder below /srv, then -- and
# the command.
set -e
user=$1 root=$2; shift 2
mount --bind -o ro,nosuid,nodev "$root" "$root"
mount -t tmpfs -o mode=1777,nosuid,nodev,size=64m tmpfs "$root/tmp"
mount -t tmpfs -o mode=755,nosuid,size=64k tmpfs "$root/dev"
for device in null urandom; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
while [ "$1" != -- ]; do mount --bind -o "$1,nosuid,nodev" "$2" "$root/srv/$3"; shift 3; done
shift
exec setpriv --no-new-privs --bounding-set=-all,+sys_chroot,+setuid,+setgid --inh-caps=-all \
  chroot --userspec="$user:$user" --groups= "$root" "$@"
