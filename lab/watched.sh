# Runs a program in a guest: sh -c SCRIPT watched COMMAND...
# The end of standard input means that nobody waits any more. Then a program has ten seconds to remove its files; all
# processes it started end in any case. A script should ignore SIGTERM while it cleans up: timeout(1) is in its group
# and passes it on. It is sent again after five seconds, since a shell that has just forked loses it (the child has
# the shell's handler until it executes the program, which then never gets the signal).
exec 3<&0
setsid "$@" </dev/null 3<&- &
program=$!
{ cat <&3; kill -TERM "-$program"; sleep 5; kill -TERM "-$program"; sleep 5; kill -KILL "-$program"; } >/dev/null 2>&1 &
watcher=$!
wait "$program"
status=$?
kill "$watcher"
kill -KILL "-$program" 2>/dev/null
exit $status
