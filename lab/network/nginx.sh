# nginx in a guest, in the foreground, with a folder of its own that goes when it does.
#
#   sh -c "$(cat nginx.sh)" nginx CONFIG SIZE...
#
# CONFIG: the text of nginx.conf, whose /srv is that folder. SIZE: of each file to serve, in bytes, which is its name too.
config=$1
shift
folder=$(mktemp -d /tmp/virtscope-web.XXXXXX) || exit
trap 'rm -rf "$folder"' EXIT
trap 'trap "" HUP INT TERM PIPE; exit 1' HUP INT TERM PIPE
mkdir "$folder/state" "$folder/site" || exit
for size; do head -c "$size" /dev/zero >"$folder/site/$size" || exit; done
printf '%s\n' "$config" | sed "s,/srv,$folder,g" >"$folder/nginx.conf" || exit
chmod -R a+rX "$folder"
PATH=$PATH:/usr/sbin:/sbin
command -v nginx >/dev/null || { echo "there is no nginx: install it, it needn't run"; exit 1; }
nginx -c "$folder/nginx.conf"
