# UnixBench's own tests, of a single copy; prints its report.
#
#   sh -c "$(cat unixbench.sh)" unixbench COPY "" PASSES FOLDER
#
# PASSES: of its long tests. FOLDER: for its files, made and removed.
copy=$1 passes=$3 folder=$4
rm -rf "$folder" && mkdir "$folder" || exit
trap 'rm -rf "$folder"' EXIT
trap 'trap "" HUP INT TERM PIPE; exit 1' HUP INT TERM PIPE
export UB_RESULTDIR="$folder" UB_TMPDIR="$folder"
cd "$copy" && ./Run -c 1 -i "$passes"
