# lmbench's programs one after the other, with the arguments that its own script (`lmbench`) gives them, of each list
# only the largest size; prints a results file, which getsummary can read too.
#
#   sh -c "$(cat lmbench.sh)" lmbench PROGRAMS LIBRARIES MEGABYTES MICROSECONDS FOLDER
#
# PROGRAMS: the folder that has them. LIBRARIES: where those that need libtirpc find it; empty if it is installed.
# MEGABYTES: of files and memory, as lmbench's MB. MICROSECONDS: the shortest interval that is timed, as its ENOUGH.
# FOLDER: for its files, made and removed.
# A program that fails leaves a line in brackets, as lmbench's own remarks are, and no value.
programs=$1 libraries=$2 mb=$3 folder=$5
export ENOUGH="$4" TIMING_O=0 LOOP_O=0 LC_ALL=C
half=$((mb / 2))
umask 022
rm -rf "$folder"
mkdir "$folder" || exit # fails, and so doesn't write, where somebody else has put something
# What lat_proc executes: Debian's looks there, lmbench's own in /tmp. Without it, lat_proc times an exec that fails.
hello=/tmp/hello made=
if grep -q /var/tmp/lmbench/hello "$programs/lat_proc"; then
	hello=/var/tmp/lmbench/hello
	mkdir /var/tmp/lmbench 2>/dev/null && made=/var/tmp/lmbench
	[ -O /var/tmp/lmbench ] || { echo "/var/tmp/lmbench belongs to somebody else: remove it"; exit 1; }
fi
stop() {
	for server in lat_udp lat_tcp lat_connect bw_tcp; do
		LD_LIBRARY_PATH=$libraries timeout 10 "$programs/$server" -S localhost
	done >/dev/null 2>&1
	rm -rf "$folder" $made
}
trap stop EXIT
trap 'trap "" HUP INT TERM PIPE; exit 1' HUP INT TERM PIPE
if ! cmp -s "$programs/hello" "$hello"; then
	# noclobber: never through a link, nor over what somebody else needs
	(set -C; cat "$programs/hello" >"$hello") && chmod 755 "$hello" || { echo "$hello is not lmbench's: remove it"; exit 1; }
	made="$made $hello"
fi

one() { # PROGRAM ARGUMENT...
	name=$1
	shift
	if said=$({ "$programs/$name" "$@"; } 2>&1 </dev/null); then # in braces: also what the shell says of a crash
		printf '%s\n' "$said"
	else
		echo "[$name $*: status $?: $(echo $said)]"
	fi
}
net() {
	LD_LIBRARY_PATH=$libraries
	export LD_LIBRARY_PATH
	one "$@"
	unset LD_LIBRARY_PATH
}
list() { # HEADING PROGRAM ARGUMENT...
	heading=$1
	shift
	printf '\n%s\n' "$heading"
	"$@"
	echo
}

cd "$folder" || exit
echo "[lmbench3.0 results for $(uname -a)]"
echo "[ENOUGH: $ENOUGH]"
echo "[MB: $mb]"
: >file
one lat_syscall null
one lat_syscall read
one lat_syscall write
one lat_syscall stat file
one lat_syscall open file
net lat_select -n 100 file
net lat_select -n 100 tcp
one lat_sig install
one lat_sig catch
one lat_sig prot "$programs/lat_sig"
one lat_pipe
one lat_unix
for what in fork exec shell; do one lat_proc $what; done
one lmdd label="File data write bandwidth: " of=data move="${mb}m" fsync=1 print=3
one lat_pagefault data
list '"mappings' one lat_mmap "${mb}m" data
list '"File system latency' one lat_fs "$folder"
for server in lat_udp lat_tcp lat_connect bw_tcp; do
	LD_LIBRARY_PATH=$libraries "$programs/$server" -s >/dev/null 2>&1 </dev/null
done
sleep 2
net lat_udp localhost
net lat_tcp localhost
# Each connection keeps a port for a minute. In 0.1 s, eleven times, it would need more than the kernel has (28,000), and
# then wait a second for each.
(
	[ "$ENOUGH" -lt 10000 ] || ENOUGH=10000
	net lat_connect localhost
)
list 'Socket bandwidth using localhost' net bw_tcp -m 10M localhost
one bw_unix
one bw_pipe
list '"read bandwidth' one bw_file_rd "${mb}m" io_only data
list '"Mmap read bandwidth' one bw_mmap_rd "${mb}m" mmap_only data
list '"libc bcopy unaligned' one bw_mem "${half}m" bcopy
list '"unrolled bcopy unaligned' one bw_mem "${half}m" fcp
list 'Memory read bandwidth' one bw_mem "${mb}m" frd
list 'Memory write bandwidth' one bw_mem "${mb}m" fwr
echo
for size in 0 16 64; do one lat_ctx -s $size 2 8 16; done
