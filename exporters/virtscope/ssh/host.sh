# What runs on a watched host: the forced command of one key. `ssh-exporter authorized-key` prints it as one line without
# comments, so nothing is installed there. For any sh: dash, bash 3, BusyBox. A line may be followed by another on the
# same line, so each ends as it must; no single quotes, which are around all of it. Inside of $(...), bash before 4 takes
# the ) of a case for its end, unless there is a ( before the pattern.
#
# It reads requests, a line each, does those that are listed below and nothing else, and answers each in order:
#
#     REQUEST LENGTH    bytes of output that follow, then a line break
#     LENGTH            bytes on standard error that follow, then a line break
#     STATUS            exit status
PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/opt/xensource/bin LC_ALL=C proc=/proc sys=/sys;
export PATH LC_ALL; cd / || exit;
ulimit -c 0;
exec 3>&1;
# Output goes through a variable, so that its length is known, with an x behind it, as line breaks at the end get lost.
# One that has no end is cut, and what prints it ends. By its path, as BusyBox 1.22 gives a head of its own no options.
answer() {
  status=$({
    complaints=$({
      output=$({ "$@" 3>&- 4>&- 5>&-; echo $? >&4; printf x; } | /usr/bin/head -c 9000000);
      if [ ${#output} -lt 8900000 ]; then output=${output%x}; fi;
      # Passwords of guests' consoles stay here: of JSON a string, up to where it is cut; of xend's lists the rest of the
      # line but for the parentheses that end it, as a password may have some.
      case $request in (*"list -l")
        output=$(printf %sx "$output" | sed "
          s/\(\"[a-zA-Z_]*[pP]assw[a-z]*\"[[:space:]]*:[[:space:]]*\"\)[^\"\\\\]*\(\\\\.[^\"\\\\]*\)*\"\{0,1\}/\1\"/g;
          s/(\([a-zA-Z_]*[pP]assw[a-z]*\)[[:space:]].*[^)]\()*\)\$/(\1 \2/");
        output=${output%x};;
      esac;
      printf "%s %s\n%s\n" "$request" ${#output} "$output" >&3;
    } 2>&1 4>&5 | /usr/bin/head -c 100000);
    printf "%s\n%s\n" ${#complaints} "$complaints" >&3;
  } 5>&1);
  echo ${status:-1};
};
# The client has gone when sshd has, or when nothing is asked for five minutes: whatever hangs ends with this session.
trap "" USR1;
{
  idle=0; trap idle=0 USR1;
  while [ $idle -lt 20 ] && sleep 15 && kill -0 $PPID; do idle=$((idle + 1)); done;
  kill -9 -$$ || kill -9 $$;
} </dev/null >/dev/null 2>&1 3>&- &
guard=$!;
echo virtscope 1;
while IFS= read -r request; do
  kill -USR1 $guard;
  case $request in
    openvz)
      cd $proc; limits="bc/*/resources";
      for each in user_beancounters bc/resources; do if [ -e $each ]; then limits=$each; fi; done;
      answer grep "" vz/version vz/stats vz/vestat vz/veinfo vz/latency vz/vzquota $limits bc/*/ioacct; cd /;;
    net) cd $sys/class/net 2>/dev/null; answer grep "" $proc/net/dev */device/nodename; cd /;;
    xen) cd $sys/hypervisor; answer grep "" version/major version/minor version/extra; cd /;;
    "xentop -b -f -n -x -v -i 1" | "xentop -b -n -x -v -i 1") answer $request;;
    "xl list -v -c" | "xl list -v" | "xl list" | "xl list -l" | "xm list" | "xm list -l") answer $request;;
    "xl info" | "xl cpupool-list" | "xl vcpu-list" | "xm info" | "xm cpupool-list" | "xm vcpu-list") answer $request;;
    "xl sched-credit" | "xl sched-credit2" | "xl sched-rtds" | "xm sched-credit" | "xm sched-credit2") answer $request;;
    "xl psr-cmt-show cache-occupancy" | "xl psr-cmt-show total-mem-bandwidth") answer $request;;
    "xl psr-cmt-show local-mem-bandwidth") answer $request;;
    "vzlist -H -o veid,name" | "vzlist -H -o veid,hostname" | "vzlist -H -o veid,ostemplate") answer $request;;
    *) request=unknown; answer false;;
  esac;
done;
kill -9 -$$ || kill $guard
