# stress-ng's measures, one after the other; prints the metrics as stress-ng writes them (--yaml).
#
#   sh -c "$(cat stress_ng.sh)" stress-ng PROGRAM LIBRARIES SECONDS FOLDER
#
# LIBRARIES: the folder of those that it needs; empty if they are installed. FOLDER: for its files, made and removed.
# As nobody where root runs this: as root, stress-ng refuses to measure exec.
program=$1 libraries=$2 seconds=$3 folder=$4
umask 022
rm -rf "$folder"
mkdir "$folder" || exit
trap 'rm -rf "$folder"' EXIT
trap 'trap "" HUP INT TERM PIPE; exit 1' HUP INT TERM PIPE
cd "$folder" || exit
as=
if [ "$(id -u)" = 0 ]; then
	chown 65534:65534 "$folder" || exit
	as="setpriv --reuid=65534 --regid=65534 --clear-groups"
	if ! $as test -x "$program"; then # such as below /root
		cp "$program" "$folder" || exit
		program=$folder/${program##*/}
		if [ -n "$libraries" ]; then
			mkdir "$folder/lib" && cp -R "$libraries/." "$folder/lib" || exit
			libraries=$folder/lib
		fi
	fi
fi
echo "metrics:"
for stressor in fork exec get pipe switch "cpu --cpu-method double" qsort; do
	set -- $stressor
	name=$1
	shift
	# A file, as another user can't open the pipe to the lab again.
	if said=$(LD_LIBRARY_PATH=$libraries $as "$program" --metrics-brief --temp-path "$folder" "--$name" 1 "$@" \
		--timeout "${seconds}s" --yaml metrics.yaml 2>&1 </dev/null) && [ -s metrics.yaml ]; then
		sed -n '/^ *- stressor:/,/^$/p' metrics.yaml
	else
		echo "# [$name: status $?: $(echo $said)]"
	fi
	rm -f metrics.yaml
done
